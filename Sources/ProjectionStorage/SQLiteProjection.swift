import Foundation
import GRDB
import SQLiteStorage
package import SyncCore
package import SyncService

/// A projection in an SQLite database of its own, beside the store.
///
/// It uses WAL, so other programs may read it at any time, for example `sqlite3` or Datasette. They never hold the
/// store's writer. Several servers on one machine may share it.
package final class SQLiteProjection: ProjectionDatabase {
    package let dialect = SQLDialect.sqlite
    package let label: String
    private let path: String
    private let pool: DatabasePool

    /// Opens the database at `path`, and creates it if it is missing.
    ///
    /// - Throws: ``BackendError``.
    package init(path: String) throws(BackendError) {
        (self.path, label) = (path, "sqlite:\(path)")
        var configuration = Configuration()
        configuration.busyMode = .timeout(5)
        configuration.prepareDatabase { db in
            // Events that a receiver has seen must not be assigned again after a power cut.
            if !db.configuration.readonly {
                // Indices change all over the file, most of all in a rebuild.
                try db.execute(sql: "PRAGMA synchronous = FULL; PRAGMA cache_size = -65536")
            }
        }
        do {
            // Only its owner may read it, as the store. SQLite gives its further files the same permissions.
            let descriptor = open(path, O_CREAT | O_EXCL | O_WRONLY, 0o600)
            if descriptor >= 0 { close(descriptor) }
            pool = try DatabasePool(path: path, configuration: configuration)
            let names = try pool.read { try String.fetchAll($0, sql: "SELECT name FROM sqlite_master") }
            guard names.isEmpty || names.contains("state") else {
                throw BackendError(
                    .notAStore, message: "\(path): this database belongs to another program; move it away")
            }
        } catch {
            throw BackendError(error, at: path).during(.open)
        }
    }

    package func read(_ statements: [SQLStatement]) async throws(BackendError) -> [[[SQLValue]]] {
        do {
            return try await pool.read { db in try statements.map { try Self.rows(of: $0, db) } }
        } catch {
            throw BackendError(error, at: path).during(.read)
        }
    }

    package func write(
        _ statements: [SQLStatement], fence: ProjectionFence?
    ) async throws(BackendError) -> Bool {
        do {
            return try await pool.writeWithoutTransaction { try Self.commit(statements, fence, $0) }
        } catch {
            throw BackendError(error, at: path).during(.write)
        }
    }

    /// Performs all statements in one transaction. Returns `false` if the fence does not hold.
    static func commit(_ statements: [SQLStatement], _ fence: ProjectionFence?, _ db: Database) throws -> Bool {
        var isCurrent = true
        try db.inTransaction(.immediate) {
            if let fence {
                _ = try rows(of: fence.statement, db)
                isCurrent = db.changesCount == 1
            }
            guard isCurrent else { return .rollback }
            for statement in statements { _ = try rows(of: statement, db) }
            return .commit
        }
        return isCurrent
    }

    static func rows(of statement: SQLStatement, _ db: Database) throws -> [[SQLValue]] {
        // `?1` is a number, and `$1` would be a name.
        let sql = statement.sql.utf8.map { $0 == UInt8(ascii: "$") ? UInt8(ascii: "?") : $0 }
        let prepared = try db.cachedStatement(sql: String(decoding: sql, as: UTF8.self))
        let arguments = StatementArguments(statement.values.map(\.databaseValue))
        guard prepared.columnCount > 0 else {
            try prepared.execute(arguments: arguments)
            return []
        }
        return try Row.fetchAll(prepared, arguments: arguments).map { row in
            row.databaseValues.map { value in
                switch value.storage {
                case .null: .null
                case .int64(let number): .integer(number)
                case .double(let number): .text("\(number)")
                case .string(let text): .text(text)
                case .blob(let data): .text(String(decoding: data, as: UTF8.self))
                }
            }
        }
    }
}

extension SQLValue {
    fileprivate var databaseValue: DatabaseValue {
        switch self {
        case .null: .null
        case .integer(let number): number.databaseValue
        case .text(let text): text.databaseValue
        }
    }
}
