import ArgumentParser
import EntitlementSync
import Entitlements
import Foundation
import StoreEvidence
import SyncCore
import SyncService

/// Acts of support on a server's own store.
struct SupportOptions: ParsableArguments {
    @Flag(
        help: ArgumentHelp(
            "Act in the server's name on its own store (--local sqlite:FILE --account NAME), with an entry in the "
                + "audit list. It requires --reason."))
    var asServer = false

    @Option(
        name: .customLong("operator"),
        help: ArgumentHelp(
            "With --as-server: the name in the audit list (default: the login name).", valueName: "name"))
    var operatorName: String?

    @Option(
        help: ArgumentHelp(
            "With --as-server: the server's rule for a purchase that two accounts claim: keepWithFirst, transfer or "
                + "share (SYNCD_OWNERSHIP; default: keepWithFirst).", valueName: "rule"))
    var ownership: String?

    @Flag(
        help: ArgumentHelp(
            "With --as-server: take the purchase from the account that has it. Without this flag, a purchase of "
                + "another account is refused."))
    var transfer = false

    /// The reason in facts, which users see. The operator's reason is in the audit list only.
    static let factReason = "support"

    /// The time for the verification of evidence. A device's clock may be wrong, and setting it forges no signature. So
    /// a date that is ahead of the clock is no reason to refuse a purchase there.
    var verificationTime: Timestamp {
        asServer ? Timestamp(milliseconds: HostServices.system.now()) : .latest
    }

    /// Throws if an option is used that applies to `--as-server` only.
    func checkIsUsed(by reason: SupportReason? = nil) throws(Failure) {
        guard !asServer else { return }
        if transfer { throw Failure(.usage, "--transfer applies to --as-server only") }
        if ownership != nil { throw Failure(.usage, "--ownership applies to --as-server only") }
        if operatorName != nil { throw Failure(.usage, "--operator applies to --as-server only") }
        if reason?.reason.isEmpty == false { throw Failure(.usage, "--reason applies to --as-server only") }
    }

    /// Records a statement about a transaction, and prints it.
    func record(
        _ fact: Fact, isDated: Bool = true, _ summary: String, _ reason: String, _ origin: TransactionOptions,
        _ creation: CreationOptions, _ options: StoreOptions
    ) async throws {
        guard origin.signedAt == nil else {
            throw Failure(.usage, "--signed-at does not apply to --as-server: the server's word is dated now")
        }
        let order = try order("record", summary, reason, options)
        let outcome = try await acts(creation, options).record(fact, isDated: isDated, order)
        try show(outcome, order, options)
    }

    /// Records paid time, and prints it.
    func grant(
        _ paid: SupportActs.PaidGroup, until: Timestamp?, adding duration: CalendarDuration, transaction: String?,
        at date: Timestamp?, _ reason: String, _ creation: CreationOptions, _ options: StoreOptions
    ) async throws {
        let acts = try acts(creation, options)
        let outcome: SupportActs.Outcome
        let order: SupportActs.Order
        if let until {
            if transfer { throw Failure(.usage, "--transfer does not apply to --until: the time is of no purchase") }
            order = try self.order("record", "grant of \(paid.group) until \(until)", reason, options)
            outcome = try await acts.grant(paid, until: until, assertedAt: date, order)
        } else {
            let id = TransactionID(transaction ?? HostServices.system.randomUUID())
            order = try self.order("record", "grant of \(paid.group) for \(duration)", reason, options)
            do { outcome = try await acts.add(duration, to: paid, transaction: id, at: date, order) } catch {
                // Another id would add the time again, if it was added.
                if error is BackendError { warn("to repeat this, pass --transaction \(id)") }
                throw error
            }
        }
        let catalog = until == nil ? nil : try options.catalog.load()
        let warning = catalog?.warning(ofTimeWithoutLevelIn: paid.group)
        try show(outcome, order, options, warnings: [warning].compactMap { $0 })
    }

