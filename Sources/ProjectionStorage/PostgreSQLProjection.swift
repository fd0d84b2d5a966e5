#if PostgreSQL
package import PostgreSQLStorage
package import SyncCore
package import SyncService

/// A projection in a schema of its own in a PostgreSQL database, usually that of the store.
///
/// Each transaction with events sends `NOTIFY` on the channel that is named like the schema, so a program that listens
/// knows when to read.
package final class PostgreSQLProjection: ProjectionDatabase {
    package var dialect: SQLDialect { .postgreSQL(schema: schema) }
    package var label: String { queries.label }
    private let queries: PostgreSQLQueries
    private let schema: String

    /// A projection in the database of a store.
    ///
    /// - Parameter schema: The schema of its tables; by default that of the store with the suffix `_projection`.
    package init(_ configuration: PostgreSQLBackend.Configuration, schema: String? = nil) {
        // A name in PostgreSQL has at most 63 bytes.
        self.schema = schema ?? configuration.schema.prefix(52) + "_projection"
        queries = PostgreSQLQueries(configuration, searchPath: self.schema)
    }

    package func read(_ statements: [SQLStatement]) async throws(BackendError) -> [[[SQLValue]]] {
        try await queries.perform(statements.map(Self.query), isReading: true).map { $0.map { $0.map(SQLValue.init) } }
    }

    package func write(
        _ statements: [SQLStatement], fence: ProjectionFence?
    ) async throws(BackendError) -> Bool {
        var all = statements.map(Self.query)
        if let fence {
            // Locks the row until the commit. With another epoch or step it changes no row, and the division fails.
            var held = Self.query(fence.statement)
            held.sql = "WITH held AS (\(held.sql) RETURNING 1) SELECT 1 / (SELECT count(*) FROM held)"
            all.insert(held, at: 0)
        }
        do throws(BackendError) {
            _ = try await queries.perform(all, isReading: false)
            return true
        } catch {
            guard fence != nil, PostgreSQLQueries.isDivisionByZero(error) else { throw error }
            return false
        }
    }

    private static func query(_ statement: SQLStatement) -> PostgreSQLQueries.Query {
        PostgreSQLQueries.Query(
            sql: statement.sql,
            parameters: statement.values.map { value in
                switch value {
                case .null: .null
                case .integer(let number): .integer(number)
                // PostgreSQL stores no NUL, for example in the detail of an act.
                case .text(let text): .text(text.utf8.contains(0) ? text.replacing("\0", with: "\u{FFFD}") : text)
                }
            })
    }
}

extension SQLValue {
    fileprivate init(_ value: PostgreSQLQueries.Value) {
        switch value {
        case .null: self = .null
        case .integer(let number): self = .integer(number)
        case .text(let text): self = .text(text)
        }
    }
}
#endif
