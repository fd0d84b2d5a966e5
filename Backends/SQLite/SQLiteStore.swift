import FileWatching
import GRDB
import SyncCore
import Synchronization

/// The implementation of a ``SQLiteBackend``: the file, its connections while they are open, and the subscribers to
/// changes.
final class SQLiteStore: Sendable {
    let file: StoreFile
    let host: HostServices
    let timeout: Duration
    let cachedByteCount: Int
    let logByteCount: Int
    let queue: SerialQueue
    let hub = SignalHub()
    private let connections = Mutex<StoreConnections?>(nil)
    /// Held while the store is opened, by one task at a time.
    private let opening = Mutex<Void>(())
    private let told = Mutex(Told())

    private struct Told {
        /// The latest change that was signalled to subscribers.
        var cursor: ChangeCursor?
        /// The log as of this object's latest commit, if no other one came in between.
        var head: LogIndex.Head?
        var watch: PathWatch?
        var commitCount = 0
        /// The number of commits that were not signalled to other processes yet.
        var untoldCount = 0
    }

    /// The most commits that share one signal to other processes, while more of them wait.
    private static let togetherCount = 8

    init(file: StoreFile, host: HostServices, timeout: Duration, cachedByteCount: Int, logByteCount: Int) {
        self.file = file
        self.host = host
        self.timeout = timeout
        (self.cachedByteCount, self.logByteCount) = (cachedByteCount, logByteCount)
        queue = SerialQueue(label: "SQLiteStorage \(file.path)")
    }

    /// The number of transactions that this object has committed.
    var commitCount: Int { told.withLock { $0.commitCount } }

    // MARK: Opening

    /// The connections, when they are open and the path still leads to their file.
    func current() -> StoreConnections? {
        guard let connections = connections.withLock({ $0 }), connections.isCurrent else { return nil }
        return connections
    }

    /// Opens the store unless it is open; `nil` if there is none and none may be made now.
    ///
    /// - Parameter isForWriting: whether the caller needs a store with a log.
    func opened(forWriting isForWriting: Bool = false) throws(BackendError) -> StoreConnections? {
        try opening.withLock { _ throws(BackendError) in
            if let connections = current(), connections.hasLog || !isForWriting { return connections }
            connections.withLock { $0 = nil }
            guard let identity = try file.find() else { return nil }
            do {
                let opened = try StoreConnections(
                    file: file, identity: identity, cachedByteCount: cachedByteCount, logByteCount: logByteCount,
                    isForWriting: isForWriting)
                connections.withLock { $0 = opened }
                return opened
            } catch {
                throw BackendError(error, at: file.path)
            }
        }
    }

    /// Opens the store to write to it, and makes it if there is none.
    func openedForWriting() throws(BackendError) -> StoreConnections {
        if let connections = try opened(forWriting: true) { return connections }
        try file.make(host: host)
        guard let connections = try opened(forWriting: true) else {
            throw BackendError(.busy, message: "\(file.path): the store was removed while it was made; try again")
        }
        return connections
    }

    /// Gives the connections up; they close when their last user is done.
    func release() { connections.withLock { $0 = nil } }

    // MARK: Reading

    /// Performs `body` with open connections, `nil` when there is no store; waits while another process holds it.
    func reading<Result: Sendable>(
        _ operation: BackendError.Operation, key: EntryKey? = nil,
        _ body: (StoreConnections?) throws -> Result
    ) async throws(BackendError) -> Result {
        try BackendError.throwIfCancelled(operation, key: key)
        var wait: BusyWait?
        while true {
            let failure: BackendError
            do throws(BackendError) {
                if let connections = current() { return try attempt(connections, body) }
                let opened = try await queue.run { () throws(BackendError) in try self.opened() }
                return try attempt(opened, body)
            } catch {
                failure = error
            }
            guard failure.kind == .busy else { throw failure.during(operation, key: key) }
            var next = wait ?? BusyWait(host: host, timeout: timeout)
            do throws(BackendError) {
                try await next.pause(after: failure, in: operation)
            } catch {
                throw error.during(operation, key: key)
            }
            wait = next
        }
    }

