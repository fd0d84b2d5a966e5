import GRDB
import SyncCore

extension SQLiteStore {
    /// The wait for other connections to end, after which the log stays in place.
    ///
    /// It is for readers of this process that are about to finish. Other processes may keep theirs open for good.
    private static let endOfReaders = Duration.milliseconds(250)

    /// Takes the log into the database, removes it, and closes all connections.
    func close() async throws(BackendError) {
        let writer = try await retrying(for: timeout) { () throws(BackendError) in try self.takeLogIn() }
        guard let writer else { return }
        do throws(BackendError) {
            try await retrying(for: Self.endOfReaders) { () throws(BackendError) in try self.removeLog(by: writer) }
        } catch {
            // Another connection uses the store. Its log is empty, and the last one to close removes it.
            guard error.kind == .busy else { throw error }
        }
        try await queue.run { () throws(BackendError) in try self.attempt { try writer.close() } }
    }

    private func retrying<Result: Sendable>(
        for timeout: Duration, _ work: @escaping @Sendable () throws(BackendError) -> Result
    ) async throws(BackendError) -> Result {
        var wait = BusyWait(host: host, timeout: timeout)
        while true {
            do throws(BackendError) { return try await queue.run(work) } catch {
                guard error.kind == .busy else { throw error }
                try await wait.pause(after: error, in: .open)
            }
        }
    }

    /// Takes all of the log into the database, and gives the connections up but for the one that writes. On the queue
    /// only.
    ///
    /// - Returns: `nil` if there is no log.
    private func takeLogIn() throws(BackendError) -> DatabaseQueue? {
        guard try file.isThere(), let connections = try opened() else { return nil }
        guard connections.hasLog else {
            release()
            return nil
        }
        return try attempt {
            let writer = try connections.writer()
            try writer.inDatabase { db in
                // The first column says whether another connection was in the way.
                guard try Int.fetchOne(db, sql: "PRAGMA wal_checkpoint(TRUNCATE)") == 0 else {
                    throw BackendError(
                        .busy, message: "\(file.path): another process reads or writes, so the log stays as it is")
                }
            }
            // If the removal of the log does not survive a power cut, an empty one must come back and no other.
            try FileIdentity.synchronise(file.logPath)
            release()
            return connections.takeWriter()
        }
    }

    /// Makes the database one without a log, of which copies can be told from one with a log. On the queue only.
    private func removeLog(by writer: DatabaseQueue) throws(BackendError) {
        try attempt {
            try writer.inDatabase { try $0.execute(sql: "PRAGMA journal_mode = DELETE") }
            try FileIdentity.synchronise(StoreFile.folder(of: file.place))
        }
    }

    private func attempt<Result>(_ body: () throws -> Result) throws(BackendError) -> Result {
        do { return try body() } catch { throw BackendError(error, at: file.path) }
    }
}
