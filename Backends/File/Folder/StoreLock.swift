import SyncCore
import Synchronization

/// One writer at a time: among the tasks that use this object by a queue, among all others by the lock on `store.lock`.
///
/// The system drops the lock with the process that held it, however that ended. Nothing here blocks a thread.
final class StoreLock: Sendable {
    private let folder: StoreFolder
    private let host: HostServices
    private let timeout: Duration
    private let turnstile = Turnstile()

    init(folder: StoreFolder, host: HostServices, timeout: Duration) {
        self.folder = folder
        self.host = host
        self.timeout = timeout
    }

    /// Performs `body` while nobody else writes.
    ///
    /// - Throws: `cancelled` when the task was before its turn came, `busy` when another process did not let go.
    func exclusively<Result>(
        _ operation: BackendError.Operation, _ body: (OpenFile) throws(BackendError) -> Result
    ) async throws(BackendError) -> Result {
        let deadline = host.timer.deadline(after: timeout)
        guard await turnstile.enter() else { throw .cancelled(operation) }
        defer { turnstile.leave() }
        let file = try await acquire(operation, until: deadline)
        defer { folder.fileSystem.close(file) }
        return try body(file)
    }

    private func acquire(
        _ operation: BackendError.Operation, until deadline: Deadline
    ) async throws(BackendError) -> OpenFile {
        var generator = host.generator
        var longest = Duration.milliseconds(1)
        while true {
            if let file = try attempt() { return file }
            guard !deadline.hasPassed() else {
                throw BackendError(
                    .busy, operation: operation,
                    message: "\(folder.root): another process has been writing for \(timeout); try again")
            }
            do {
                try await host.sleep(for: longest * Double.random(in: 0.5...1, using: &generator))
            } catch {
                throw .cancelled(operation)
            }
            longest = min(longest * 2, .milliseconds(32))
        }
    }

    private func attempt() throws(BackendError) -> OpenFile? {
        let fileSystem = folder.fileSystem
        let file = try open()
        do {
            guard try fileSystem.tryLock(file) else {
                fileSystem.close(file)
                return nil
            }
            // Whoever removed the store meanwhile left us the lock of a file that nobody else will open.
            let identity = try fileSystem.identity(of: file)
            guard try identity == fileSystem.identity(at: file.path) else {
                fileSystem.close(file)
                return nil
            }
            folder.noteLock(identity)
            return file
        } catch {
            fileSystem.close(file)
            if error.isMissing { return nil }
            throw BackendError(error)
        }
    }

    private func open() throws(BackendError) -> OpenFile {
        if folder.isToolShared {
            // A lock file would be copied about, so the folder itself is locked.
            if try folder.inspect() == .missing { try folder.makeRoot() }
            return try attempting { () throws(FileSystemError) in try folder.fileSystem.open(folder.root, .folder) }
        }
        let path = folder.path(of: StoreFolder.lockName)
        do {
            return try folder.fileSystem.open(path, .shared)
        } catch {
            guard error.isMissing else { throw BackendError(error) }
        }
        // Looked at before the lock is made: a folder that is not ours gets nothing from us.
        if try folder.inspect() != .store { try folder.makeRoot() }
        return try attempting { () throws(FileSystemError) in try folder.fileSystem.open(path, .createShared) }
    }
}

extension StoreFolder {
    /// Forgets what was known of a store that has been removed and made anew.
    func noteLock(_ identity: FileIdentity) {
        known.withLock { known in
            guard known.lockIdentity != identity else { return }
            known = Known(lockIdentity: identity)
        }
    }
}

/// Lets one task at a time through, in the order of arrival.
final class Turnstile: Sendable {
    private struct State {
        var isOccupied = false
        var nextID: UInt64 = 0
        var waiting: [(id: UInt64, continuation: CheckedContinuation<Bool, Never>)] = []
    }

    private let state = Mutex(State())

    init() {}

    /// Waits for its turn; `false` when the task was cancelled before it came. After `true`, ``leave()`` is owed.
    func enter() async -> Bool {
        let id = state.withLock { state in
            state.nextID += 1
            return state.nextID
        }
        return await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let mayPass: Bool? = state.withLock { state in
                    // A task is marked as cancelled before its handler runs. So either it is seen here, or the handler
                    // comes after us and finds the continuation.
                    if Task.isCancelled { return false }
                    if state.isOccupied {
                        state.waiting.append((id, continuation))
                        return nil
                    }
                    state.isOccupied = true
                    return true
                }
                if let mayPass { continuation.resume(returning: mayPass) }
            }
        } onCancel: {
            let continuation = state.withLock { state in
                state.waiting.firstIndex { $0.id == id }.map { state.waiting.remove(at: $0).continuation }
            }
            continuation?.resume(returning: false)
        }
    }

    /// Lets the next one through.
    func leave() {
        let next = state.withLock { state -> CheckedContinuation<Bool, Never>? in
            guard !state.waiting.isEmpty else {
                state.isOccupied = false
                return nil
            }
            return state.waiting.removeFirst().continuation
        }
        next?.resume(returning: true)
    }

    /// How many tasks wait for their turn.
    var waitingCount: Int { state.withLock { $0.waiting.count } }
}

/// A moment on some clock.
struct Deadline: Sendable {
    /// Whether it has come.
    let hasPassed: @Sendable () -> Bool
}

extension Clock where Duration == Swift.Duration {
    /// The moment so long from now.
    func deadline(after duration: Duration) -> Deadline {
        let end = now.advanced(by: duration)
        return Deadline { now >= end }
    }
}
