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
    /// The polling interval.
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

    /// A catalogue, and its digest.
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
            var failures = 0
            for await _ in signals {
                do throws(BackendError) {
                    try await project(&lease)
                    failures = 0
                } catch {
                    guard !Task.isCancelled else { break }
                    onError(error)
                    isProjecting.store(false, ordering: .relaxed)
                    failures = min(failures + 1, 5)
                    guard (try? await host.sleep(for: Self.pause * (1 << failures))) != nil else { break }
                }
            }
            isProjecting.store(false, ordering: .relaxed)
            group.cancelAll()
        }
    }

    /// Projects until nothing is left to do, or another server holds the lease.
    func project(_ lease: inout ProjectorLease) async throws(BackendError) {
        var state = try await latestState()
        var isDone = false
        while !isDone {
            if Task.isCancelled { return }
            guard let epoch = try await lease.hold(after: state.fence.epoch) else {
                return isProjecting.store(false, ordering: .relaxed)
            }
            if epoch != state.fence.epoch {
                guard try await tables.begin(epoch: epoch) else { return }
                state = try await tables.state()
            }
            isProjecting.store(true, ordering: .relaxed)
            isDone = try await step(&state)
            remember(state)
        }
    }

    /// The state in the database, which is created at the first call.
    private func latestState() async throws(BackendError) -> ProjectionTables.State {
        let state = self.state == nil ? try await tables.open() : try await tables.state()
        remember(state)
        return state
    }

    /// The state as this server saw it last.
    var state: ProjectionTables.State? { latest.withLock { $0 } }

    private func remember(_ state: ProjectionTables.State) { latest.withLock { $0 = state } }

    /// Performs one transaction. Returns `true` if nothing is left to do for now.
    ///
    /// - Throws: ``BackendError``. The state must be read again before the next call.
    func step(_ state: inout ProjectionTables.State) async throws(BackendError) -> Bool {
        let catalogue = catalogue.withLock { $0 }
        if state.position == nil {
            try await beginFirstRebuild(&state)
            return false
        }
        if state.rebuiltAfter == nil, state.catalogue != catalogue.digest { state.rebuiltAfter = RebuildPosition.start }
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
        var count = 0
        while true {
            var state = try await tables.state()
            if state.position != nil, state.rebuiltAfter == nil { break }
            if let epoch = try await lease.hold(after: state.fence.epoch) {
                if epoch != state.fence.epoch {
                    guard try await tables.begin(epoch: epoch) else { continue }
                    state = try await tables.state()
                }
                _ = try await step(&state)
                count += Self.batchCount
                onProgress(min(count, total), total)
            } else {
                do { try await host.sleep(for: Self.pause) } catch { throw .cancelled(.read) }
            }
        }
        try await lease.release()
        return try await tables.customerCount()
    }

    /// Takes the position in the changes from which to follow after the rebuild.
    private func beginFirstRebuild(_ state: inout ProjectionTables.State) async throws(BackendError) {
        var next = state
        next.position = Position.text(of: try await store.latestCursor().outcome)
        next.rebuiltAfter = RebuildPosition.start
        try await commit([], next, &state)
    }

    /// Derives the next accounts, in the order of their records, and at last removes the rows of accounts that the
    /// store does not have. A first rebuild gives no events, because no reader has seen a state before.
    private func rebuild(
        after: String, _ catalogue: Catalogue, _ state: inout ProjectionTables.State
    ) async throws(BackendError) {
        var next = state
        guard after == RebuildPosition.start || state.nextCatalogue == catalogue.digest else {
            // The catalogue has changed since the rebuild began.
            next.rebuiltAfter = RebuildPosition.start
            return try await commit([], next, &state)
        }
        next.nextCatalogue = catalogue.digest
        if let name = RebuildPosition.customer(after) {
            return try await removeUnknown(after: name, catalogue, next, &state)
        }
        let cursor: EntryKey? = after == RebuildPosition.start ? nil : try EntryKey(after)
        let page = try await store.list(prefix: AccountRecord.prefix, after: cursor, limit: Self.batchCount).outcome
        let names = page.items.compactMap { AccountRecord.escapedName(of: $0.key).flatMap(LedgerKeys.unescaped) }
        let statements = try await derive(
            names, catalogue.catalog, .all, hasEvents: state.catalogue != nil, &next)
        next.rebuiltAfter = page.next?.text ?? RebuildPosition.afterCustomer("")
        try await commit(statements, next, &state)
    }

    private func removeUnknown(
        after name: String, _ catalogue: Catalogue, _ state: ProjectionTables.State,
        _ current: inout ProjectionTables.State
    ) async throws(BackendError) {
        var next = state
        let names = try await tables.customers(after: name, limit: Self.pageCount)
        let statements = try await derive(
            names, catalogue.catalog, .unknown, hasEvents: state.catalogue != nil, &next)
        if let last = names.last {
            next.rebuiltAfter = RebuildPosition.afterCustomer(last)
        } else {
            (next.rebuiltAfter, next.nextCatalogue, next.catalogue) = (nil, nil, catalogue.digest)
        }
        try await commit(statements, next, &current)
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
            // The rows tell which transitions were missed.
            next.position = Position.text(of: try await store.latestCursor().outcome)
            next.rebuiltAfter = RebuildPosition.start
            try await commit([], next, &state)
            return false
        }
        let changed = ProjectedChanges(page)
        let due = try await tables.due(at: max(now, state.instant), limit: Self.batchCount)
        var statements = try await statements(for: changed)
        for names in changed.names.chunks(ofAtMost: Self.batchCount) {
            statements += try await derive(Array(names), catalog, .changed, hasEvents: true, &next)
        }
        // Those of this page are derived already. If their documents are unchanged, they are due in the next step.
        let isOnPage = Set(changed.names.map { Array($0.utf8) })
        let overdue = due.filter { !isOnPage.contains(Array($0.utf8)) }
        statements += try await derive(overdue, catalog, .all, hasEvents: true, &next)
        next.position = page.cursor.map { Position.text(of: $0) } ?? state.position
        let isDone = !page.hasMore && due.isEmpty
        // An idle projection records now and then that it has everything.
        let isIdle = statements.isEmpty && next.position == state.position
        let isStated = isDone && (!isIdle || now - (state.projected ?? 0) >= 5_000)
        if isStated { next.projected = now }
        guard isStated || !isIdle else { return isDone }
        try await commit(statements, next, &state)
        return isDone
    }

    /// The statements for changed sessions and aliases.
    private func statements(for changes: ProjectedChanges) async throws(BackendError) -> [SQLStatement] {
        let records = RecordStore(backend: store)
        var statements: [SQLStatement] = []
        for (key, name, id) in changes.sessions {
            // A session outlives its account for a while.
            guard let record = try await records.read(key, as: SessionRecord.self)?.value,
                try await records.account(name)?.value.activeAccount?.incarnation == record.incarnation
            else {
                statements.append(
                    SQLStatement("DELETE FROM sessions WHERE account = $1 AND session = $2", [.text(name), .text(id)]))
                continue
            }
            statements += ProjectionSchema.sessions.insertions(of: [
                [.text(name), .text(id), .integer(record.rotated)]
            ])
        }
        for (key, alias) in changes.aliases {
            guard let account = try await records.read(key, as: AccountIdentity.self)?.value.account,
                try await records.isActive(account), let holder = account.name
            else {
                statements.append(SQLStatement("DELETE FROM aliases WHERE alias = $1", [.text(alias)]))
                continue
            }
            statements += ProjectionSchema.aliases.insertions(of: [[.text(alias), .text(holder)]])
        }
        return statements
    }

    // MARK: deriving

    /// The accounts of a list whose rows are derived.
    private enum Selection {
        case all
        /// Those whose documents have other versions than their rows.
        case changed
        /// Those that the store does not have.
        case unknown
    }

    /// The statements that bring the rows of accounts up to date, and append the events.
    private func derive(
        _ names: [String], _ catalog: Catalog, _ selection: Selection, hasEvents: Bool,
        _ state: inout ProjectionTables.State
    ) async throws(BackendError) -> [SQLStatement] {
        guard !names.isEmpty else { return [] }
        let documents = try await AccountDocuments.read(names, in: store)
        let former = try await tables.accounts(
            selection == .unknown ? names.filter { documents[Array($0.utf8)] == nil } : names)
        state.instant = max(state.instant, host.now())
        let instant = Timestamp(milliseconds: state.instant)
        var (removed, accounts): ([String], [ProjectedAccount]) = ([], [])
        var events: [ProjectionEvent] = []
        var side: [SQLStatement] = []
        for name in names {
            let (before, held) = (former[Array(name.utf8)], documents[Array(name.utf8)])
            switch selection {
            case .all: break
            case .changed: if let before, before.versions == held?.versions { continue }
            case .unknown: if held != nil { continue }
            }
            let after: ProjectedAccount?
            do throws(BackendError) { after = try await held?.projected(catalog, at: instant, former: before) } catch {
                guard error.kind == .damaged else { throw error }
                // The rows stay as they are, and the other accounts go on.
                onError(error)
                continue
            }
            if let after { accounts.append(after) } else if before != nil { removed.append(name) }
            if hasEvents { events += ProjectionEvent.events(from: before, to: after, at: state.instant) }
            // Also because an erasure has removed the names of the former account.
            if let held, after != nil, selection == .all || before?.versions.record != held.versions.record {
                side += try await sideRows(of: held)
            }
        }
        return ProjectionTables.replacement(removed: removed, with: accounts) + side
            + ProjectionTables.append(events, &state, tables.database.dialect)
    }

    /// The statements that replace the rows about the sessions of an account, and about the names by which it is found.
    private func sideRows(of documents: AccountDocuments) async throws(BackendError) -> [SQLStatement] {
        let (name, account) = (documents.record.name, documents.account)
        let records = RecordStore(backend: store)
        var sessions: [[SQLValue]] = []
        try await records.forEach(
            under: SessionRecord.prefix(of: name), as: SessionRecord.self
        ) { (_, held) throws(BackendError) in
            guard held.value.incarnation == account.incarnation else { return }
            sessions.append([.text(name), .text(held.value.id), .integer(held.value.rotated)])
        }
        var aliases: [[SQLValue]] = []
        let further = try await AccountEntries(records: records).keys(of: account, under: AccountAliases.prefix)
        for key in Set(further + [try AccountAliases.key(of: name)]) {
            guard let alias = ProjectedChanges.alias(of: key),
                try await records.read(key, as: AccountIdentity.self)?.value.account == account
            else { continue }
            aliases.append([.text(alias), .text(name)])
        }
        return [
            SQLStatement("DELETE FROM sessions WHERE account = $1", [.text(name)]),
            SQLStatement("DELETE FROM aliases WHERE account = $1", [.text(name)]),
        ] + ProjectionSchema.sessions.insertions(of: sessions) + ProjectionSchema.aliases.insertions(of: aliases)
    }

    /// Writes `statements` and the progress in one transaction, and makes `next` the state.
    private func commit(
        _ statements: [SQLStatement], _ next: ProjectionTables.State, _ state: inout ProjectionTables.State
    ) async throws(BackendError) {
        let statements = statements + [ProjectionTables.progress(next)]
        guard try await tables.database.write(statements, fence: state.fence) else {
            throw BackendError(
                .busy, operation: .write, disposition: .transient,
                message: "\(tables.database.label): another server or command has begun to write the projection")
        }
        state = next
        state.fence.step += 1
    }
}

/// The progress of a rebuild: the key of the last account record, or the name of the last row that was checked.
private enum RebuildPosition {
    static let start = ""
    private static let checking = "rows:"

    static func afterCustomer(_ name: String) -> String { checking + name }

    /// The name after which rows are checked; `nil` while records are read.
    static func customer(_ text: String) -> String? {
        text.hasPrefix(checking) ? String(text.dropFirst(checking.count)) : nil
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
        var known: Set<[UInt8]> = []
        for change in page.changes {
            let parts = change.key.text.split(separator: "/", omittingEmptySubsequences: false).map(String.init)
            if let name = Self.account(parts) {
                if known.insert(Array(name.utf8)).inserted { names.append(name) }
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
