import SyncCore
import Synchronization

/// Serializes writers: a queue for the tasks that use this object, and the lock on `store.lock` for all others.
///
/// The system releases the lock when its process ends for any reason. No thread is blocked.
final class StoreLock: Sendable {
    private let folder: StoreFolder
    private let host: HostServices
    private let timeout: Duration
    private let queue = TaskQueue()

    init(folder: StoreFolder, host: HostServices, timeout: Duration) {
        self.folder = folder
        self.host = host
        self.timeout = timeout
    }

    /// Performs `body` while no other writer is active.
    ///
    /// - Throws: `cancelled` if the task was cancelled before its turn, `busy` if another process kept the lock.
    func exclusively<Result>(
        _ operation: BackendError.Operation, _ body: (OpenFile) throws(BackendError) -> Result
    ) async throws(BackendError) -> Result {
        let deadline = host.timer.deadline(after: timeout)
        guard await queue.enter() else { throw .cancelled(operation) }
        defer { queue.leave() }
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
            // If the store was removed meanwhile, this is the lock of a file that no other process will open.
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
            // A tool would copy a lock file, so the folder itself is locked.
            if try folder.inspect() == .missing { try folder.makeRoot() }
            return try attempting { () throws(FileSystemError) in try folder.fileSystem.open(folder.root, .folder) }
        }
        let path = folder.path(of: StoreFolder.lockName)
        do {
            return try folder.fileSystem.open(path, .shared)
        } catch {
            guard error.isMissing else { throw BackendError(error) }
        }
        // The folder is examined before the lock file is created, so that an unrelated folder is not changed.
        if try folder.inspect() != .store { try folder.makeRoot() }
        return try attempting { () throws(FileSystemError) in try folder.fileSystem.open(path, .createShared) }
    }
}

extension StoreFolder {
    /// Drops the cached knowledge if the store was removed and created again.
    func noteLock(_ identity: FileIdentity) {
        known.withLock { known in
            guard known.lockIdentity != identity else { return }
            known = Known(lockIdentity: identity)
        }
    }
}

/// Admits one task at a time, in the order of arrival.
final class TaskQueue: Sendable {
    private struct State {
        var isOccupied = false
        var nextID: UInt64 = 0
        var waiting: [(id: UInt64, continuation: CheckedContinuation<Bool, Never>)] = []
    }

    private let state = Mutex(State())

    init() {}

    /// Waits for a turn; returns `false` if the task was cancelled first. After `true`, the caller must call
    /// ``leave()``.
    func enter() async -> Bool {
        let id = state.withLock { state in
            state.nextID += 1
            return state.nextID
        }
        return await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let mayPass: Bool? = state.withLock { state in
                    // A task is marked as cancelled before its handler runs. So the cancellation is either visible
                    // here, or the handler runs later and finds the continuation.
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

    /// Admits the next task.
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

    /// The number of waiting tasks.
    var waitingCount: Int { state.withLock { $0.waiting.count } }
}

/// A deadline on some clock.
struct Deadline: Sendable {
    /// Returns `true` once the deadline has passed.
    let hasPassed: @Sendable () -> Bool
}

extension Clock where Duration == Swift.Duration {
    /// The deadline after `duration` from now.
    func deadline(after duration: Duration) -> Deadline {
        let end = now.advanced(by: duration)
        return Deadline { now >= end }
    }
}
