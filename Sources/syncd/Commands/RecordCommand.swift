import ArgumentParser
import EntitlementSync
import Entitlements
import SyncService

struct RecordCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "record", abstract: "Record a purchase, a refund, or another fact.",
        discussion: """
            Each of these commands writes to the store on this device, and can be repeated: recording a known fact \
            adds nothing. On a server's store (--local sqlite:FILE --account NAME) the account must exist.

            With --as-server, support acts in the server's name: the fact is written into the account's server ledger, \
            overrides what clients state, and is entered into the audit list with --reason. It works beside a running \
            server, or over --remote https://HOST with a token of the scope support. After an interruption, repeat the \
            command with the same transaction or --idempotency-key.
            """,
        subcommands: [
            RecordPurchase.self, RecordRefund.self, RecordReinstatement.self, RecordRenewal.self, RecordCredit.self,
            RecordTransfer.self, RecordFlag.self, RecordPending.self, RecordEvidence.self,
        ])
}

/// The origin of a transaction, and the date of its signature.
struct TransactionOptions: ParsableArguments {
    @Option(help: ArgumentHelp("The store that issued the transaction id, such as app-store.", valueName: "name"))
    var store: String = "reported"

    @Option(
        help: ArgumentHelp(
            "The date of the store's signature; verify the signature first. Signed statements replace unsigned "
                + "ones.", valueName: "date"))
    var signedAt: String?

    /// The date of the signature, which a statement by support cannot have.
    func signatureDate(_ support: SupportOptions) throws -> Timestamp? {
        guard signedAt == nil || !support.asServer else {
            throw Failure(.usage, "--signed-at does not apply to --as-server: the server's word is dated now")
        }
        return try date(signedAt, option: "--signed-at")
    }

    func reference(_ id: String, environment: EnvironmentID) -> TransactionReference {
        TransactionReference(store: StoreID(store), environment: environment, id: TransactionID(id))
    }

    /// The members of an act on a transaction.
    func members(of reference: TransactionReference, _ others: [String: JSON?] = [:]) -> [String: JSON?] {
        others.merging([
            "store": .string(reference.store.rawValue), "environment": .string(reference.environment.rawValue),
            "transaction": .string(reference.id.rawValue),
        ]) { $1 }
    }
}

struct RecordPurchase: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "purchase", abstract: "Record a purchase.")

    @Argument(help: "The product's id.")
    var product: String

    @Option(help: ArgumentHelp("The store's transaction id (default: a random one).", valueName: "id"))
    var transaction: String?

    @Option(
        help: ArgumentHelp("The date of the purchase: RFC 3339, or a plain date (default: now).", valueName: "date"))
    var date: String?

    @Option(
        parsing: .unconditional, help: ArgumentHelp("The quantity, 1 to 10,000 (default: 1).", valueName: "count"),
        transform: parsedQuantity)
    var quantity: Int64 = 1

    @Option(
        help: ArgumentHelp("The expiry date that the store stated, for an auto-renewable product.", valueName: "date"))
    var expires: String?

    @Option(
        help: ArgumentHelp(
            "The id of the first transaction of the subscription that this purchase renews (default: its own id).",
            valueName: "id"))
    var original: String?

    @Flag(help: "The purchase used the introductory offer.")
    var introductory = false

    @OptionGroup var origin: TransactionOptions
    @OptionGroup var support: SupportOptions
    @OptionGroup var reason: SupportReason
    @OptionGroup var creation: CreationOptions
    @OptionGroup var options: StoreOptions

    func run() async throws {
        try support.checkIsUsed(by: reason)
        let evidence = Evidence.reported(
            ProductID(product), transaction: transaction.map { TransactionID($0) },
            date: try syncd.date(date, option: "--date"), quantity: quantity,
            expires: try syncd.date(expires, option: "--expires"), original: original.map { TransactionID($0) },
            isIntroductory: introductory, store: StoreID(origin.store), environment: options.catalog.environmentID,
            signedAt: try origin.signatureDate(support))
        let summary = "purchase of \(quantity) \(product)"
        let command = CommandAct(
            .grant,
            [
                "product": .string(product), "transaction": transaction.map(JSON.string),
                "store": .string(origin.store), "environment": .string(options.catalog.environmentID.rawValue),
                "date": date.map(JSON.string), "expires": expires.map(JSON.string),
                "original": original.map(JSON.string), "quantity": quantity == 1 ? nil : .number(quantity),
                "introductory": introductory ? .bool(true) : nil,
            ])
        try await support.record(evidence, summary: summary, reason: reason.reason, as: command, creation, options) {
            store, receipt in
            let isNew = receipt.newFacts.contains { if case .purchase = $0 { true } else { false } }
            let transaction = receipt.transactions.first?.id.rawValue ?? ""
            let end = try await acceleratedEnd(in: store)
            return (
                [("transactionID", .string(transaction)), ("productID", .string(product)), ("isNew", .bool(isNew))]
                    + (end.map { [("expires", .string("\($0)"))] } ?? []),
                "\(isNew ? "recorded" : "already recorded"): \(product) as \(transaction) for \(store.account)"
                    + (end.map { ", in accelerated time until \($0)" } ?? "")
            )
        }
    }

    /// The end of the product's group in accelerated time; `nil` if time is not accelerated, or there is no end.
    private func acceleratedEnd(in store: EntitlementStore) async throws -> Timestamp? {
        guard store.catalog.policy.accelerates(options.catalog.environmentID),
            let group = store.catalog[product: ProductID(product)]?.kind.group
        else { return nil }
        return try await store.snapshot()[group: group]?.expires
    }
}

