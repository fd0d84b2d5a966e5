import EntitlementSync
package import Entitlements
import StoreEvidence
package import SyncCore
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
    static let pageCount = 500
    /// The number of accounts in one transaction.
    static let batchCount = 256
    /// The size of a transaction, about, in bytes.
    static let byteLimit = 4 << 20
    /// The polling interval.
    private static let pause = Duration.seconds(1)
    /// The longest rest after work.
    private static let longestRest = Duration.seconds(2)

    /// The progress of a server's projection.
    package struct Progress: Hashable, Sendable {
        /// True if this server projects.
        package var isProjecting = false
        /// The time since the rows had all changes of the store, in milliseconds; `nil` if this is not known yet. While
        /// accounts are derived for the first time, the time since this began.
        package var lag: Int64?
        /// True while all accounts are derived again.
        package var isRebuilding = false
    }

    let store: any KeyValueBackend
    let tables: ProjectionTables
    let host: HostServices
    let onError: @Sendable (BackendError) -> Void
    private let catalogue: Mutex<Catalogue>
    private let latest = Mutex<ProjectionTables.State?>(nil)
    private let isProjecting = Atomic(false)
    private let lease: Mutex<ProjectorLease>

    /// A catalogue, and the digest of what the rows depend on.
    struct Catalogue: Sendable {
        let catalog: Catalog
        let digest: String

        init(_ catalog: Catalog, json: [UInt8]) {
            self.catalog = catalog
            digest = hexadecimalDigest(of: Self.essence(of: json) ?? json)
        }

        /// The members that change rows: not offerings, rules for content, and members for display.
        private static func essence(of json: [UInt8]) -> [UInt8]? {
            guard case .object(let members)? = try? JSON(parsing: json) else { return nil }
            let kept = members.filter { ["products", "entitlements", "policy"].contains($0.0) }.map { name, value in
                guard name == "products", case .array(let products) = value else { return (name, value) }
                let display = ["names", "forSale", "requiresAccount"]
                return (
                    name,
                    JSON.array(
                        products.map { product in
                            guard case .object(let members) = product else { return product }
                            return .object(members.filter { !display.contains($0.0) })
                        })
                )
            }
            return Array(JSON.object(kept).line.utf8)
        }
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
        lease = Mutex(ProjectorLease(store, host: host))
    }

    /// Replaces the catalogue. The rows of all accounts are derived again if they depend on what has changed.
    package func use(_ catalog: Catalog, json: [UInt8]) {
        catalogue.withLock { $0 = Catalogue(catalog, json: json) }
    }

    /// The progress as this server saw it last.
    package var progress: Progress {
        let state = latest.withLock { $0 }
        return Progress(
            isProjecting: isProjecting.load(ordering: .relaxed),
            lag: state?.projected.map { max(0, host.now() - $0) }, isRebuilding: state?.rebuild != nil)
    }

    /// Projects until the task is cancelled. Call ``release()`` then.
    package func run() async {
        let wake = SignalHub()
        let signals = wake.subscribe()
        await withTaskGroup(of: Void.self) { group in
            let (store, host) = (store, host)
            group.addTask { for await _ in store.signals() { wake.signal() } }
            group.addTask { while (try? await host.sleep(for: Self.pause)) != nil { wake.signal() } }
            var lease = lease.withLock { $0 }
            var failures = 0
            for await _ in signals {
                let elapsed = host.stopwatch()
                var rest = Duration.zero
                do throws(BackendError) {
                    try await project(&lease)
                    failures = 0
                    // Leaves most of the time to requests. What changes several times meanwhile is derived once.
                    rest = min(Self.longestRest, elapsed() * 9)
                } catch {
                    guard !Task.isCancelled else { break }
                    onError(error)
                    isProjecting.store(false, ordering: .relaxed)
                    failures = min(failures + 1, 5)
                    rest = Self.pause * (1 << failures)
                }
                self.lease.withLock { $0 = lease }
                guard (try? await host.sleep(for: rest)) != nil else { break }
            }
            isProjecting.store(false, ordering: .relaxed)
            group.cancelAll()
        }
    }

    /// Gives the lease up after ``run()`` has ended, so that another server goes on at once.
    package func release() async {
        var lease = lease.withLock { $0 }
        do throws(BackendError) { try await lease.release() } catch { onError(error) }
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
        let state = self.state == nil ? try await tables.open(onError: onError) : try await tables.state()
        remember(state)
        return state
    }

    /// The state as this server saw it last.
    var state: ProjectionTables.State? { latest.withLock { $0 } }

    private func remember(_ state: ProjectionTables.State) { latest.withLock { $0 = state } }

    /// Follows the changes that are next, and goes on with a rebuild that is under way. Returns `true` if nothing is
    /// left to do for now.
    ///
    /// - Throws: ``BackendError``. The state must be read again before the next call.
    func step(_ state: inout ProjectionTables.State) async throws(BackendError) -> Bool {
        let catalogue = catalogue.withLock { $0 }
        if state.position == nil {
            try await beginFirstRebuild(&state)
            return false
        }
        if state.rebuild == nil, state.catalogue != catalogue.digest { state.rebuild = .start }
        let isDone = try await follow(catalogue.catalog, &state)
        guard let position = state.rebuild else { return isDone }
        try await rebuild(position, catalogue, &state)
        return false
    }

    /// Derives all rows again, or waits until the server that holds the lease has done it.
    ///
    /// - Parameter onProgress: Receives the number of accounts that are derived, and of all accounts.
    /// - Returns: The number of accounts that have rows.
    package func rebuild(onProgress: (_ count: Int, _ total: Int) -> Void) async throws(BackendError) -> Int {
        _ = try await tables.open(onError: onError)
        var total = 0
        try await store.forEachPage(prefix: AccountRecord.prefix, limit: 10_000) { total += $0.items.count }
        try await tables.requestRebuild()
        var lease = ProjectorLease(store, host: host)
        while true {
            var state = try await tables.state()
            onProgress(min(Int(state.rebuilt), total), total)
            if state.position != nil, state.rebuild == nil { break }
            if let epoch = try await lease.hold(after: state.fence.epoch) {
                if epoch != state.fence.epoch {
                    guard try await tables.begin(epoch: epoch) else { continue }
                    state = try await tables.state()
                }
                _ = try await step(&state)
            } else {
                do { try await host.sleep(for: Self.pause) } catch { throw .cancelled(.read) }
            }
        }
        try await lease.release()
        return try await tables.customerCount()
    }

    /// Writes `statements` and the progress in one transaction, and makes `next` the state.
    func commit(
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
