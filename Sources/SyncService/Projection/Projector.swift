import EntitlementSync
package import Entitlements
package import SyncCore
import StoreEvidence
import SyncProtocol
import Synchronization

/// Derives rows about all accounts from the store's changes, for search, statistics, joins and notifications.
///
/// The rows follow from the store alone, so they can be derived again at any time. Nothing is decided from them, and
/// no write to the store waits for them. Of several servers one projects at a time, see ``ProjectorLease``.
///
/// The rows, the events and the position in the changes are written in one transaction. So each transition gives its
/// events exactly once, also after a crash and a take-over.
package final class Projector: Sendable {
    /// The number of changes that are read at once.
    private static let pageCount = 500
    /// The number of accounts in one transaction.
    private static let batchCount = 128
    /// The pause after which the store and the clock are looked at without a signal.
    private static let pause = Duration.seconds(1)

    /// The progress of a server's projection.
    package struct Progress: Hashable, Sendable {
        /// True if this server projects.
        package var isProjecting = false
        /// The time since the rows had all changes of the store, in milliseconds; `nil` if they never had.
        package var lag: Int64?
        /// True while all accounts are derived again.
        package var isRebuilding = false
    }

    private let store: any KeyValueBackend
    private let tables: ProjectionTables
    private let host: HostServices
    private let onError: @Sendable (BackendError) -> Void
    private let catalogue: Mutex<Catalogue>
    private let latest = Mutex<ProjectionTables.State?>(nil)
    private let isProjecting = Atomic(false)

    /// A catalogue, with the digest that tells it from others.
    private struct Catalogue: Sendable {
        let catalog: Catalog
        let digest: String

        init(_ catalog: Catalog, json: [UInt8]) { (self.catalog, digest) = (catalog, hexadecimalDigest(of: json)) }
    }

    /// A projector of `store` into `database`.
    ///
    /// - Parameters:
    ///   - catalog: The catalogue of the server.
    ///   - json: Its bytes, as the server offers them.
    ///   - onError: Receives errors. The projector tries again.
    package init(
        _ store: any KeyValueBackend, into database: any ProjectionDatabase, catalog: Catalog, json: [UInt8],
        host: HostServices, onError: @escaping @Sendable (BackendError) -> Void
    ) {
        (self.store, tables, self.host, self.onError) = (store, ProjectionTables(database), host, onError)
        catalogue = Mutex(Catalogue(catalog, json: json))
    }

    /// Replaces the catalogue. The rows of all accounts are derived again.
    package func use(_ catalog: Catalog, json: [UInt8]) {
        catalogue.withLock { $0 = Catalogue(catalog, json: json) }
    }

    /// The progress as this server saw it last.
    package var progress: Progress {
        let state = latest.withLock { $0 }
        return Progress(
            isProjecting: isProjecting.load(ordering: .relaxed),
            lag: state?.projected.map { max(0, host.now() - $0) }, isRebuilding: state?.rebuiltAfter != nil)
    }

    /// Projects until the task is cancelled.
    package func run() async {
        let wake = SignalHub()
        let signals = wake.subscribe()
        await withTaskGroup(of: Void.self) { group in
            let (store, host) = (store, host)
            group.addTask { for await _ in store.signals() { wake.signal() } }
            group.addTask { while (try? await host.sleep(for: Self.pause)) != nil { wake.signal() } }
            var lease = ProjectorLease(store, host: host)
            for await _ in signals {
                do throws(BackendError) { try await project(&lease) } catch {
                    if !Task.isCancelled { onError(error) }
                }
            }
            isProjecting.store(false, ordering: .relaxed)
            group.cancelAll()
        }
    }

    /// Projects until nothing is left to do, or another server holds the lease.
    func project(_ lease: inout ProjectorLease) async throws(BackendError) {
        var state = try await tables.open()
        remember(state)
        var isDone = false
        while !isDone {
            if Task.isCancelled { return }
            guard let epoch = try await lease.hold(after: state.epoch) else {
                return isProjecting.store(false, ordering: .relaxed)
            }
            if epoch != state.epoch {
                guard try await tables.begin(epoch: epoch) else { return }
                state = try await tables.state()
            }
            isProjecting.store(true, ordering: .relaxed)
            isDone = try await step(&state)
            remember(state)
        }
    }

    /// The state as this server saw it last.
    var state: ProjectionTables.State? { latest.withLock { $0 } }

    private func remember(_ state: ProjectionTables.State) { latest.withLock { $0 = state } }

    /// Performs one transaction. Returns `true` if nothing is left to do for now.
    ///
    /// - Throws: ``BackendError``. The state is read again before the next call.
    func step(_ state: inout ProjectionTables.State) async throws(BackendError) -> Bool {
        let catalogue = catalogue.withLock { $0 }
        if state.position == nil || state.version < ProjectionSchema.version {
            return try await beginRebuild(&state)
        }
        if state.rebuiltAfter == nil, state.catalogue != catalogue.digest { state.rebuiltAfter = "" }
        if let after = state.rebuiltAfter {
            try await rebuild(after: after, catalogue, &state)
            return false
        }
        return try await follow(catalogue.catalog, &state)
    }

    // MARK: rebuilding

    /// Derives all rows again, or waits until the server that holds the lease has done it.
    ///
    /// - Parameter onProgress: Receives the number of accounts that are derived, and of all accounts before.
    /// - Returns: The number of accounts.
    package func rebuild(onProgress: (_ count: Int, _ total: Int) -> Void) async throws(BackendError) -> Int {
        _ = try await tables.open()
        let total = try await tables.customerCount()
        try await tables.requestRebuild()
        var lease = ProjectorLease(store, host: host)
        var state = try await tables.state()
        while state.position == nil || state.rebuiltAfter != nil {
            if let epoch = try await lease.hold(after: state.epoch) {
                if epoch != state.epoch, try await tables.begin(epoch: epoch) { state = try await tables.state() }
                _ = try await step(&state)
            } else {
                do { try await host.sleep(for: Self.pause) } catch { throw .cancelled(.read) }
                state = try await tables.state()
            }
            onProgress(try await tables.customerCount(), total)
        }
        try await lease.release()
        return try await tables.customerCount()
    }

    /// Deletes all rows, and takes the position in the changes from which to follow after the rebuild.
    private func beginRebuild(_ state: inout ProjectionTables.State) async throws(BackendError) -> Bool {
        let cursor = try await store.latestCursor().outcome
        (state.version, state.position) = (ProjectionSchema.version, Position.text(of: cursor))
        (state.rebuiltAfter, state.catalogue, state.projected) = ("", nil, nil)
        let tables = ProjectionSchema.ofAccounts + [ProjectionSchema.sessions, ProjectionSchema.aliases]
        try await commit(tables.map { SQLStatement("DELETE FROM \($0.name)") }, state)
        return false
    }

    /// Derives the next accounts, in the order of their records. A first rebuild gives no events, because no reader has
    /// seen a state before.
    private func rebuild(
        after: String, _ catalogue: Catalogue, _ state: inout ProjectionTables.State
    ) async throws(BackendError) {
        let cursor: EntryKey? = after.isEmpty ? nil : try EntryKey(after)
        let page = try await store.list(prefix: AccountRecord.prefix, after: cursor, limit: Self.batchCount).outcome
        let names = page.items.compactMap { AccountRecord.escapedName(of: $0.key).flatMap(LedgerKeys.unescaped) }
        var next = state
        let isFirst = state.catalogue == nil
        var statements = try await derive(
            names, catalogue.catalog, isForced: true, hasEvents: !isFirst, &next)
        if isFirst { statements += try await sideRows(of: names) }
        next.rebuiltAfter = page.next?.text
        if page.next == nil { next.catalogue = catalogue.digest }
        try await commit(statements, next)
        state = next
    }

    /// The rows of the sessions of accounts, and of the names by which they are found.
    private func sideRows(of names: [String]) async throws(BackendError) -> [SQLStatement] {
        let records = RecordStore(backend: store)
        var sessions: [[SQLValue]] = []
        var aliases: [[SQLValue]] = []
        for name in names {
            try await records.forEach(
                under: SessionRecord.prefix(of: name), as: SessionRecord.self
            ) { (_, held) throws(BackendError) in
                sessions.append([.text(name), .text(held.value.id), .integer(held.value.rotated)])
            }
            guard let account = try await records.account(name)?.value.activeAccount else { continue }
            let further = try await AccountEntries(records: records).keys(of: account, under: AccountAliases.prefix)
            for key in Set(further + [try AccountAliases.key(of: name)]) {
                guard let alias = ProjectedChanges.alias(of: key),
                    try await records.read(key, as: AccountIdentity.self)?.value.account == account
                else { continue }
                aliases.append([.text(alias), .text(name)])
            }
        }
        return ProjectionSchema.sessions.insertions(of: sessions)
            + ProjectionSchema.aliases.insertions(of: aliases)
    }

    // MARK: following

    private func follow(_ catalog: Catalog, _ state: inout ProjectionTables.State) async throws(BackendError) -> Bool {
        let now = host.now()
        var next = state
        let page: ChangePage
        do throws(BackendError) {
            page = try await store.changes(since: try Position.cursor(state.position), limit: Self.pageCount).outcome
        } catch {
            guard error.kind == .cursorExpired else { throw error }
            // The rows tell which transitions were missed, so they are compared and not deleted.
            next.position = Position.text(of: try await store.latestCursor().outcome)
            next.rebuiltAfter = ""
            try await commit([], next)
            state = next
            return false
        }
        let changed = ProjectedChanges(page)
        let due = changed.names.isEmpty ? try await tables.due(at: now, limit: Self.batchCount) : []
        var statements = try await statements(for: changed)
        for names in changed.names.chunks(ofAtMost: Self.batchCount) {
            statements += try await derive(Array(names), catalog, isForced: false, hasEvents: true, &next)
        }
        statements += try await derive(due, catalog, isForced: true, hasEvents: true, &next)
        next.position = page.cursor.map { Position.text(of: $0) } ?? state.position
        let isDone = !page.hasMore && due.isEmpty
        // An idle projection records now and then that it has everything.
        let isIdle = statements.isEmpty && next.position == state.position
        let isStated = isDone && (!isIdle || now - (state.projected ?? 0) >= 5_000)
        if isStated { next.projected = now }
        if isStated || !isIdle { try await commit(statements, next) }
        state = next
        return isDone
    }

    /// The statements for changed sessions and aliases.
    private func statements(for changes: ProjectedChanges) async throws(BackendError) -> [SQLStatement] {
        let records = RecordStore(backend: store)
        var statements: [SQLStatement] = []
        for (key, name, id) in changes.sessions {
            let record = try await records.read(key, as: SessionRecord.self)?.value
            statements.append(
                SQLStatement("DELETE FROM sessions WHERE account = $1 AND session = $2", [.text(name), .text(id)]))
            guard let record else { continue }
            statements += ProjectionSchema.sessions.insertions(of: [
                [.text(name), .text(id), .integer(record.rotated)]
            ])
        }
        for (key, alias) in changes.aliases {
            let holder = try await records.read(key, as: AccountIdentity.self)?.value.account?.name
            statements.append(SQLStatement("DELETE FROM aliases WHERE alias = $1", [.text(alias)]))
            if let holder {
                statements += ProjectionSchema.aliases.insertions(of: [[.text(alias), .text(holder)]])
            }
        }
        return statements
    }

    // MARK: deriving

    /// The statements that bring the rows of accounts up to date, and append the events.
    ///
    /// - Parameters:
    ///   - isForced: `false` to leave accounts alone whose documents have the versions of their rows.
    private func derive(
        _ names: [String], _ catalog: Catalog, isForced: Bool, hasEvents: Bool, _ state: inout ProjectionTables.State
    ) async throws(BackendError) -> [SQLStatement] {
        guard !names.isEmpty else { return [] }
        let former = try await tables.accounts(names)
        let documents = try await AccountDocuments.read(names, in: store)
        let instant = Timestamp(milliseconds: host.now())
        var (removed, accounts): ([String], [ProjectedAccount]) = ([], [])
        var events: [ProjectionEvent] = []
        for name in names {
            let before = former[name]
            let held = documents[name]
            if !isForced, let before, before.versions == held?.versions { continue }
            let after = try await held?.projected(catalog, at: instant, former: before)
            if let after { accounts.append(after) } else if before != nil { removed.append(name) }
            if hasEvents { events += ProjectionEvent.events(from: before, to: after, at: instant.milliseconds) }
        }
        return ProjectionTables.replacement(removed: removed, with: accounts)
            + ProjectionTables.append(events, &state)
    }

    /// Writes `statements` and the progress in one transaction.
    private func commit(_ statements: [SQLStatement], _ state: ProjectionTables.State) async throws(BackendError) {
        let statements = statements + [ProjectionTables.progress(state)]
        guard try await tables.database.write(statements, epoch: state.epoch) else {
            throw BackendError(
                .busy, operation: .write, disposition: .transient,
                message: "\(tables.database.label): another server has taken over the projection")
        }
    }
}

