import GRDB
import Synchronization

/// A reading connection with the prepared statement for most reads.
///
/// A lock gives it to one task at a time. So a read by ``EntryLookup`` needs no queue, which would cost as much as its
/// checksums.
final class StoreReader: Sendable {
    private struct Content {
        // Declared before the connection, so that it is deallocated first.
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

    /// Calls `body` with a lookup of rows by the hashes of their keys.
    func find<Result: Sendable>(_ body: (EntryLookup) throws -> Result) throws -> Result {
        try content.withLock { try body($0.lookup) }
    }

    /// Calls `body` with the connection.
    func use<Result: Sendable>(_ body: (DatabaseQueue) throws -> Result) throws -> Result {
        try content.withLock { try body($0.connection) }
    }
}
