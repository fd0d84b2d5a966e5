import EntitlementSync
import Entitlements
import SyncCore
import SyncProtocol

extension Projector {
    /// Derives what the next page of changes names, and what has changed with time. Returns `true` if nothing is left
    /// to do for now.
    func follow(_ catalog: Catalog, _ state: inout ProjectionTables.State) async throws(BackendError) -> Bool {
        let now = host.now()
        var next = state
        let page: ChangePage
        do throws(BackendError) {
            page = try await store.changes(
                since: try ChangePosition.cursor(state.position), limit: Self.pageCount
            ).outcome
        } catch {
            guard error.kind == .cursorExpired else { throw error }
            // The rebuild finds missed transitions by comparing with the rows.
            next.position = ChangePosition.text(of: try await store.latestCursor().outcome)
            next.rebuild = .start
            // A first rebuild does not look for rows whose records are gone.
            let isFirst = state.catalogue == nil
            let emptied = isFirst ? RecordTable.allCases.map { SQLStatement("DELETE FROM \($0.table.name)") } : []
            try await commit(emptied, next, &state)
            return false
        }
        var changes = ProjectedChanges(page)
        let external = try await externalAccounts(of: changes.external)
        let due = try await tables.due(at: max(now, state.instant), limit: Self.batchCount)
        for name in external + due { changes.add(name) }
        let forced = Set((external + due).map { Array($0.utf8) })
        var statements: [SQLStatement] = []
        for (table, keys) in changes.records {
            statements += try await table.statements(for: keys, in: store, onError: onError)
        }
        var rest = changes.names[...]
        while !rest.isEmpty {
            let batch = try await derive(
                rest.prefix(Self.batchCount), catalog, notBefore: next.instant,
                external: Set(external.map { Array($0.utf8) })
            ) { forced.contains($0) || $1?.versions != $2?.versions }
            rest = rest.dropFirst(batch.count)
            statements += self.statements(for: batch, &next) { Self.isAnnounced($0, state) }
            // Otherwise a damaged account would be due again at once.
            statements += ProjectionTables.postponement(of: batch.damaged, from: now)
            guard !rest.isEmpty, statements.reduce(0, { $0 + $1.byteCount }) >= Self.byteLimit else { continue }
            // The position stays. Accounts that are derived have the versions of the store afterwards.
            try await commit(statements, next, &state)
            (next, statements) = (state, [])
        }
        next.position = page.cursor.map { ChangePosition.text(of: $0) } ?? state.position
        let isDone = !page.hasMore && due.isEmpty
        // An idle projection records now and then that it has everything.
        let isIdle = statements.isEmpty && next.position == state.position
        let isStated = isDone && state.rebuild == nil && (!isIdle || now - (state.projected ?? 0) >= 5_000)
        if isStated { next.projected = now }
        guard isStated || !isIdle else { return isDone }
        try await commit(statements, next, &state)
        return isDone
    }

    /// Returns `true` if the change of an account gives events. Those of a first rebuild give none, because no reader
    /// has seen a state before; an account whose turn comes later in a first rebuild belongs to them.
    private static func isAnnounced(_ change: AccountChange, _ state: ProjectionTables.State) -> Bool {
        guard state.catalogue == nil, change.before == nil, let rebuild = state.rebuild, rebuild.phase == .accounts,
            let key = try? AccountRecord.key(of: change.name)
        else { return true }
        return !rebuild.cursor.utf8.lexicographicallyPrecedes(key.text.utf8)
    }

    /// The names of the accounts whose external id may have changed with the records under `keys`: those that have the
    /// ids now, and those whose rows have them.
    private func externalAccounts(of keys: [EntryKey]) async throws(BackendError) -> [String] {
        guard !keys.isEmpty else { return [] }
        let records = RecordStore(backend: store)
        var names = try await tables.holders(ofExternalIDs: keys.compactMap(ExternalIDs.id))
        let answers = try await store.read(keys.map { ReadRequest($0) }).outcome
        guard answers.count == keys.count else { throw LedgerRules.incomplete }
        for (key, answer) in zip(keys, answers) {
            do throws(BackendError) {
                guard let entry = try answer.get().entry else { continue }
                let holder: AccountIdentity = try records.decode(entry, key)
                if let name = holder.account?.name { names.append(name) }
            } catch {
                guard error.kind == .damaged else { throw error }
                onError(error)
            }
        }
        return names
    }
}

/// The position of a projection in the store's changes, as text.
enum ChangePosition {
    /// The position before the first change.
    private static let start = "start"

    static func text(of cursor: ChangeCursor?) -> String { cursor.map { CursorText.text(of: $0) } ?? start }

    static func cursor(_ text: String?) throws(BackendError) -> ChangeCursor? {
        guard let text, text != start else { return nil }
        return try CursorText.cursor(text)
    }
}

/// The accounts and records that a page of changes names.
private struct ProjectedChanges {
    /// The names of the changed accounts, each once.
    private(set) var names: [String] = []
    private(set) var records: [RecordTable: [EntryKey]] = [:]
    /// The keys of the records of external ids.
    private(set) var external: [EntryKey] = []
    private var known: Set<[UInt8]> = []

    init(_ page: ChangePage) {
        for key in page.changes.map(\.key) {
            if let name = LedgerKeys.account(ofSynced: key)?.name ?? AccountRecord.name(of: key) {
                add(name)
            } else if key.hasPrefix(ExternalIDs.prefix) {
                external.append(key)
            } else if let table = RecordTable.allCases.first(where: { key.hasPrefix($0.prefix) }) {
                records[table, default: []].append(key)
            }
        }
    }

    mutating func add(_ name: String) {
        if known.insert(Array(name.utf8)).inserted { names.append(name) }
    }
}
