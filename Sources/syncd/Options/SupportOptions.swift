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
            "Act in the server's name, with an entry in the audit list: on the server's own store (--local sqlite:FILE "
                + "--account NAME), or over --remote https://HOST --token-file FILE. It requires --reason."))
    var asServer = false

    @Option(
        name: .customLong("operator"),
        help: ArgumentHelp(
            "With --as-server and --local: the name in the audit list (default: the login name). A server enters the "
                + "name of the token.", valueName: "name"))
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

    @OptionGroup var act: ActOptions

    /// The time for the verification of evidence. A device's clock may be wrong, and setting it forges no signature. So
    /// a date that is ahead of the clock is no reason to refuse a purchase there.
    var verificationTime: Timestamp {
        asServer ? Timestamp(milliseconds: HostServices.system.now()) : .latest
    }

    /// Throws if an option is used that applies to `--as-server` only.
    ///
    /// - Parameter hasDryRun: True if the command itself has a dry run.
    func checkIsUsed(by reason: SupportReason? = nil, orDryRun hasDryRun: Bool = false) throws(Failure) {
        guard !asServer else { return }
        if transfer { throw Failure(.usage, "--transfer applies to --as-server only") }
        if ownership != nil { throw Failure(.usage, "--ownership applies to --as-server only") }
        if operatorName != nil { throw Failure(.usage, "--operator applies to --as-server only") }
        if reason?.reason.isEmpty == false { throw Failure(.usage, "--reason applies to --as-server only") }
        if act.dryRun, !hasDryRun { throw Failure(.usage, "--dry-run applies to --as-server only") }
        if act.idempotencyKey != nil { throw Failure(.usage, "--idempotency-key applies to --as-server only") }
    }

    /// Records in the store of this device or, with `--as-server`, in the server ledger of the account.
    ///
    /// - Parameters:
    ///   - act: The act in the audit list.
    ///   - summary: The content of the act, for the audit list.
    ///   - command: The same act of the operator API; `nil` if the API has none.
    ///   - write: Writes into the server ledger. The outcome is printed.
    ///   - onDevice: Writes into the store of this device, and prints the result.
    func record(
        act: String = "record", summary: String, reason: String, as command: CommandAct? = nil,
        _ creation: CreationOptions, _ options: StoreOptions,
        _ write: (SupportActs, SupportActs.Order) async throws -> SupportActs.Outcome,
        onDevice: (EntitlementStore) async throws -> Void
    ) async throws {
        guard asServer else { return try await onDevice(try await options.openStore(creating: creation)) }
        let order = try order(act, summary, reason, options)
        if try self.act.isUsed(with: options) {
            guard var command else {
                throw Failure(
                    .usage,
                    "--remote, --dry-run and --idempotency-key do not apply to the \(summary.singleLine): "
                        + "pass --local sqlite:FILE on the server's machine, and none of them")
            }
            if transfer { command.members["transfer"] = .bool(true) }
            return try await self.act.perform(command, on: order.account, reason: reason, options) {
                (try acts(creation, options), order.operatorName)
            }
        }
        try show(try await write(try acts(creation, options), order), order, options)
    }

    /// Records `evidence`, and prints the result.
    ///
    /// - Parameter result: Describes the result on this device.
    func record(
        _ evidence: Evidence, summary: String, reason: String, as command: CommandAct? = nil,
        _ creation: CreationOptions, _ options: StoreOptions,
        result: (EntitlementStore, RecordingReceipt) async throws -> DeviceResult
    ) async throws {
        try await record(summary: summary, reason: reason, as: command, creation, options) {
            try await $0.record(evidence, $1)
        } onDevice: { store in
            try options.output.show(try await result(store, try await store.record(evidence)), of: store)
        }
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

    func acts(_ creation: CreationOptions, _ options: StoreOptions) throws -> SupportActs {
        if let remote = options.remoteText {
            throw Failure(
                .usage,
                "--as-server acts on the server's own store, or over \(remote.singleLine): pass either --local "
                    + "sqlite:FILE on the server's machine, or --remote with --token-file")
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
        _ outcome: SupportActs.Outcome, _ order: SupportActs.Order, _ options: StoreOptions
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
        lines += outcome.warnings.map { "  warning: \($0)" }
        let head =
            "recorded by the server for \(name): \(order.summary.singleLine) (audit entry \(entry.number))"
        try options.output.show(
            .object([
                ("account", .string("\(outcome.account)")), ("entry", .number(Int64(entry.number))),
                ("facts", .array(outcome.facts.map { $0.json(ledger: "server") })),
                ("unknown", .array(outcome.unknown.map { .object($0.members) })),
                ("takenFrom", .array(outcome.formerOwners.map { .string("\($0)") })),
                ("expires", JSON(outcome.end?.asEnd?.description)),
                ("warnings", .array(outcome.warnings.map(JSON.string))),
            ]), or: ([head] + lines).joined(separator: "\n"))
    }
}

/// The result of recording on a device: the members of the JSON object after the account, and the text.
typealias DeviceResult = (members: [(String, JSON)], text: String)

extension OutputOptions {
    /// Prints the result of recording in `store`.
    func show(_ result: DeviceResult, of store: EntitlementStore) throws(Failure) {
        try show(.object([("account", .string("\(store.account)"))] + result.members), or: result.text)
    }
}

/// The reason of an act, for commands that have no other reason.
struct SupportReason: ParsableArguments {
    @Option(
        help: ArgumentHelp("With --as-server: the reason for the audit list, at most 1,000 bytes.", valueName: "text"))
    var reason: String = ""
}
