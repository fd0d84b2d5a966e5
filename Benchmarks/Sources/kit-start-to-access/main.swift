import EntitlementKit
import EntitlementSync
import Entitlements
import Foundation

// The work of an app with EntitlementKit before its first screen: create a shop and ask it once. No network is used.

let clock = ContinuousClock()
let start = clock.now

func fail(_ reason: String) -> Never {
    FileHandle.standardError.write(Data("kit-start-to-access: \(reason)\n".utf8))
    exit(1)
}

/// Records purchases of all products in turn, three hours apart, and writes the ledger document to `FOLDER/ledger`.
@MainActor
func record(_ count: Int, in shop: Shop, folder: URL) async throws {
    let store = try await shop.store()
    let products = store.catalog.products
    let first = Date(timeIntervalSince1970: 1_577_836_800)
    for number in 0..<count {
        try await shop.record(
            products[number % products.count].id.rawValue, transaction: "transaction-\(number)",
            date: first.addingTimeInterval(Double(number) * 10_800))
    }
    let ledger = try await store.localLedgers().account
    try Data(LedgerDocument(ledger: ledger).encoded()).write(to: folder.appending(path: "ledger"))
}

let arguments = CommandLine.arguments.dropFirst()
if arguments == ["nothing"] { exit(0) }
guard arguments.count == 4, let number = arguments.last else {
    fail(
        """
        usage: kit-start-to-access access CATALOGUE FOLDER SERVER, prints the nanoseconds from main to the answer
               kit-start-to-access record CATALOGUE FOLDER COUNT
               kit-start-to-access nothing
        """)
}
let (catalogue, folder) = (URL(filePath: CommandLine.arguments[2]), URL(filePath: CommandLine.arguments[3]))
do {
    if arguments.first == "record" {
        try await record(Int(number) ?? 0, in: Shop(catalog: catalogue, folder: folder), folder: folder)
    } else {
        let shop = Shop(catalog: catalogue, server: number, folder: folder)
        let access = try await shop.access(to: "random-owls")
        let elapsed = (clock.now - start).components
        print(elapsed.seconds * 1_000_000_000 + elapsed.attoseconds / 1_000_000_000)
        exit(access.isGranted ? 0 : 10)
    }
} catch {
    fail("\(error)")
}
