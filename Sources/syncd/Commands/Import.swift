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
