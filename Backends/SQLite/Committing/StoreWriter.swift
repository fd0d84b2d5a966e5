import GRDB
import SyncCore

extension SQLiteStore {
    /// Performs groups of writes in one transaction. On the queue only.
    func commit(_ groups: [[PreparedWrite]]) -> GroupCommit.Verdict {
        do throws(BackendError) {
            let connections = try opened(creating: true)
            return .answered(try commit(groups, on: connections))
        } catch {
            if error.kind == .busy { return .busy(error) }
            return .answered(groups.map { $0.map { .failure(error.during($0.operation, key: $0.key)) } })
        }
    }

    /// - Throws: `busy` when another process holds the database and nothing was done.
    private func commit(
        _ groups: [[PreparedWrite]], on connections: StoreConnections
    ) throws(BackendError) -> [GroupCommit.Answers] {
        let writes = Array(groups.joined())
        let answers: GroupCommit.Answers
        do {
            answers = try transact(writes, on: connections)
        } catch {
            if error.kind == .busy { throw error }
            guard writes.count > 1, error.disposition != .outcomeUnknown else {
                return groups.map { $0.map { .failure(error.during($0.operation, key: $0.key)) } }
            }
            // One of them spoils the transaction; by itself each gets the answer that is its own.
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

    /// One transaction. Nothing of it is done when it throws, unless the error says that the outcome is unknown.
    private func transact(
        _ writes: [PreparedWrite], on connections: StoreConnections
    ) throws(BackendError) -> GroupCommit.Answers {
        let path = file.path
        var isCommitting = false
        do {
            return try connections.writer().inDatabase { db in
                try db.cachedStatement(sql: "BEGIN IMMEDIATE").execute()
                var committed: [(EntryKey, Entry?)] = []
                let before = connections.cache?.begin() ?? nil
                defer { connections.cache?.end(committed, after: before) }
                do {
                    // Whoever replaced the file leaves us one that nobody else will ever read.
                    guard connections.isCurrent else {
                        throw BackendError(.busy, message: "\(path): the file was replaced; try again")
                    }
                    // A later version may have changed the tables since they were opened.
                    try file.check(version: db.firstRow(of: "PRAGMA user_version") { $0.integer(0) } ?? 0)
                    var transaction = try StoreTransaction(db: db, file: file)
                    var answers: GroupCommit.Answers = []
                    for write in writes {
                        do {
                            answers.append(.success(try transaction.perform(write)))
                        } catch let error as BackendError {
                            answers.append(.failure(error.during(write.operation, key: write.key)))
                        }
                    }
                    guard transaction.hasChanged else {
                        try db.rollback()
                        return answers
                    }
                    try transaction.finish()
                    isCommitting = true
                    try db.cachedStatement(sql: "COMMIT").execute()
                    committed = Self.changes(writes, answers)
                    noteCommit(ChangeCursor(sequence: UInt64(transaction.sequence), tag: transaction.tag ?? 0))
                    return answers
                } catch {
                    // Fails where SQLite has rolled back by itself.
                    if db.isInsideTransaction { try db.rollback() }
                    throw error
                }
            }
        } catch {
            throw BackendError(error, at: path, mayHaveHappened: isCommitting)
        }
    }

    /// What was put under which keys, in order.
    private static func changes(_ writes: [PreparedWrite], _ answers: GroupCommit.Answers) -> [(EntryKey, Entry?)] {
        zip(writes, answers).compactMap { write, answer in
            switch answer {
            case .success(.written), .success(.deleted): (write.key, write.entry)
            case .success(.conflict), .failure: nil
            }
        }
    }
}
