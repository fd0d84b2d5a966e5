import EntitlementSync
import Entitlements
import HTTPTypes
import SyncCore
import SyncProtocol

extension EntitlementService {
    /// The response with everything that is kept of the caller's account. Secrets and their digests are left out;
    /// values under the account's other keys are listed by key and can be read at `/v1/kv`.
    func export(_ call: Call, of caller: AccountCaller) async throws -> ServiceResponse {
        guard !caller.isErased, let record = try await accounts.credentials.record(caller.credential.name),
            record.account == caller.account
        else { throw RequestError(.forbidden, "the account was erased") }
        let entries = try await store.ledgerEntries(caller.keys)
        try limiter.takeReads(
            entries.byteCount >> RequestLimiter.replayShift, account: caller.account.name ?? "", now: host.now())
        let ledger = try facts(in: entries.ledger, caller.keys.ledger)
        let server = try facts(in: entries.serverLedger, caller.keys.serverLedger)
        let lines = try await owners.all(of: caller.account)
        let members: [(String, JSON)] = [
            (
                "account",
                .object([
                    ("name", .string(record.name)), ("incarnation", .string(caller.account.incarnation)),
                    ("created", date(record.created)), ("issuer", JSON(record.issuer)),
                    ("recoveryCodeCount", .number(Int64(record.recoveryCodes.count))),
                ])
            ),
            ("sessions", .array(try await sessions(of: caller.account))),
            ("tokens", .array(try await recorder.tokens.all(of: caller.account).map { .string($0) })),
            ("lines", .array(lines.map { .object($0.line.members + [("since", date($0.since))]) })),
            ("ledger", .array(ledger.map(\.json))), ("serverLedger", .array(server.map(\.json))),
            ("keys", .array(try await otherKeys(of: caller))),
        ]
        return try call.response(Array(JSON.object(members).text().utf8), to: caller)
    }

    private func facts(in entry: Entry?, _ key: EntryKey) throws(BackendError) -> [Fact] {
        try entry.map { (entry) throws(BackendError) in try LedgerRules.stored(entry, key).records.map { Fact($0) } }
            ?? []
    }

    private func date(_ milliseconds: Int64) -> JSON { .string("\(Timestamp(milliseconds: milliseconds))") }

    /// The sessions of an account as JSON.
    func sessions(of account: Account) async throws(BackendError) -> [JSON] {
        var sessions: [JSON] = []
        let prefix = SessionRecord.prefix(of: account.name ?? "")
        try await accounts.records.forEach(under: prefix, as: SessionRecord.self) { (_, held) in
            guard held.value.isOf(account) else { return }
            sessions.append(
                .object([
                    ("created", date(held.value.created)), ("refreshed", date(held.value.rotated)),
                    ("expires", date(held.value.expires)),
                ]))
        }
        return sessions
    }

    private func otherKeys(of caller: AccountCaller) async throws(BackendError) -> [JSON] {
        var keys: [JSON] = []
        try await store.forEachPage(under: caller.keys.prefix, limit: 1_000) { page in
            for item in page.items where item.key != caller.keys.ledger && item.key != caller.keys.serverLedger {
                keys.append(.string(item.key.text))
            }
        }
        return keys
    }
}
