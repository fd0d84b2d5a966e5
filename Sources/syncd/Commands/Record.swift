import ArgumentParser
import EntitlementSync
import Entitlements

struct Record: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Record that something happened.",
        subcommands: [
            RecordPurchase.self, RecordRefund.self, RecordReinstatement.self, RecordRenewal.self, RecordGrant.self,
            RecordFlag.self, RecordPending.self,
        ])

    func run() async throws {
        throw ValidationError("record what? purchase, refund, reinstatement, renewal, grant, flag or pending")
    }
}

/// Where a transaction comes from, and whether its store signed what is recorded.
struct TransactionOptions: ParsableArguments {
    @Option(help: "The store that the transaction id is from.")
    var store: String = "reported"

    @Option(
        help: "The date of the store's signature, which you have verified. Signed statements are the stronger ones.")
    var signedAt: String?

    func signatureDate() throws -> Timestamp? { try date(signedAt, option: "--signed-at") }

    func reference(_ id: String, environment: EnvironmentID) -> TransactionReference {
        TransactionReference(store: StoreID(store), environment: environment, id: TransactionID(id))
    }
}

struct RecordPurchase: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "purchase", abstract: "Record that something was bought.")

    @Argument(help: "The product's id.")
    var product: String

    @Option(help: "The store's transaction id; a new random one when not given.")
    var transaction: String?

    @Option(help: "When it was bought; now when not given.")
    var date: String?

    @Option(parsing: .unconditional, help: "How many, 1 to 10000.", transform: parsedQuantity)
    var quantity: Int64 = 1

    @Option(help: "The end that the store gave, for a subscription that it renews.")
    var expires: String?

    @Option(help: "The first transaction of the subscription that this one renews.")
    var original: String?

    @Flag(help: "It was sold at the introductory offer.")
    var introductory = false

    @OptionGroup var origin: TransactionOptions
    @OptionGroup var options: StoreOptions

    func run() async throws {
        let evidence = Evidence.reported(
            ProductID(product), transaction: transaction.map { TransactionID($0) },
            date: try syncd.date(date, option: "--date"), quantity: quantity,
            expires: try syncd.date(expires, option: "--expires"), original: original.map { TransactionID($0) },
            isIntroductory: introductory, store: StoreID(origin.store), environment: options.catalog.environmentID,
            signedAt: try origin.signatureDate())
        let store = try await options.openStore()
        let receipt = try await store.record(evidence)
        let isNew = receipt.newFacts.contains { if case .purchase = $0 { true } else { false } }
        let transaction = receipt.transactions.first?.id.rawValue ?? ""
        try options.output.show(
            .object([
                ("account", .string("\(store.account)")), ("transactionID", .string(transaction)),
                ("productID", .string(product)), ("isNew", .bool(isNew)),
            ]),
            or: "\(isNew ? "recorded" : "already recorded"): \(product) as \(transaction) for \(store.account)")
    }
}

/// A quantity argument; whether it is in range is for the library to say.
private func parsedQuantity(_ text: String) throws -> Int64 {
    guard let number = Int64(text) else {
        throw ValidationError("a quantity is a number from 1 to 10000")
    }
    return number
}

struct RecordRefund: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "refund", abstract: "Record that a purchase was taken back.")

    @Argument(help: "The transaction's id. The purchase need not be known yet.")
    var transaction: String

    @Option(help: "From when on it counts nothing; now when not given.")
    var date: String?

    @Option(help: "Why, in the store's words.")
    var reason: String = ""

    @OptionGroup var origin: TransactionOptions
    @OptionGroup var options: StoreOptions

    func run() async throws {
        let date = try syncd.date(date, option: "--date")
        let store = try await options.openStore()
        let reference = origin.reference(transaction, environment: options.catalog.environmentID)
        let fact = try await store.record(
            .refunded(reference, at: date, reason: reason, signedAt: try origin.signatureDate())
        ).newFacts.first
        let isKnown = try await store.replay().facts[reference] != nil
        let note = isKnown ? "" : " (its purchase is not known here yet)"
        try options.output.show(
            .object([
                ("account", .string("\(store.account)")), ("transactionID", .string(transaction)),
                ("isNew", .bool(fact != nil)), ("purchaseKnown", .bool(isKnown)),
            ]),
            or: "\(fact == nil ? "already refunded" : "refunded"): \(transaction) for \(store.account)\(note)")
    }
}

struct RecordFlag: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "flag", abstract: "Mark a non-consumable as owned, without a transaction.")

    @Argument(help: "The product's id.")
    var product: String

    @Flag(help: "Take the mark back. Under purchasedWins a mark once set counts all the same.")
    var clear = false

    @OptionGroup var options: StoreOptions

    func run() async throws {
        let store = try await options.openStore()
        let fact = try await store.flag(ProductID(product), isSet: !clear)
        let verb = fact == nil ? "unchanged" : clear ? "cleared" : "set"
        try options.output.show(
            .object([
                ("account", .string("\(store.account)")), ("productID", .string(product)),
                ("isNew", .bool(fact != nil)),
            ]),
            or: "\(verb): flag of \(product) for \(store.account)")
    }
}

struct RecordPending: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "pending", abstract: "Record that a purchase waits for somebody's approval.")

    @Argument(help: "The product's id.")
    var product: String

    @Flag(help: "The request was declined or taken back.")
    var withdraw = false

    @OptionGroup var options: StoreOptions

    func run() async throws {
        let store = try await options.openStore()
        let id = ProductID(product)
        let receipt = try await store.record(withdraw ? .withdrawn(id) : .deferred(id))
        let verb = receipt.newFacts.isEmpty ? "unchanged" : withdraw ? "withdrawn" : "pending"
        try options.output.show(
            .object([
                ("account", .string("\(store.account)")), ("productID", .string(product)),
                ("isNew", .bool(!receipt.newFacts.isEmpty)),
            ]),
            or: "\(verb): \(product) for \(store.account)")
    }
}
