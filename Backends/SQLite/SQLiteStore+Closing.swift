import GRDB
import SyncCore

extension SQLiteStore {
    /// The longest wait for other connections before the WAL is left in place.
    ///
    /// It allows readers of this process to finish. Other processes may keep their connections open indefinitely.
    private static let endOfReaders = Duration.milliseconds(250)

    /// Checkpoints and removes the WAL, and closes all connections.
    func close() async throws(BackendError) {
        let writer = try await retrying(for: timeout) { () throws(BackendError) in try self.checkpointAll() }
        guard let writer else { return }
        do throws(BackendError) {
            try await retrying(for: Self.endOfReaders) { () throws(BackendError) in try self.removeLog(by: writer) }
        } catch {
            // Another connection uses the store, so the WAL stays, empty.
            guard error.kind == .busy else { throw error }
        }
        try await queue.run { () throws(BackendError) in try self.file.attempting { try writer.close() } }
    }

    private func retrying<Result: Sendable>(
        for timeout: Duration, _ work: @escaping @Sendable () throws(BackendError) -> Result
    ) async throws(BackendError) -> Result {
        try await BusyWait.retrying(.open, host: host, timeout: timeout) { () throws(BackendError) in
            try await queue.run(work)
        }
    }

    /// Checkpoints all of the WAL and closes all connections except the writing one. Called only on the queue.
    ///
    /// - Returns: `nil` if there is no WAL.
    private func checkpointAll() throws(BackendError) -> DatabaseQueue? {
        guard try file.isThere(), let connections = try opened() else { return nil }
        guard connections.hasLog else {
            release()
            return nil
        }
        return try file.attempting {
            let writer = try connections.writer()
            try writer.inDatabase { db in
                // The first column is 1 if another connection blocked the checkpoint.
                guard try Int.fetchOne(db, sql: "PRAGMA wal_checkpoint(TRUNCATE)") == 0 else {
                    throw BackendError(
                        .busy, message: "\(file.path): another process reads or writes, so the log stays; try again")
                }
            }
            // If the removal of the WAL does not survive a power cut, only an empty WAL may reappear.
            try FileIdentity.synchronize(file.logPath)
            release()
            return connections.takeWriter()
        }
    }

    /// Marks the database as one without a WAL, so that its copies can be recognized as such. Called only on the queue.
    private func removeLog(by writer: DatabaseQueue) throws(BackendError) {
        try file.attempting {
            try writer.inDatabase { db in
                try db.keepLog(false)
                try db.execute(sql: "PRAGMA journal_mode = DELETE")
            }
            try FileIdentity.synchronize(StoreFile.folder(of: file.place))
        }
    }
}
