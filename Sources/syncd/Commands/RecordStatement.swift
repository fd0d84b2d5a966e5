import ArgumentParser
import EntitlementSync
import Entitlements

struct RecordReinstatement: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "reinstatement", abstract: "Record that a refund was reversed: the purchase counts again.")

    @Argument(help: "The transaction's id.")
    var transaction: String

    @Option(help: "Why, in the store's words.")
    var reason: String = ""

    @OptionGroup var origin: TransactionOptions
    @OptionGroup var options: StoreOptions

    func run() async throws {
        let reference = origin.reference(transaction, environment: options.catalog.environmentID)
        let evidence = Evidence.reinstated(reference, reason: reason, signedAt: try origin.signatureDate())
        let store = try await options.openStore()
        let isNew = try await !store.record(evidence).newFacts.isEmpty
        try options.output.show(
            .object([
                ("account", .string("\(store.account)")), ("transactionID", .string(transaction)),
                ("isNew", .bool(isNew)),
            ]),
            or: "\(isNew ? "reinstated" : "not refunded, nothing to reverse"): \(transaction) for \(store.account)")
    }
}

struct RecordRenewal: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "renewal", abstract: "Record how a subscription goes on that its store renews.")

    @Argument(help: "The id of the subscription's first transaction.")
    var transaction: String

    @Flag(help: "The store will not renew it.")
    var cancelled = false

    @Option(help: "Until when access goes on although a payment failed.")
    var grace: String?

    @Flag(help: "A payment failed, and the store keeps trying.")
    var billingRetry = false

    @Option(help: "What it renews as, when that is another product.")
    var pending: String?

    @OptionGroup var origin: TransactionOptions
    @OptionGroup var options: StoreOptions

    func run() async throws {
        let line = origin.reference(transaction, environment: options.catalog.environmentID)
        let evidence = Evidence.renewal(
            of: line, willRenew: !cancelled, graceEnd: try date(grace, option: "--grace"),
            isInBillingRetry: billingRetry, pendingProduct: pending.map { ProductID($0) },
            signedAt: try origin.signatureDate())
        let store = try await options.openStore()
        let isNew = try await !store.record(evidence).newFacts.isEmpty
        try options.output.show(
            .object([
                ("account", .string("\(store.account)")), ("transactionID", .string(transaction)),
                ("isNew", .bool(isNew)),
            ]),
            or: "\(isNew ? "recorded" : "unchanged"): how \(transaction) goes on, for \(store.account)")
    }
}

struct RecordGrant: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "grant",
        abstract: "Record that a group is paid until a date, by the word of a system that keeps no purchases.")

    @Argument(help: "The group.")
    var group: String

    @Option(help: "Until when. The time from the end so far to this date is added, never more.")
    var until: String

    @Option(help: "Names the system, or the occasion.")
    var source: String = "promotion"

    @Option(help: "As of when the system says so; now when not given.")
    var assertedAt: String?

    @OptionGroup var options: StoreOptions

    func run() async throws {
        guard let until = try date(until, option: "--until") else { return }
        let evidence = Evidence.asserted(
            GroupID(group), until: until, source: SourceID(source),
            assertedAt: try date(assertedAt, option: "--asserted-at"), environment: options.catalog.environmentID)
        let store = try await options.openStore()
        let isNew = try await !store.record(evidence).newFacts.isEmpty
        let end = try await store.snapshot()[group: GroupID(group)]?.expires
        let state = end.map { ", its end is \($0)" } ?? ""
        try options.output.show(
            .object([
                ("account", .string("\(store.account)")), ("group", .string(group)), ("isNew", .bool(isNew)),
                ("expires", JSON(end?.description)),
            ]),
            or: "\(isNew ? "recorded" : "nothing new"): \(group) paid until \(until) for \(store.account)\(state)")
    }
}
