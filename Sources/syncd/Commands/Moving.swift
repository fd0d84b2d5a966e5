import ArgumentParser
import EntitlementSync
import Entitlements

struct Import: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Record a history of purchases that another system kept. Importing it again adds nothing.")

    enum Format: String, ExpressibleByArgument, CaseIterable {
        case history
    }

    @Argument(help: "The file.")
    var file: String

    @Option(help: "What the file is: history, a JSON array of purchases.")
    var format: Format

    @OptionGroup var options: StoreOptions

    func run() async throws {
        let store = try await options.openStore()
        let history = try readDocument(file) { try History(json: $0, catalog: store.catalog) }
        let environment = options.catalog.environmentID
        let receipt = try await store.record(
            history.entries.map { entry in
                Evidence.reported(
                    entry.product, transaction: entry.transaction, date: entry.purchaseDate,
                    quantity: entry.quantity, expires: entry.expiresDate, store: entry.store,
                    environment: environment)
            })
        let refunds = try await store.record(
            history.entries.compactMap { entry in
                guard let revokedAt = entry.revokedAt else { return nil }
                return .refunded(
                    TransactionReference(store: entry.store, environment: environment, id: entry.transaction),
                    at: revokedAt)
            }
        ).newFacts.count
        let purchases = receipt.newFacts.count { if case .purchase = $0 { true } else { false } }
        try options.output.show(
            .object([
                ("account", .string("\(store.account)")), ("entries", .number(Int64(history.entries.count))),
                ("newPurchases", .number(Int64(purchases))), ("newRefunds", .number(Int64(refunds))),
            ]),
            or: "imported for \(store.account): \(plural(purchases, "new purchase")) and "
                + "\(plural(refunds, "new refund")) of \(plural(history.entries.count, "entry", "entries"))")
    }
}

struct Export: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Write what the ledger holds: a history that can be imported, or the ledger document itself.")

    enum Format: String, ExpressibleByArgument, CaseIterable {
        case history
        case ledger
    }

    @Option(help: "history: purchases and refunds as JSON. ledger: the account's facts as stored (Docs/ledger.proto).")
    var format: Format = .history

    @Option(help: "The file to write; standard output when not given.")
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
        abstract: "Replay a history by a catalogue's rules: no store, nothing is written.")

    @Option(help: "The history, a JSON file.")
    var history: String

    @OptionGroup var catalog: CatalogOptions
    @OptionGroup var clock: ClockOptions
    @OptionGroup var output: OutputOptions

    func run() async throws {
        let catalog = try catalog.load()
        let environment = self.catalog.environmentID
        let now = try clock.now()
        let history = try readDocument(history) { try History(json: $0, catalog: catalog) }
        let ledger = history.ledger(catalog: catalog, environment: environment)
        // A history is all there is: it stands for the account's ledger and the device's.
        let facts = Facts(account: ledger, device: ledger)
        let snapshot = Replay(facts, catalog: catalog, environment: environment).snapshot(at: now)
        try output.show(snapshot.json(account: nil), or: snapshot.text(account: nil))
    }
}

struct CatalogCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "catalog", abstract: "Work with catalogues.", subcommands: [CatalogCheck.self])

    func run() async throws {
        throw ValidationError("what about the catalogue? check")
    }
}

struct CatalogCheck: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "check", abstract: "Check a catalogue, and show what it sells.")

    @Argument(help: "The catalogue, a JSON file; --catalog or SYNCD_CATALOG when not given.")
    var file: String?

    @OptionGroup var options: CatalogOptions
    @OptionGroup var output: OutputOptions

    func run() async throws {
        var options = options
        options.file = file ?? options.file
        let catalog = try options.load()
        let rows = catalog.products.map { [$0.id.rawValue, $0.kind.summary, $0.name()] }
        let entitlements = catalog.entitlements.map { entitlement in
            [entitlement.id.rawValue, entitlement.grantedBy.map(\.description).joined(separator: " or ")]
        }
        let head =
            "sound: \(plural(catalog.products.count, "product")), "
            + plural(catalog.entitlements.count, "entitlement")
        try output.show(
            .object([
                ("products", .array(catalog.products.map { .string($0.id.rawValue) })),
                ("groups", .array(catalog.groups.map { .string($0.rawValue) })),
                ("entitlements", .array(catalog.entitlements.map { .string($0.id.rawValue) })),
            ]),
            or: ([head] + aligned(rows) + (entitlements.isEmpty ? [] : [""]) + aligned(entitlements))
                .joined(separator: "\n"))
    }
}

extension ProductKind {
    fileprivate var summary: String {
        switch self {
        case .consumable(let units): plural(Int(units), "unit")
        case .nonConsumable: "for good"
        case .nonRenewing(let group, let duration): "\(duration) in \(group)"
        case .autoRenewable(let group, let level, let duration, _): "\(duration) in \(group), level \(level), renews"
        }
    }
}
