import GRDB
import SQLiteStorage
package import SyncCore
package import SyncService

/// A projection in memory, for tests and simulations. All of its work stays on the calling thread.
package final class MemoryProjection: ProjectionDatabase {
    private static let name = "sqlite::memory:"

    package let dialect = SQLDialect.sqlite
    package var label: String { Self.name }
    private let queue: DatabaseQueue

    /// Creates an empty database.
    ///
    /// - Throws: ``BackendError``.
    package init() throws(BackendError) {
        do { queue = try DatabaseQueue() } catch { throw BackendError(error, at: Self.name).during(.open) }
    }

    package func read(_ statements: [SQLStatement]) async throws(BackendError) -> [[[SQLValue]]] {
        try readNow(statements)
    }

    package func write(_ statements: [SQLStatement], fence: ProjectionFence?) async throws(BackendError) -> Bool {
        try writeNow(statements, fence: fence)
    }

    /// Reads without suspending.
    package func readNow(_ statements: [SQLStatement]) throws(BackendError) -> [[[SQLValue]]] {
        do {
            return try queue.read { db in try statements.map { try SQLiteProjection.rows(of: $0, db) } }
        } catch {
            throw BackendError(error, at: label).during(.read)
        }
    }

    /// Writes without suspending.
    package func writeNow(_ statements: [SQLStatement], fence: ProjectionFence?) throws(BackendError) -> Bool {
        do {
            return try queue.writeWithoutTransaction { try SQLiteProjection.commit(statements, fence, $0) }
        } catch {
            throw BackendError(error, at: label).during(.write)
        }
    }
}
