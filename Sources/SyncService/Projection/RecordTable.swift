import EntitlementSync
import Entitlements
import SyncCore

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// The tables each of whose rows follows from one record of the store.
enum RecordTable: CaseIterable, Sendable {
    case sessions, aliases, acts

    /// The prefix of the keys of the records.
    var prefix: String {
        switch self {
        case .sessions: SessionRecord.prefix
        case .aliases: AccountAliases.prefix
        case .acts: AuditLog.prefix
        }
    }

    var table: ProjectionSchema.Table {
        switch self {
        case .sessions: ProjectionSchema.sessions
        case .aliases: ProjectionSchema.aliases
        case .acts: ProjectionSchema.acts
        }
    }

    /// The primary key of the row of a record; `nil` for a key of another kind.
    func identity(of key: EntryKey) -> [SQLValue]? {
        switch self {
        case .sessions:
            guard let name = SessionRecord.account(of: key), let id = SessionRecord.id(of: key) else { return nil }
            return [.text(name), .text(id)]
        case .aliases: return AccountAliases.name(of: key).map { [.text($0)] }
        case .acts: return AuditLog.number(of: key).map { [.integer(Int64($0))] }
        }
    }

    /// The key of the record from which a row follows.
    func key(of identity: [SQLValue]) throws(BackendError) -> EntryKey {
        let text = identity.first?.text ?? ""
        switch self {
        case .sessions: return try SessionRecord.key(identity.last?.text ?? "", of: text)
        case .aliases: return try EntryKey(prefix + LedgerKeys.escaped(text))
        case .acts: return try AuditLog.key(of: Int(identity.first?.integer ?? 0))
        }
    }

    /// The row of a record; `nil` if the record gives none.
    ///
    /// - Throws: ``BackendError`` of kind `damaged`.
    private func row(
        of entry: Entry, _ key: EntryKey, _ identity: [SQLValue], _ records: RecordStore,
        _ accounts: [[UInt8]: Account]
    ) throws(BackendError) -> [SQLValue]? {
        switch self {
        case .sessions:
            let record: SessionRecord = try records.decode(entry, key)
            guard let account = accounts[Array(record.account.utf8)], record.isOf(account) else { return nil }
            return identity + [.integer(record.rotated), .text(record.incarnation)]
        case .aliases:
            let holder: AccountIdentity = try records.decode(entry, key)
            return holder.account?.name.map { identity + [.text($0)] }
        case .acts:
            let act: Act = try records.decode(entry, key)
            let date = try? Timestamp(act.date)
            return identity + [
                .text(act.account), SQLValue(date?.milliseconds), .text(act.act), .text(act.line), .text(act.actor),
                .text(act.detail), SQLValue(act.reason),
            ]
        }
    }

    /// An entry of the audit list.
    private struct Act: Codable {
        var date: String
        var act: String
        var account: String
        var line: String
        var actor: String
        var detail: String
        var reason: String?
    }

    /// The statements that bring the rows of records up to date.
    ///
    /// - Parameters:
    ///   - isRemoving: True to only remove the rows of records that are gone.
    ///   - onError: Receives the error of a damaged record, whose row stays as it is.
    func statements(
        for keys: [EntryKey], in store: any KeyValueBackend, isRemoving: Bool = false,
        onError: (BackendError) -> Void
    ) async throws(BackendError) -> [SQLStatement] {
        guard !keys.isEmpty else { return [] }
        let records = RecordStore(backend: store)
        let answers = try await store.read(keys.map { ReadRequest($0) }).outcome
        guard answers.count == keys.count else { throw LedgerRules.incomplete }
        let condition = table.keyCondition
        let accounts = try await accounts(of: isRemoving ? [] : keys, records)
        var statements: [SQLStatement] = []
        var rows: [[SQLValue]] = []
        for (key, answer) in zip(keys, answers) {
            guard let identity = identity(of: key) else { continue }
            do throws(BackendError) {
                if let entry = try answer.get().entry {
                    guard !isRemoving else { continue }
                    if let row = try row(of: entry, key, identity, records, accounts) {
                        rows.append(row)
                        continue
                    }
                }
                statements.append(SQLStatement("DELETE FROM \(table.name) WHERE \(condition)", identity))
            } catch {
                guard error.kind == .damaged else { throw error }
                onError(error)
            }
        }
        return statements + table.insertions(of: rows)
    }

    /// The incarnations of the accounts that have sessions, by the bytes of their names. The store keeps the sessions
    /// of an account that was erased until they end.
    private func accounts(
        of keys: [EntryKey], _ records: RecordStore
    ) async throws(BackendError) -> [[UInt8]: Account] {
        guard self == .sessions else { return [:] }
        let names = Set(keys.compactMap(SessionRecord.account).map { Array($0.utf8) })
        var requests: [ReadRequest] = []
        for name in names {
            requests.append(ReadRequest(try AccountRecord.key(of: String(decoding: name, as: UTF8.self))))
        }
        var accounts: [[UInt8]: Account] = [:]
        let answers = try await records.backend.read(requests).outcome
        guard answers.count == requests.count else { throw LedgerRules.incomplete }
        for (request, answer) in zip(requests, answers) {
            do throws(BackendError) {
                guard let entry = try answer.get().entry else { continue }
                let record: AccountRecord = try records.decode(entry, request.key)
                accounts[Array(record.name.utf8)] = record.activeAccount
            } catch {
                // It is reported with the account.
                guard error.kind == .damaged else { throw error }
            }
        }
        return accounts
    }
}