/// The position of a projection in the store's changes, as text.
private enum Position {
    /// The position before the first change.
    private static let start = "start"

    static func text(of cursor: ChangeCursor?) -> String { cursor.map { CursorText.text(of: $0) } ?? start }

    static func cursor(_ text: String?) throws(BackendError) -> ChangeCursor? {
        guard let text, text != start else { return nil }
        return try CursorText.cursor(text)
    }
}

/// The accounts, sessions and aliases that a page of changes names.
private struct ProjectedChanges {
    /// The names of the changed accounts, each once.
    var names: [String] = []
    var sessions: [(key: EntryKey, name: String, id: String)] = []
    var aliases: [(key: EntryKey, alias: String)] = []

    init(_ page: ChangePage) {
        var known: Set<String> = []
        for change in page.changes {
            let parts = change.key.text.split(separator: "/", omittingEmptySubsequences: false).map(String.init)
            if let name = Self.account(parts) {
                if known.insert(name).inserted { names.append(name) }
            } else if parts.count == 4, parts[0] == "server", parts[1] == "sessions",
                let name = LedgerKeys.unescaped(parts[2])
            {
                sessions.append((change.key, name, parts[3]))
            } else if let alias = Self.alias(of: change.key) {
                aliases.append((change.key, alias))
            }
        }
    }

    /// The name that a key reserves; `nil` for any other key.
    static func alias(of key: EntryKey) -> String? {
        guard key.hasPrefix(AccountAliases.prefix) else { return nil }
        return LedgerKeys.unescaped(String(key.text.dropFirst(AccountAliases.prefix.count)))
    }

    private static func account(_ parts: [String]) -> String? {
        if parts.count == 4, parts[0] == "accounts", ["ledger", "decisions"].contains(parts[3]) {
            return LedgerKeys.unescaped(parts[1])
        }
        return parts.count == 3 && parts[0] == "server" && parts[1] == "accounts" ? LedgerKeys.unescaped(parts[2]) : nil
    }
}
