import ArgumentParser
import EntitlementSync
import Entitlements
import Foundation
import SyncCore
import SyncService

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
        let evidence = Evidence.reinstated(reference, reason: reason, signedAt: try origin.signatureDate(support))
        let command = CommandAct(.reinstatement, origin.members(of: reference))
        try await support.record(evidence, summary: "reinstatement", reason: reason, as: command, creation, options) {
            store, receipt in
            let isNew = !receipt.newFacts.isEmpty
            return (
                [("transactionID", .string(transaction)), ("isNew", .bool(isNew))],
                "\(isNew ? "reinstated" : "not refunded, nothing to reverse"): \(transaction) for \(store.account)"
            )
        }
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
        let evidence = Evidence.renewal(
            of: origin.reference(transaction, environment: options.catalog.environmentID), willRenew: !cancelled,
            graceEnd: try date(grace, option: "--grace"), isInBillingRetry: billingRetry,
            pendingProduct: pending.map { ProductID($0) }, signedAt: try origin.signatureDate(support))
        try await support.record(evidence, summary: "renewal state", reason: reason.reason, creation, options) {
            store, receipt in
            let isNew = !receipt.newFacts.isEmpty
            return (
                [("transactionID", .string(transaction)), ("isNew", .bool(isNew))],
                "\(isNew ? "recorded" : "unchanged"): renewal state of \(transaction) for \(store.account)"
            )
        }
    }
}

struct RecordCredit: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "credit",
        abstract: "Record paid time for a group, as stated by a system that keeps no purchases.",
        discussion: """
            With --until, the credit extends the group from its end to the stated end. It adds nothing if this time is \
            already covered. With --for, it adds the duration to the group's end, each time it is run.

            With --as-server, --for records a purchase of the store "support" that support gives away. It can be \
            refunded, and one --transaction adds the time once.

            Examples:
              syncd record credit random --until 2027-01-31 --source campaign
              syncd record credit random --for P1M --local sqlite:store.sqlite --account alice
            """, aliases: ["grant"])

    @Argument(help: "The group's id.")
    var group: String

    @Option(help: ArgumentHelp("The end of the paid time: RFC 3339, or a plain date.", valueName: "date"))
    var until: String?

    @Option(
        name: .customLong("for"),
        help: ArgumentHelp(
            "The paid time to add to the end of the group, or from --date if the group has ended by then, instead of "
                + "--until: an ISO 8601 duration such as P1M or P14D. Under accelerated sandbox time it is shorter.",
            valueName: "duration"))
    var duration: String?

    @Option(
        name: [.customLong("date"), .customLong("asserted-at")],
        help: ArgumentHelp(
            "The date of the statement: RFC 3339, or a plain date (default: now).", valueName: "date"))
    var assertedAt: String?

    @Option(help: ArgumentHelp("The name of the system or campaign.", valueName: "name"))
    var source: String = "promotion"

    @Option(
        help: ArgumentHelp(
            "With --as-server and --for: the transaction's id (default: a random one).", valueName: "id"))
    var transaction: String?

    @Option(
        help: ArgumentHelp(
            "With --as-server and --for, in an auto-renewable group: the level of the time (default: the lowest level "
                + "of the group's products).", valueName: "number"))
    var level: Int64?

    @OptionGroup var support: SupportOptions
    @OptionGroup var reason: SupportReason
    @OptionGroup var creation: CreationOptions
    @OptionGroup var options: StoreOptions

    func validate() throws {
        if (until == nil) == (duration == nil) { throw ValidationError("pass either --until or --for") }
        guard duration == nil || !support.asServer else { return }
        if transaction != nil { throw ValidationError("--transaction applies to --as-server with --for only") }
        if level != nil { throw ValidationError("--level applies to --as-server with --for only") }
    }

    func run() async throws {
        try support.checkIsUsed(by: reason)
        let assertedAt = try date(assertedAt, option: "--date")
        let (statedEnd, duration) = (try date(until, option: "--until"), try paidTime())
        if support.transfer, statedEnd != nil {
            throw Failure(.usage, "--transfer does not apply to --until: the time is of no purchase")
        }
        let summary = "credit of \(group) " + (statedEnd.map { "until \($0)" } ?? "for \(duration)")
        try await support.record(summary: summary, reason: reason.reason, as: command, creation, options) {
            acts, order in
            guard let statedEnd else { return try await credit(duration, at: assertedAt, acts, order) }
            var outcome = try await acts.record(evidence(until: statedEnd, assertedAt), order)
            if let warning = acts.catalog.warning(ofTimeWithoutLevelIn: GroupID(group)) { outcome.warnings = [warning] }
            return outcome
        } onDevice: { store in
            let addedEnd = try await end(after: duration, assertedAt: assertedAt, in: store)
            let until = statedEnd ?? addedEnd
            if let warning = store.catalog.warning(ofTimeWithoutLevelIn: GroupID(group)) { warn("warning: \(warning)") }
            let former = try await store.snapshot()[group: GroupID(group)]?.periods
            let isNew = try await !store.record(evidence(until: until, assertedAt)).newFacts.isEmpty
            let subscription = try await store.snapshot()[group: GroupID(group)]
            let isAdded = subscription?.periods != former
            let end = Timeline(subscription?.periods ?? []).end(reaching: until)
            let members: [(String, JSON)] = [
                ("group", .string(group)), ("isNew", .bool(isNew)), ("added", .bool(isAdded)),
                ("expires", JSON(subscription?.expires?.description)),
            ]
            try options.output.show((members, text(until, added: isAdded, end: end, account: store.account)), of: store)
        }
    }

    /// The act of the operator API. There, time until a date is a purchase, too.
    private var command: CommandAct {
        CommandAct(
            .grant,
            [
                "group": .string(group), "until": until.map(JSON.string), "for": duration.map(JSON.string),
                "date": assertedAt.map(JSON.string), "source": .string(source), "level": level.map(JSON.number),
                "transaction": transaction.map(JSON.string),
                "environment": .string(options.catalog.environmentID.rawValue),
            ])
    }

    private func evidence(until: Timestamp, _ assertedAt: Timestamp?) -> Evidence {
        .asserted(
            GroupID(group), until: until, source: SourceID(source), assertedAt: assertedAt,
            environment: options.catalog.environmentID)
    }

    /// Adds the duration as a purchase that support gives away.
    private func credit(
        _ duration: CalendarDuration, at date: Timestamp?, _ acts: SupportActs, _ order: SupportActs.Order
    ) async throws -> SupportActs.Outcome {
        let id = TransactionID(transaction ?? HostServices.system.randomUUID())
        do {
            return try await acts.credit(
                duration, to: GroupID(group), level: level, from: SourceID(source), in: options.catalog.environmentID,
                transaction: id, at: date, order)
        } catch {
            // Another id would add the time again, if it was added.
            if error is BackendError { warn("to repeat this, pass --transaction \(id)") }
            throw error
        }
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

    /// The end of the group if `duration` is added to what `store` knows to be paid.
    private func end(
        after duration: CalendarDuration, assertedAt: Timestamp?, in store: EntitlementStore
    ) async throws -> Timestamp {
        let environment = options.catalog.environmentID
        let replay = try await store.replay()
        let date = replay.facts.assertionDate(assertedAt ?? store.clockStatus.now, in: environment)
        let start = replay.timelines[GroupID(group)]?.startOfTime(addedAt: date) ?? date
        return start.adding(store.catalog.policy.counted(duration, in: environment))
    }

    /// The duration from `--for`; zero without it.
    private func paidTime() throws -> CalendarDuration {
        guard let duration else { return .zero }
        let paid: CalendarDuration
        do { paid = try CalendarDuration(duration) } catch { throw Failure(.usage, "--for: \(error)") }
        guard paid != .zero else {
            throw Failure(.usage, "--for must be longer than zero, not \"\(duration.singleLine)\"")
        }
        guard paid != .forever else { throw Failure(.usage, "--for must be at most 100 years, not \"forever\"") }
        return paid
    }
}