/// Reads a quantity. The library checks its range.
private func parsedQuantity(_ text: String) throws -> Int64 {
    guard let number = Int64(text) else {
        throw ValidationError("a quantity is a whole number from 1 to 10,000")
    }
    return number
}

struct RecordRefund: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "refund", abstract: "Record the refund of a purchase.")

    @Argument(help: "The transaction's id. The purchase need not be recorded yet.")
    var transaction: String

    @Option(
        help: ArgumentHelp(
            "The date from which the purchase no longer counts: RFC 3339, or a plain date (default: now).",
            valueName: "date"))
    var date: String?

    @Option(
        help: ArgumentHelp(
            "The store's reason; with --as-server, the reason for the audit list. At most 1,000 bytes.",
            valueName: "text"))
    var reason: String = ""

    @OptionGroup var origin: TransactionOptions
    @OptionGroup var support: SupportOptions
    @OptionGroup var creation: CreationOptions
    @OptionGroup var options: StoreOptions

    func run() async throws {
        try support.checkIsUsed()
        let reference = origin.reference(transaction, environment: options.catalog.environmentID)
        let evidence = Evidence.refunded(
            reference, at: try syncd.date(date, option: "--date"), reason: reason,
            signedAt: try origin.signatureDate(support))
        let command = CommandAct(.refund, origin.members(of: reference, ["date": date.map(JSON.string)]))
        try await support.record(evidence, summary: "refund", reason: reason, as: command, creation, options) {
            store, receipt in
            let isNew = !receipt.newFacts.isEmpty
            let isKnown = try await store.replay().facts[reference] != nil
            let note = isKnown ? "" : " (the purchase is still unknown here)"
            return (
                [
                    ("transactionID", .string(transaction)), ("isNew", .bool(isNew)),
                    ("purchaseKnown", .bool(isKnown)),
                ], "\(isNew ? "refunded" : "already refunded"): \(transaction) for \(store.account)\(note)"
            )
        }
    }
}

struct RecordFlag: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "flag", abstract: "Mark a non-consumable product as owned, without a transaction.")

    @Argument(help: "The product's id.")
    var product: String

    @Flag(help: "Clear the flag. Under the rule purchasedWins a flag that was ever set still counts.")
    var clear = false

    @OptionGroup var creation: CreationOptions
    @OptionGroup var options: StoreOptions

    func run() async throws {
        let store = try await options.openStore(creating: creation)
        let fact = try await store.flag(ProductID(product), isSet: !clear)
        let verb = fact == nil ? "unchanged" : clear ? "cleared" : "set"
        let members: [(String, JSON)] = [("productID", .string(product)), ("isNew", .bool(fact != nil))]
        try options.output.show((members, "\(verb): flag of \(product) for \(store.account)"), of: store)
    }
}

struct RecordPending: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "pending", abstract: "Record a purchase that awaits approval.")

    @Argument(help: "The product's id.")
    var product: String

    @Flag(help: "Record that the request was declined or withdrawn.")
    var withdraw = false

    @OptionGroup var creation: CreationOptions
    @OptionGroup var options: StoreOptions

    func run() async throws {
        let store = try await options.openStore(creating: creation)
        let id = ProductID(product)
        let isNew = try await !store.record(withdraw ? .withdrawn(id) : .deferred(id)).newFacts.isEmpty
        let verb = isNew ? withdraw ? "withdrawn" : "pending" : "unchanged"
        let members: [(String, JSON)] = [("productID", .string(product)), ("isNew", .bool(isNew))]
        try options.output.show((members, "\(verb): \(product) for \(store.account)"), of: store)
    }
}
