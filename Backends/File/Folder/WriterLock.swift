import SyncCore
import Synchronization

/// Serializes writers: a queue for the tasks that use this object, and the lock on `store.lock` for all others.
///
/// The system releases the lock when its process ends for any reason. No thread is blocked.
final class WriterLock: Sendable {
    private let folder: StoreFolder
    private let host: HostServices
    private let timeout: Duration
    private let turns = Turns()

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
        var wait = BusyWait(host: host, timeout: timeout, ceiling: .milliseconds(32))
        guard await turns.enter() else { throw .cancelled(operation) }
        defer { turns.leave() }
        while true {
            if let file = try attempt() {
                defer { folder.fileSystem.close(file) }
                return try body(file)
            }
            guard try await wait.pause(in: operation) else {
                throw BackendError(
                    .busy, operation: operation,
                    message: "\(folder.root): another process has been writing for \(timeout); try again")
            }
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
            folder.didLock(identity)
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
        let known = try ifThere { () throws(FileSystemError) in try folder.fileSystem.open(path, .shared) }
        if let known { return known }
        // The folder is examined before the lock file is created, so that an unrelated folder is not changed.
        if try folder.inspect() != .store { try folder.makeRoot() }
        return try attempting { () throws(FileSystemError) in try folder.fileSystem.open(path, .createShared) }
    }
}

extension StoreFolder {
    /// Drops the cached knowledge if the store was removed and created again.
    func didLock(_ identity: FileIdentity) {
        known.withLock { known in
            guard known.lockIdentity != identity else { return }
            known = Known(lockIdentity: identity)
        }
    }
}