    /// Performs long work on a thread of its own, so that writers need not wait for it.
    func maintaining<Result: Sendable>(
        _ body: @escaping @Sendable (StoreConnections?) throws -> Result
    ) async throws(BackendError) -> Result {
        let thread = SerialQueue(label: "SQLiteStorage maintenance \(file.path)")
        var wait = BusyWait(host: host, timeout: timeout)
        while true {
            do throws(BackendError) {
                return try await thread.run { () throws(BackendError) in
                    try self.attempt(try self.opened(), body)
                }
            } catch {
                guard error.kind == .busy else { throw error }
                try await wait.pause(after: error, in: .open)
            }
        }
    }

    private func attempt<Result>(
        _ connections: StoreConnections?, _ body: (StoreConnections?) throws -> Result
    ) throws(BackendError) -> Result {
        do {
            return try body(connections)
        } catch {
            throw BackendError(error, at: file.path)
        }
    }

    // MARK: Signals

    /// Signals a commit of this object to its subscribers, and soon to other processes, see ``tellOthers()``.
    ///
    /// - Parameter head: the log right after the commit, if no other one came in between.
    func noteCommit(_ cursor: ChangeCursor, head: LogIndex.Head?) {
        let untoldCount = told.withLock { told in
            (told.cursor, told.head) = (cursor, head)
            told.commitCount += 1
            told.untoldCount += 1
            return told.untoldCount
        }
        if untoldCount >= Self.togetherCount { tellOthers() }
        guard hub.subscriberCount > 0 else { return }
        // The first write makes the store.
        told.withLock { $0.watch }?.follow()
        hub.signal()
    }

    /// Signals commits to other processes that were not signalled yet.
    func tellOthers() {
        let mustTell = told.withLock { told in
            defer { told.untoldCount = 0 }
            return told.untoldCount > 0
        }
        if mustTell { FileIdentity.touch(file.path) }
    }

    /// A stream of signals from now on.
    func signals() -> AsyncStream<Void> {
        let stream = hub.subscribe()
        startWatching()
        return stream
    }

    private func startWatching() {
        let isFirst = told.withLock { told in
            guard told.watch == nil else { return false }
            let place = file.place
            let name = StoreFile.name(of: place)
            told.watch = PathWatch(folder: StoreFile.folder(of: place), names: [name, name + "-wal"]) { [weak self] in
                self?.lookForChanges()
            }
            return true
        }
        let watch = told.withLock { $0.watch }
        watch?.follow()
        guard isFirst, case .success(let cursor) = latest() else { return }
        told.withLock { told in
            if told.cursor == nil { told.cursor = cursor }
        }
    }

    /// Signals to subscribers if the file changed because another connection committed.
    private func lookForChanges() {
        let watch = told.withLock { $0.watch }
        guard hub.subscriberCount > 0 else {
            watch?.rest()
            // A subscriber may have come in between.
            if hub.subscriberCount > 0 { watch?.follow() }
            return
        }
        watch?.follow()
        if isLatestOurs { return }
        let latest = latest()
        let isNews = told.withLock { told in
            guard case .success(let cursor) = latest else { return true }
            defer { told.cursor = cursor }
            return told.cursor != cursor
        }
        if isNews { hub.signal() }
    }

    /// Indicates whether this object made the latest commit, as far as the head of the log's index shows.
    private var isLatestOurs: Bool {
        guard let head = current()?.cache?.head() else { return false }
        return told.withLock { $0.head == head }
    }

    /// The latest change in the store, `nil` for none; an error if it cannot be read.
    private func latest() -> Result<ChangeCursor?, BackendError> {
        do throws(BackendError) {
            let connections =
                if let open = current() { StoreConnections?.some(open) } else { try reopenedForLooking() }
            guard let connections else { return .success(nil) }
            return .success(
                try attempt(connections) { _ in
                    try connections.read { try ChangeTable(db: $0, file: file).latest() }
                })
        } catch {
            return .failure(error)
        }
    }

    private func reopenedForLooking() throws(BackendError) -> StoreConnections? {
        guard let identity = try file.find() else { return nil }
        do {
            return try StoreConnections(file: file, identity: identity)
        } catch {
            throw BackendError(error, at: file.path)
        }
    }
}
