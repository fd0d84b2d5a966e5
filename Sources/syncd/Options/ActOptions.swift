import ArgumentParser
import EntitlementSync
import Entitlements
import Foundation
import HTTPStorage
import SyncCore
import SyncService

/// The options of an act on a customer, which happens once.
struct ActOptions: ParsableArguments {
    @Flag(
        help: """
            For an act of the operator: print access before and after, and write nothing. For an import of the formats \
            parse-mongo and revenuecat: print what each customer would get.
            """)
    var dryRun = false

    @Option(
        help: ArgumentHelp(
            "For an act of the operator: a text that makes it happen once, however often the command is repeated "
                + "(default: a new one for each command).", valueName: "key"))
    var idempotencyKey: String?

    /// Returns `true` if an act goes through the operator's acts, because an option or a server asks for it.
    func isUsed(with options: StoreOptions) throws -> Bool {
        try dryRun || idempotencyKey != nil || options.actsRemotely()
    }

    /// Performs an act at the remote server, or on the store that `local` returns, and prints the outcome.
    ///
    /// - Parameter local: The acts on a server's store, and the name of the operator.
    func perform(
        _ act: CommandAct, on account: String, reason: String, _ options: StoreOptions,
        local: () throws -> (SupportActs, operatorName: String)
    ) async throws {
        guard !dryRun || idempotencyKey == nil else { throw Failure.exclude("dry-run", "idempotency-key") }
        guard !reason.allSatisfy(\.isWhitespace) else {
            throw Failure(.usage, "--reason is required: a text for the audit list")
        }
        let key = dryRun ? nil : idempotencyKey ?? HostServices.system.randomUUID()
        let outcome: JSON
        do {
            if try options.actsRemotely() {
                let (server, token) = try options.operatedServer()
                let bytes = try await server.client.act(
                    act.path, on: account, act.body(reason: reason), key: key, token: { _ in token })
                outcome = try JSON(parsing: bytes)
            } else {
                let (acts, name) = try local()
                let parameters = ActParameters(act.members.mapValues { $0 })
                outcome = try await OperatorActs(acts).perform(
                    OperatorAct(act.kind, account: account, actor: name, reason: reason, parameters: parameters),
                    key: key
                ).json
            }
        } catch {
            // Another key would act again, if this act happened.
            if let key, (error as? AccountError)?.mayHaveHappened ?? (error is BackendError) {
                warn("to repeat this, pass --idempotency-key \(key)")
            }
            throw error
        }
        try options.output.show(outcome, or: Self.text(outcome))
    }

    private static func text(_ outcome: JSON) -> String {
        let account = outcome["account"]?.string?.singleLine ?? ""
        let act = outcome["act"]?.string ?? ""
        var entry = ""
        if case .number(let number)? = outcome["entry"] { entry = " (audit entry \(number))" }
        let isDryRun = entry.isEmpty
        var lines = [isDryRun ? "dry run, nothing is written: \(act) for \(account)" : "\(act) for \(account)\(entry)"]
        if let code = outcome["recovery_code"]?.string { lines.append("  recovery code \(code)") }
        lines += changes(in: outcome).map { "  \($0)" }
        if let receiver = outcome["to"] {
            let name = receiver["account"]?.string?.singleLine ?? ""
            lines += changes(in: receiver).map { "  \(name): \($0)" }
        }
        if let end = outcome["expires"]?.string { lines.append("  paid until \(end)") }
        lines += (outcome["takenFrom"]?.elements ?? []).map { "  taken from \(($0.string ?? "").singleLine)" }
        lines += (outcome["warnings"]?.elements ?? []).map { "  warning: \(($0.string ?? "").singleLine(atMost: 500))" }
        return lines.joined(separator: "\n")
    }

    /// The differences between the states before and after, one line each.
    private static func changes(in state: JSON) -> [String] {
        let (before, after) = (state["before"] ?? .null, state["after"] ?? .null)
        var lines: [String] = []
        for (name, value) in (before.members ?? [:]).sorted(by: { $0.key < $1.key }) where name != "access" {
            lines.append("\(name): \(value.line) before, \((after[name] ?? .null).line) after")
        }
        for (name, access) in (before["access"]?.members ?? [:]).sorted(by: { $0.key < $1.key }) {
            let next = after["access"]?[name]
            // An erased account has no access, so only what it had is a change.
            guard next != access, next != nil || access["granted"] == .bool(true) else { continue }
            lines.append("\(name.singleLine): \(summary(of: access)) before, \(summary(of: next)) after")
        }
        return lines.isEmpty ? ["nothing changes"] : lines
    }

    private static func summary(of access: JSON?) -> String {
        guard case .bool(let isGranted)? = access?["granted"] else { return "nothing" }
        guard isGranted else { return "denied (\(access?["reason"]?.string ?? ""))" }
        return "granted " + (access?["until"]?.string.map { "until \($0)" } ?? "for good")
    }
}

/// The act of the operator API that a command stands for.
struct CommandAct {
    var kind: OperatorAct.Kind
    var members: [String: JSON] = [:]

    /// An act with the members that are not `nil`.
    init(_ kind: OperatorAct.Kind, _ members: [String: JSON?] = [:]) {
        (self.kind, self.members) = (kind, members.compactMapValues { $0 })
    }

    /// The last part of the path.
    var path: String {
        switch kind {
        case .grant: "grants"
        case .refund, .reinstatement: "refunds"
        case .transfer: "transfers"
        case .recovery, .erasure, .sessions: kind.rawValue
        }
    }

    func body(reason: String) -> [String: AccountClient.Member] {
        var body = members.compactMapValues { member -> AccountClient.Member? in
            switch member {
            case .string(let text): .text(text)
            case .number(let number): .number(number)
            case .bool(let flag): .flag(flag)
            default: nil
            }
        }
        body["reason"] = .text(reason)
        if kind == .reinstatement { body["reinstate"] = .flag(true) }
        return body
    }
}

extension StoreOptions {
    /// Returns `true` if the command acts or reads at a server for its operator: there is a token, and no local store.
    func actsRemotely() throws -> Bool {
        guard localText == nil, let remoteText, StoreURL.isServer(remoteText) else { return false }
        return try server.operatorToken() != nil
    }

    /// Opens the store for a command that only reads. For the operator of a remote server, that is a copy of the
    /// customer's ledgers there.
    func openStoreToRead() async throws -> EntitlementStore {
        guard try actsRemotely(), let name = accountText else { return try await openStore() }
        let (server, token) = try operatedServer()
        let answer = try JSON(parsing: try await server.client.ledgers(of: name, token: { _ in token }))
        guard let own = answer["account"]?.string, let incarnation = answer["incarnation"]?.string else {
            throw Failure(.failed, "\(server.origin): the answer is none of ours; is this the right server?")
        }
        let (account, local) = (try Account(own, incarnation: incarnation), MemoryBackend())
        let keys = try LedgerKeys(account)
        for (member, key) in [("ledger", keys.ledger), ("serverLedger", keys.serverLedger)] {
            guard let text = answer[member]?.string, let bytes = Data(base64Encoded: text) else { continue }
            _ = try await local.write(Array(bytes), to: key, if: .any)
        }
        try await AccountDirectory(backend: local).adopt(account)
        let policy = answer["policy"]?.string.flatMap { TrustPolicy(rawValue: $0) }
        return try await EntitlementStore(
            catalog: try await catalog.load(orOf: server), local: local, account: account,
            environment: catalog.environmentID, clock: clock.source,
            ownServer: EntitlementStore.OwnServer(policy: policy), host: try clock.host())
    }
}
