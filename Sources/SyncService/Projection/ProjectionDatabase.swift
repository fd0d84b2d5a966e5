package import SyncCore

/// A value of a column.
package enum SQLValue: Hashable, Sendable {
    case null
    case integer(Int64)
    case text(String)

    init(_ text: String?) { self = text.map(SQLValue.text) ?? .null }
    init(_ number: Int64?) { self = number.map(SQLValue.integer) ?? .null }
    init(_ flag: Bool) { self = .integer(flag ? 1 : 0) }

    var text: String? { if case .text(let text) = self { text } else { nil } }
    var integer: Int64? { if case .integer(let number) = self { number } else { nil } }
}

/// A statement whose parameters are `$1`, `$2` and so on.
package struct SQLStatement: Hashable, Sendable {
    package var sql: String
    package var values: [SQLValue]

    package init(_ sql: String, _ values: [SQLValue] = []) { (self.sql, self.values) = (sql, values) }
}

/// A relational database with the tables of a projection.
///
/// A database runs the same statements as any other; only the definitions of tables and views depend on
/// ``dialect``. Columns have the types `text` and `bigint` only. Texts compare as bytes.
package protocol ProjectionDatabase: Sendable {
    /// The language of definitions.
    var dialect: SQLDialect { get }
    /// The address of the database without secrets, for messages.
    var label: String { get }

    /// Performs statements that only read, at one moment, and returns the rows of each.
    ///
    /// - Throws: ``BackendError``.
    func read(_ statements: [SQLStatement]) async throws(BackendError) -> [[[SQLValue]]]

    /// Performs all statements in one transaction, or none.
    ///
    /// - Parameter epoch: The epoch of the caller's lease. Nothing is written if the table `state` has another one when
    ///   the transaction commits. `nil` for a write that needs no lease.
    /// - Returns: `false` if the epoch is another one.
    /// - Throws: ``BackendError``, also of disposition `outcomeUnknown`.
    func write(_ statements: [SQLStatement], epoch: Int64?) async throws(BackendError) -> Bool
}

/// The language of the definitions of a database.
package enum SQLDialect: Sendable {
    case sqlite, postgreSQL
}
