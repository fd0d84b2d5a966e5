import EntitlementKit
import Foundation
import Observation

// A shop on the console. Each command is one run of the app; the folder stands for a device.

let usage = """
    usage: shop CATALOG SERVER FOLDER COMMAND
      show                     prints the shop page
      sign-up NAME             creates an account, with the password in SHOP_PASSWORD
      log-in NAME              logs in, with the password in SHOP_PASSWORD
      log-out                  logs out
      buy PRODUCT TRANSACTION  records a purchase that the seller has confirmed
      restore                  restores purchases
      has ENTITLEMENT          prints whether content is available
      watch ENTITLEMENT        prints the shop page at each change, until content is available

    """

func fail(_ message: String, _ code: Int32 = 1) -> Never {
    FileHandle.standardError.write(Data(message.utf8))
    exit(code)
}

let arguments = Array(CommandLine.arguments.dropFirst())
guard arguments.count >= 4 else { fail(usage, 2) }
let shop = Shop(
    catalog: URL(filePath: arguments[0]), server: arguments[1], folder: URL(filePath: arguments[2]))
let password = ProcessInfo.processInfo.environment["SHOP_PASSWORD"] ?? ""

@MainActor
func show(_ shop: Shop) {
    print(shop.account.map { "logged in: \($0)" } ?? "not logged in")
    for row in shop.rows { print("\(row.id)  \(row.name)  \(row.offer)") }
}

do {
    switch (arguments[3], Array(arguments.dropFirst(4))) {
    case ("show", []):
        try await shop.refresh()
        show(shop)
    case ("watch", let rest) where rest.count == 1:
        let current = Task { await shop.run() }
        while true {
            let (changes, change) = AsyncStream<Void>.makeStream()
            withObservationTracking {
                show(shop)
            } onChange: {
                change.yield()
            }
            if try await shop.access(to: rest[0]).isGranted { break }
            for await _ in changes.prefix(1) {}
        }
        current.cancel()
        await current.value
    case ("sign-up", let rest) where rest.count == 1:
        let codes = try await shop.signUp(rest[0], password: password, earlierPurchases: .adopt)
        print("signed up: \(rest[0]), with \(codes.count) recovery codes")
    case ("log-in", let rest) where rest.count == 1:
        try await shop.logIn(rest[0], password: password, earlierPurchases: .adopt)
        print("logged in: \(rest[0])")
    case ("log-out", []):
        try await shop.logOut()
        print("logged out")
    case ("buy", let rest) where rest.count == 2:
        try await shop.record(rest[0], transaction: rest[1])
        print("bought: \(rest[0])")
    case ("restore", []):
        print("restored: \(try await shop.restore())")
    case ("has", let rest) where rest.count == 1:
        let access = try await shop.access(to: rest[0])
        print(access.isGranted ? "available" : "not available: \(access.denial.map { "\($0)" } ?? "")")
    default: fail(usage, 2)
    }
} catch {
    // The first line is for the user, the second for the log.
    fail("\(error.localizedDescription)\n\(error)\n")
}
