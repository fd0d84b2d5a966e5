import ArgumentParser
import EntitlementSync
import Entitlements

struct Export: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Export the ledger as a purchase history or as a ledger document.")

    enum Format: String, ExpressibleByArgument, CaseIterable {
        case history
        case ledger
    }

    @Option(help: "The format: purchases and refunds as JSON, or the account's facts as stored.")
    var format: Format = .history

    @Option(help: ArgumentHelp("The file to write (default: standard output).", valueName: "file"))
    var output: String?

    @OptionGroup var options: StoreOptions

    func run() async throws {
        let store = try await options.openStore()
        let bytes: [UInt8]
        switch format {
        case .ledger:
            bytes = LedgerDocument(ledger: try await store.localLedgers().account).encoded()
        case .history:
            let facts = try await store.replay().facts
            bytes = Array((facts.history(environment: options.catalog.environmentID) + "\n").utf8)
        }
        guard let output else { return try writeOutput(bytes) }
        try writeFile(bytes, to: output)
    }
}

extension Facts {
    fileprivate func history(environment: EnvironmentID) -> String {
        let counted = purchases.filter { $0.transaction.environment == environment }
        return JSON.array(
            counted.map { purchase in
                var members: [(String, JSON)] = [
                    ("transactionID", .string(purchase.transaction.id.rawValue)),
                    ("productID", .string(purchase.product.rawValue)),
                    ("purchaseDate", .string("\(statedDate(of: purchase))")),
                    ("quantity", .number(purchase.quantity)),
                ]
                let store = purchase.transaction.store
                if store != .reported { members.append(("store", .string(store.rawValue))) }
                if let end = purchase.storeExpiry { members.append(("expiresDate", .string("\(end)"))) }
                if let revokedAt = revocation(of: purchase)?.revokedAt {
                    members.append(("revokedAt", .string("\(revokedAt)")))
                }
                return .object(members)
            }
        ).text()
    }
}

struct Evaluate: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Evaluate a purchase history under a catalogue's rules, without a store.",
        usage: "syncd evaluate --history <file> [<options>]")

    @Option(help: ArgumentHelp("The history, a JSON file as written by export.", valueName: "file"))
    var history: String

    @OptionGroup(title: CatalogOptions.title) var catalog: CatalogOptions
    @OptionGroup var clock: ClockOptions
    @OptionGroup var output: OutputOptions

    func run() async throws {
        let catalog = try catalog.load()
        let environment = self.catalog.environmentID
        let now = try clock.now()
        let history = try readDocument(history) { try History(json: $0, catalog: catalog) }
        let ledger = history.ledger(catalog: catalog, environment: environment)
        // The history serves as the account's ledger and the device's.
        let facts = Facts(account: ledger, device: ledger)
        let snapshot = Replay(facts, catalog: catalog, environment: environment).snapshot(at: now)
        try output.show(snapshot.json(account: nil), or: snapshot.text(account: nil))
    }
}
