#if PostgreSQL
package import PostgreSQLStorage
package import SyncCore
package import SyncService

/// A projection in a schema of its own in a PostgreSQL database, usually that of the store.
///
/// Each transaction sends `NOTIFY` on the channel that is named like the schema, so a program that listens knows when
/// to read.
package final class PostgreSQLProjection: ProjectionDatabase {
    package let dialect = SQLDialect.postgreSQL
    package var label: String { queries.label }
    private let queries: PostgreSQLQueries
    private let schema: String

    /// The schema that a store's projection gets if nothing else is set.
    package static let defaultSchema = "entitlementsync_projection"

    /// A projection in `schema` of the database of a store.
    package init(_ configuration: PostgreSQLBackend.Configuration, schema: String = defaultSchema) {
        (queries, self.schema) = (PostgreSQLQueries(configuration, searchPath: schema), schema)
    }

    package func read(_ statements: [SQLStatement]) async throws(BackendError) -> [[[SQLValue]]] {
        try await queries.perform(statements.map(Self.query), isReading: true).map { $0.map { $0.map(SQLValue.init) } }
    }

    package func write(_ statements: [SQLStatement], epoch: Int64?) async throws(BackendError) -> Bool {
        var all = statements.map(Self.query)
        if let epoch {
            // Locks the row, so that an epoch cannot begin before the commit; divides by zero in any other epoch.
            let fence = PostgreSQLQueries.Query(
                sql: """
                    WITH held AS (UPDATE state SET epoch = epoch WHERE id = 0 AND epoch = $1 RETURNING 1)
                    SELECT 1 / (SELECT count(*) FROM held)
                    """, parameters: [.integer(epoch)])
            all.insert(fence, at: 0)
        } else {
            all.insert(PostgreSQLQueries.Query(sql: "CREATE SCHEMA IF NOT EXISTS \(schema)", parameters: []), at: 0)
        }
        all.append(PostgreSQLQueries.Query(sql: "SELECT pg_notify('\(schema)', '')", parameters: []))
        do throws(BackendError) {
            _ = try await queries.perform(all, isReading: false)
            return true
        } catch {
            guard epoch != nil, PostgreSQLQueries.isDivisionByZero(error) else { throw error }
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
                case .text(let text): .text(text)
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