    /// Records what evidence states, and prints it.
    func record(
        _ evidence: VerifiedEvidence, _ act: String, _ summary: String, _ reason: String,
        _ creation: CreationOptions, _ options: StoreOptions
    ) async throws {
        let order = try order(act, summary, reason, options)
        let outcome = try await acts(creation, options).record(evidence, order)
        try show(outcome, order, options, warnings: evidence.warnings)
    }

    /// The circumstances of an act.
    private func order(
        _ act: String, _ summary: String, _ reason: String, _ options: StoreOptions
    ) throws(Failure) -> SupportActs.Order {
        guard !reason.allSatisfy(\.isWhitespace) else {
            throw Failure(.usage, "--as-server requires --reason, a text for the audit list")
        }
        guard let account = options.accountText, account != "anonymous" else {
            throw Failure(.usage, "--as-server requires --account, the name of an account of the server")
        }
        return SupportActs.Order(
            account: account, act: act, summary: summary, operatorName: operatorName ?? NSUserName(), reason: reason,
            isTransfer: transfer)
    }

    private func acts(_ creation: CreationOptions, _ options: StoreOptions) throws -> SupportActs {
        if let remote = options.remoteText {
            throw Failure(
                .usage,
                "--as-server acts on the server's own store, not over \(remote.singleLine): pass --local sqlite:FILE "
                    + "on the server's machine, and no --remote")
        }
        guard !creation.create else {
            throw Failure(.usage, "--create does not apply to --as-server: the account must exist")
        }
        guard options.clock.at == nil else {
            throw Failure(.usage, "--at does not apply to --as-server: the server's word is dated now")
        }
        guard let local = options.localText else { throw StoreOptions.localIsMissing }
        let store = try StoreURL(local, option: "--local").open(host: .system).requiringExisting
        let rule: ServiceConfiguration.Ownership? = try Setting.choice(
            ownership ?? environmentVariable("SYNCD_OWNERSHIP"), of: "ownership")
        return SupportActs(
            store: store, catalog: try options.catalog.load(), ownership: rule ?? .keepWithFirst)
    }

    private func show(
        _ outcome: SupportActs.Outcome, _ order: SupportActs.Order, _ options: StoreOptions, warnings: [String] = []
    ) throws(Failure) {
        let name = "\(outcome.account)".singleLine
        guard let entry = outcome.entry else {
            let text = "nothing to do for \(name): \(order.summary.singleLine): the time is already covered"
            return try options.output.show(
                .object([
                    ("account", .string("\(outcome.account)")), ("entry", .null), ("facts", .array([])),
                    ("unknown", .array([])),
                ]), or: text)
        }
        var lines =
            outcome.facts.count > 20
            ? ["  \(outcome.facts.count) facts"] : outcome.facts.map { "  \($0.kindName)  \($0.summary)" }
        if let end = outcome.end { lines.append("  paid \(end.asEnd.map { "until \($0)" } ?? "for good")") }
        lines += outcome.formerOwners.map { "  taken from \("\($0)".singleLine)" }
        lines += outcome.unknown.map {
            "  warning: \(name) has no purchase \("\($0)".singleLine); the refund counts once there is one"
        }
        lines += warnings.map { "  warning: \($0)" }
        let head =
            "recorded by the server for \(name): \(order.summary.singleLine) (audit entry \(entry.number))"
        try options.output.show(
            .object([
                ("account", .string("\(outcome.account)")), ("entry", .number(Int64(entry.number))),
                ("facts", .array(outcome.facts.map { $0.json(ledger: "server") })),
                ("unknown", .array(outcome.unknown.map { .object($0.members) })),
                ("takenFrom", .array(outcome.formerOwners.map { .string("\($0)") })),
                ("expires", JSON(outcome.end?.asEnd?.description)),
                ("warnings", .array(warnings.map(JSON.string))),
            ]), or: ([head] + lines).joined(separator: "\n"))
    }
}

/// The reason of an act, for commands that have no other reason.
struct SupportReason: ParsableArguments {
    @Option(
        help: ArgumentHelp("With --as-server: the reason for the audit list, at most 1,000 bytes.", valueName: "text"))
    var reason: String = ""
}
