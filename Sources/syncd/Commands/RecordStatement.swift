import ArgumentParser
import EntitlementSync
import Entitlements

struct RecordReinstatement: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "reinstatement", abstract: "Record the reversal of a refund: the purchase counts again.")

    @Argument(help: "The transaction's id.")
    var transaction: String

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
        guard !support.asServer else {
            let revocation = Revocation(
                transaction: reference, revokedAt: nil, reason: SupportOptions.factReason,
                stamp: Stamp(logicalTime: .zero))
            return try await support.record(
                .revocation(revocation), "reinstatement", reason, origin, creation, options)
        }
        let evidence = Evidence.reinstated(reference, reason: reason, signedAt: try origin.signatureDate())
        let store = try await options.openStore(creating: creation)
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
        commandName: "renewal", abstract: "Record the renewal state of an auto-renewable subscription.")

    @Argument(help: "The id of the subscription's first transaction.")
    var transaction: String

    @Flag(help: "The subscription will not renew.")
    var cancelled = false

    @Option(
        help: ArgumentHelp("The end of the grace period after a failed payment.", valueName: "date"))
    var grace: String?

    @Flag(help: "A payment failed, and the store retries it.")
    var billingRetry = false

    @Option(help: ArgumentHelp("The product of the next period, if it changes.", valueName: "product"))
    var pending: String?

    @OptionGroup var origin: TransactionOptions
    @OptionGroup var support: SupportOptions
    @OptionGroup var reason: SupportReason
    @OptionGroup var creation: CreationOptions
    @OptionGroup var options: StoreOptions

    func run() async throws {
        try support.checkIsUsed(by: reason)
        let line = origin.reference(transaction, environment: options.catalog.environmentID)
        guard !support.asServer else {
            let state = RenewalState(
                line: line, willRenew: !cancelled, graceEnd: try date(grace, option: "--grace"),
                isInBillingRetry: billingRetry, pendingProduct: pending.map { ProductID($0) },
                stamp: Stamp(logicalTime: .zero))
            return try await support.record(
                .renewalState(state), "renewal state", reason.reason, origin, creation, options)
        }
        let evidence = Evidence.renewal(
            of: line, willRenew: !cancelled, graceEnd: try date(grace, option: "--grace"),
            isInBillingRetry: billingRetry, pendingProduct: pending.map { ProductID($0) },
            signedAt: try origin.signatureDate())
        let store = try await options.openStore(creating: creation)
        let isNew = try await !store.record(evidence).newFacts.isEmpty
        try options.output.show(
            .object([
                ("account", .string("\(store.account)")), ("transactionID", .string(transaction)),
                ("isNew", .bool(isNew)),
            ]),
            or: "\(isNew ? "recorded" : "unchanged"): renewal state of \(transaction) for \(store.account)")
    }
}

struct RecordGrant: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "grant",
        abstract: "Record paid time for a group, as stated by a system that keeps no purchases.",
        discussion: """
            The grant extends the group from its end to the stated end. It adds nothing if this time is already \
            covered.

            Examples:
              syncd record grant random --until 2027-01-31 --source campaign
              syncd record grant random --for P1M --local sqlite:store.sqlite --account alice
            """)

    @Argument(help: "The group's id.")
    var group: String

    @Option(help: ArgumentHelp("The end of the paid time: RFC 3339, or a plain date.", valueName: "date"))
    var until: String?

    @Option(
        name: .customLong("for"),
        help: ArgumentHelp(
            "The paid time from --date, instead of --until: an ISO 8601 duration such as P1M or P14D. Under "
                + "accelerated sandbox time it is shorter.", valueName: "duration"))
    var duration: String?

    @Option(
        name: [.customLong("date"), .customLong("asserted-at")],
        help: ArgumentHelp(
            "The date of the statement: RFC 3339, or a plain date (default: now).", valueName: "date"))
    var assertedAt: String?

    @Option(help: ArgumentHelp("The name of the system or campaign.", valueName: "name"))
    var source: String = "promotion"

    @OptionGroup var support: SupportOptions
    @OptionGroup var reason: SupportReason
    @OptionGroup var creation: CreationOptions
    @OptionGroup var options: StoreOptions

    func validate() throws {
        if (until == nil) == (duration == nil) { throw ValidationError("pass either --until or --for") }
    }

    func run() async throws {
        try support.checkIsUsed(by: reason)
        let assertedAt = try date(assertedAt, option: "--date")
        let until = try until(from: try assertedAt ?? options.clock.now())
        guard !support.asServer else {
            let reference = Assertion.Reference(
                group: GroupID(group), source: SourceID(source), until: until,
                environment: options.catalog.environmentID)
            return try await support.grant(reference, assertedAt: assertedAt, reason.reason, creation, options)
        }
        let evidence = Evidence.asserted(
            GroupID(group), until: until, source: SourceID(source), assertedAt: assertedAt,
            environment: options.catalog.environmentID)
        let store = try await options.openStore(creating: creation)
        let former = try await store.snapshot()[group: GroupID(group)]?.periods
        let isNew = try await !store.record(evidence).newFacts.isEmpty
        let subscription = try await store.snapshot()[group: GroupID(group)]
        let isAdded = subscription?.periods != former
        let end = Timeline(subscription?.periods ?? []).chains.first { $0.start < until && until <= $0.end }?.end
        try options.output.show(
            .object([
                ("account", .string("\(store.account)")), ("group", .string(group)), ("isNew", .bool(isNew)),
                ("added", .bool(isAdded)), ("expires", JSON(subscription?.expires?.description)),
            ]), or: text(until, added: isAdded, end: end, account: store.account))
    }

    /// The result, where `end` is the end of the time without a gap that contains `until`.
    private func text(_ until: Timestamp, added isAdded: Bool, end: Timestamp?, account: Account) -> String {
        if isAdded {
            return "recorded: \(group) paid until \(until) for \(account)" + (end.map { ", its end is \($0)" } ?? "")
        }
        guard let end else {
            return "no time added: the statement or a purchase of \(account) is dated \(until) or later"
        }
        let covered = end.asEnd.map { "until \($0)" } ?? "for good"
        return "no time added: \(group) is already covered \(covered) for \(account)"
    }

    /// The end from `--until`, or `start` plus the duration from `--for`.
    private func until(from start: Timestamp) throws -> Timestamp {
        guard let duration else { return try date(until, option: "--until") ?? start }
        let paid: CalendarDuration
        do { paid = try CalendarDuration(duration) } catch { throw Failure(.usage, "--for: \(error)") }
        guard paid != .zero else {
            throw Failure(.usage, "--for must be longer than zero, not \"\(duration.singleLine)\"")
        }
        guard paid != .forever else { throw Failure(.usage, "--for must be at most 100 years, not \"forever\"") }
        return start.adding(try options.catalog.load().policy.counted(paid, in: options.catalog.environmentID))
    }
}
