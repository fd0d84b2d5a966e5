import FileWatching
import GRDB
import SyncCore
import Synchronization

/// The implementation of a ``SQLiteBackend``: the file, its open connections, and the subscribers to changes.
final class SQLiteStore: Sendable {
    let file: StoreFile
    let host: HostServices
    let timeout: Duration
    let cachedByteCount: Int
    let logByteCount: Int
    let queue: SerialQueue
    let hub = SignalHub()
    private let connections = Mutex<StoreConnections?>(nil)
    /// Serializes the opening of the store.
    private let opening = Mutex<Void>(())
    private let signalState = Mutex(SignalState())

    private struct SignalState {
        /// The latest change that was signalled to subscribers.
        var cursor: ChangeCursor?
        var watch: PathWatch?
        var commitCount = 0
        /// The number of commits that have not been signalled to other processes.
        var unsignalledCount = 0
    }

    /// The maximum number of commits that share one signal to other processes while more writes wait.
    private static let maximumUnsignalledCount = 8

    init(file: StoreFile, host: HostServices, timeout: Duration, cachedByteCount: Int, logByteCount: Int) {
        self.file = file
        self.host = host
        self.timeout = timeout
        (self.cachedByteCount, self.logByteCount) = (cachedByteCount, logByteCount)
        queue = SerialQueue(label: "SQLiteStorage \(file.path)")
    }

    /// The number of transactions that this object has committed.
    var commitCount: Int { signalState.withLock { $0.commitCount } }

    // MARK: Opening

    /// The open connections, if the path still leads to their file.
    func current() -> StoreConnections? {
        guard let connections = connections.withLock({ $0 }), connections.isCurrent else { return nil }
        return connections
    }

    /// Opens the store unless it is open; `nil` if it does not exist yet. Does not create it.
    ///
    /// - Parameter isForWriting: `true` if the caller needs a store with a WAL.
    func opened(forWriting isForWriting: Bool = false) throws(BackendError) -> StoreConnections? {
        try opening.withLock { _ throws(BackendError) in
            if let connections = current(), connections.hasLog || !isForWriting { return connections }
            connections.withLock { $0 = nil }
            guard let identity = try file.find() else { return nil }
            let opened = try file.attempting {
                try StoreConnections(
                    file: file, identity: identity, cachedByteCount: cachedByteCount, logByteCount: logByteCount,
                    isForWriting: isForWriting)
            }
            connections.withLock { $0 = opened }
            return opened
        }
    }

    /// Opens the store for writing, and creates it if necessary.
    func openedForWriting() throws(BackendError) -> StoreConnections {
        if let connections = try opened(forWriting: true) { return connections }
        try file.make(host: host)
        guard let connections = try opened(forWriting: true) else {
            throw BackendError(.busy, message: "\(file.path): the store was removed during its creation; try again")
        }
        return connections
    }

    /// Releases the connections. They close when their last user has finished.
    func release() { connections.withLock { $0 = nil } }

    // MARK: Reading

    /// Calls `body` with open connections, or with `nil` if there is no store. Retries while another process holds the
    /// store.
    func reading<Result: Sendable>(
        _ operation: BackendError.Operation, key: EntryKey? = nil,
        _ body: (StoreConnections?) throws -> Result
    ) async throws(BackendError) -> Result {
        try BackendError.throwIfCancelled(operation, key: key)
        do throws(BackendError) {
            return try await BusyWait.retrying(operation, host: host, timeout: timeout) { () throws(BackendError) in
                if let connections = current() { return try file.attempting { try body(connections) } }
                let opened = try await queue.run { () throws(BackendError) in try self.opened() }
                return try file.attempting { try body(opened) }
            }
        } catch {
            throw error.during(operation, key: key)
        }
    }

    /// Performs long work on a separate thread, so that writers do not wait for it.
    func maintaining<Result: Sendable>(
        _ body: @escaping @Sendable (StoreConnections?) throws -> Result
    ) async throws(BackendError) -> Result {
        let thread = SerialQueue(label: "SQLiteStorage maintenance \(file.path)")
        return try await BusyWait.retrying(.open, host: host, timeout: timeout) { () throws(BackendError) in
            try await thread.run { () throws(BackendError) in
                let opened = try self.opened()
                return try self.file.attempting { try body(opened) }
            }
        }
    }

    // MARK: Signals

    /// Signals a commit of this object to its subscribers, and soon to other processes (see
    /// ``signalOtherProcesses()``).
    func didCommit(_ cursor: ChangeCursor) {
        let unsignalledCount = signalState.withLock { state in
            state.cursor = cursor
            state.commitCount += 1
            state.unsignalledCount += 1
            return state.unsignalledCount
        }
        if unsignalledCount >= Self.maximumUnsignalledCount { signalOtherProcesses() }
        guard hub.subscriberCount > 0 else { return }
        // The first write creates the file, which can be watched only then.
        signalState.withLock { $0.watch }?.follow()
        hub.signal()
    }

    /// Signals the commits that have not been signalled to other processes yet.
    func signalOtherProcesses() {
        let isNeeded = signalState.withLock { state in
            defer { state.unsignalledCount = 0 }
            return state.unsignalledCount > 0
        }
        if isNeeded { FileIdentity.touch(file.path) }
    }

    /// A stream of signals that starts now.
    func signals() -> AsyncStream<Void> {
        let stream = hub.subscribe()
        startWatching()
        return stream
    }

    private func startWatching() {
        let isFirst = signalState.withLock { state in
            guard state.watch == nil else { return false }
            let place = file.place
            let name = StoreFile.name(of: place)
            state.watch = PathWatch(folder: StoreFile.folder(of: place), names: [name, name + "-wal"]) { [weak self] in
                self?.lookForChanges()
            }
            return true
        }
        let watch = signalState.withLock { $0.watch }
        watch?.follow()
        guard isFirst, case .success(let cursor) = latest() else { return }
        signalState.withLock { state in
            if state.cursor == nil { state.cursor = cursor }
        }
    }

    /// Signals subscribers if the file changed because another connection committed.
    private func lookForChanges() {
        let watch = signalState.withLock { $0.watch }
        guard hub.subscriberCount > 0 else {
            watch?.rest()
            // A subscriber may have been added in between.
            if hub.subscriberCount > 0 { watch?.follow() }
            return
        }
        watch?.follow()
        let latest = latest()
        let isNews = signalState.withLock { state in
            guard case .success(let cursor) = latest else { return true }
            defer { state.cursor = cursor }
            return state.cursor != cursor
        }
        if isNews { hub.signal() }
    }

    /// The latest change in the store; `nil` if there is none; an error if it cannot be read.
    private func latest() -> Result<ChangeCursor?, BackendError> {
        do throws(BackendError) {
            let cursor = try file.attempting {
                let connections = try current() ?? file.find().map { try StoreConnections(file: file, identity: $0) }
                return try connections?.read { try ChangeTable(db: $0, file: file).latest() }
            }
            return .success(cursor ?? nil)
        } catch {
            return .failure(error)
        }
    }
}
