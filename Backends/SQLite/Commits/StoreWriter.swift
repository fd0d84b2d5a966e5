import GRDB
import SyncCore

extension SQLiteStore {
    /// Performs groups of writes in one transaction. Called only on the queue.
    func commit(_ groups: [[PreparedWrite]]) -> CommitQueue.Verdict {
        do throws(BackendError) {
            let connections = try openedForWriting()
            return .answered(try commit(groups, on: connections))
        } catch {
            if error.kind == .busy { return .busy(error) }
            return .answered(groups.map { $0.map { .failure(error.during($0.operation, key: $0.key)) } })
        }
    }

    /// - Throws: `busy` if another process holds the database. Nothing was written then.
    private func commit(
        _ groups: [[PreparedWrite]], on connections: StoreConnections
    ) throws(BackendError) -> [CommitQueue.Answers] {
        let writes = Array(groups.joined())
        let answers: CommitQueue.Answers
        do {
            answers = try transact(writes, on: connections)
        } catch {
            if error.kind == .busy { throw error }
            guard writes.count > 1, error.disposition != .outcomeUnknown else {
                return groups.map { $0.map { .failure(error.during($0.operation, key: $0.key)) } }
            }
            // One of the writes made the transaction fail. Each write is retried alone and gets its own outcome.
            answers = writes.map { write in
                do throws(BackendError) {
                    return try transact([write], on: connections)[0]
                } catch {
                    return .failure(error.during(write.operation, key: write.key))
                }
            }
        }
        var rest = answers[...]
        return groups.map { group in
            defer { rest = rest.dropFirst(group.count) }
            return Array(rest.prefix(group.count))
        }
    }

    /// Performs one transaction. If it throws, nothing was written, unless the error has the disposition
    /// `outcomeUnknown`.
    private func transact(
        _ writes: [PreparedWrite], on connections: StoreConnections
    ) throws(BackendError) -> CommitQueue.Answers {
        var isCommitting = false
        do {
            return try connections.writer().inDatabase { db in
                try db.cachedStatement(sql: "BEGIN IMMEDIATE").execute()
                do {
                    var transaction = try begun(db, on: connections)
                    let answers = try Self.perform(writes, in: &transaction)
                    guard let latest = transaction.latest else {
                        try db.rollback()
                        return answers
                    }
                    try transaction.finish()
                    isCommitting = true
                    try db.cachedStatement(sql: "COMMIT").execute()
                    didCommit(latest)
                    return answers
                } catch {
                    // A rollback throws if SQLite has already rolled back.
                    if db.isInsideTransaction { try db.rollback() }
                    throw error
                }
            }
        } catch {
            throw BackendError(error, at: file.path, mayHaveHappened: isCommitting)
        }
    }

    /// Starts the writes of an open transaction, if the path still leads to this file and its schema is supported.
    private func begun(_ db: Database, on connections: StoreConnections) throws -> StoreTransaction {
        // If the file was replaced, other processes would not see a write to it.
        guard connections.isCurrent else {
            throw BackendError(.busy, message: "\(file.path): the file was replaced; try again")
        }
        // A later version may have changed the tables since the connection was opened.
        try file.check(version: db.firstRow(of: "PRAGMA user_version") { $0.integer(0) } ?? 0)
        return try StoreTransaction(db: db, file: file)
    }

    private static func perform(
        _ writes: [PreparedWrite], in transaction: inout StoreTransaction
    ) throws -> CommitQueue.Answers {
        try writes.map { write in
            do {
                return .success(try transaction.perform(write))
            } catch let error as BackendError {
                return .failure(error.during(write.operation, key: write.key))
            }
        }
    }
}
