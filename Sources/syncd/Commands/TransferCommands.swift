import ArgumentParser
import EntitlementSync
import Entitlements

struct Export: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Export the ledger as a purchase history or as a ledger document.",
        discussion: """
            The history has the purchases as the account's server sees them. It omits those that the server refused, \
            transferred or has not verified, and says so. A ledger document has the account's own facts only.
            """)

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
        let store = try await options.openStoreToRead()
        let bytes: [UInt8]
        switch format {
        case .ledger:
            bytes = LedgerDocument(ledger: try await store.localLedgers().account).encoded()
        case .history:
            let replay = try await store.replay()
            let overruled = Set(replay.purchasesOverruledByServer)
            if !overruled.isEmpty {
                warn("omitted \(plural(overruled.count, "purchase")) that the server does not count; see conflicts")
            }
            bytes = Array((replay.facts.history(of: options.catalog.environmentID, without: overruled) + "\n").utf8)
        }
        guard let output else { return try writeOutput(bytes) }
        try writeFile(bytes, to: output)
    }
}

extension Facts {
    fileprivate func history(of environment: EnvironmentID, without omitted: Set<Purchase>) -> String {
        let counted = purchases.filter { $0.transaction.environment == environment && !omitted.contains($0) }
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