struct RecordTransfer: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "transfer", abstract: "Move a purchase to another account, with --as-server.",
        discussion: """
            The subscription of the transaction moves with all its renewals.

            Example:
              syncd record transfer 2000001 --store app-store --to bob --account alice --as-server --reason "ticket 7" \
            --remote https://sync.example.com --token-file support.token
            """)

    @Argument(help: "The transaction's id.")
    var transaction: String

    @Option(help: ArgumentHelp("The account that gets the purchase.", valueName: "name"))
    var to: String

    @OptionGroup var origin: TransactionOptions
    @OptionGroup var support: SupportOptions
    @OptionGroup var reason: SupportReason
    @OptionGroup var options: StoreOptions

    func run() async throws {
        guard support.asServer, let account = options.accountText else {
            throw Failure(
                .usage, "a transfer requires --as-server, and --account with the account that has the purchase")
        }
        let reference = origin.reference(transaction, environment: options.catalog.environmentID)
        let command = CommandAct(.transfer, origin.members(of: reference, ["to": .string(to)]))
        try await support.act.perform(command, on: account, reason: reason.reason, options) {
            (try support.acts(CreationOptions(), options), support.operatorName ?? NSUserName())
        }
    }
}

extension Catalog {
    /// The warning that time without a level in `group` opens nothing; `nil` if it opens an entitlement, or if the
    /// group grants none.
    func warning(ofTimeWithoutLevelIn group: GroupID) -> String? {
        let members = products.filter { $0.kind.group == group }.map { Entitlement.Source.product($0.id) }
        let sources = entitlements.flatMap(\.grantedBy).filter { source in
            if case .level(group, _) = source { true } else { source == .group(group) || members.contains(source) }
        }
        guard !sources.isEmpty, !sources.contains(.group(group)) else { return nil }
        return "the time has no level, and no entitlement has the source group:\(group.rawValue.singleLine); "
            + "use --as-server with --for, or record a purchase of a product"
    }
}
