import GRDB

/// A connection that only reads, and the statement of most reads ready to run.
///
/// Unchecked: whoever takes a reader from the pool has it alone until it is put back, and the pool's lock is between
/// one user and the next. So a read by ``lookup`` needs no queue, which would cost as much as its checksums.
final class StoreReader: @unchecked Sendable {
    // Before the connection, so that it ends before it.
    private let statement: Statement
    let lookup: EntryLookup
    let connection: DatabaseQueue

    init(_ connection: DatabaseQueue, file: StoreFile) throws {
        self.connection = connection
        (statement, lookup) = try connection.inDatabase { db in
            let statement = try db.makeStatement(sql: EntryLookup.sql)
            return (statement, EntryLookup(byNumber: try PreparedStatement(statement, of: db), file: file))
        }
    }
}
