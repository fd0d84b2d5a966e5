import GRDB
import Synchronization

/// A connection that only reads, and the statement of most reads ready to run.
///
/// One task at a time has it, by its lock. So a read by ``EntryLookup`` needs no queue besides, which would cost as
/// much as its checksums.
final class StoreReader: Sendable {
    private struct Content {
        // Before the connection, so that it ends before it.
        let statement: Statement
        let lookup: EntryLookup
        let connection: DatabaseQueue
    }

    private let content: Mutex<Content>

    init(_ connection: DatabaseQueue, file: StoreFile) throws {
        let (statement, lookup) = try connection.inDatabase { db in
            let statement = try db.makeStatement(sql: EntryLookup.sql)
            return (statement, EntryLookup(byNumber: try PreparedStatement(statement, of: db), file: file))
        }
        content = Mutex(Content(statement: statement, lookup: lookup, connection: connection))
    }

    /// Looks for rows by the hashes of their keys.
    func find<Result: Sendable>(_ body: (EntryLookup) throws -> Result) throws -> Result {
        try content.withLock { try body($0.lookup) }
    }

    /// Performs `body` with the connection.
    func use<Result: Sendable>(_ body: (DatabaseQueue) throws -> Result) throws -> Result {
        try content.withLock { try body($0.connection) }
    }
}
