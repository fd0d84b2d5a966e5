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

    /// The size of the values, about.
    var byteCount: Int { values.reduce(0) { $0 + 8 + ($1.text?.utf8.count ?? 0) } }
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
    /// - Parameter fence: Nothing is written unless the table `state` has this epoch and step when the transaction
    ///   commits. The transaction increments the step. `nil` for a write that needs no lease.
    /// - Returns: `false` if the epoch or the step is another one.
    /// - Throws: ``BackendError``, also of disposition `outcomeUnknown`.
    func write(_ statements: [SQLStatement], fence: ProjectionFence?) async throws(BackendError) -> Bool
}

/// The position of a projector in the sequence of all transactions of a projection.
package struct ProjectionFence: Hashable, Sendable {
    /// The number of the lease.
    package var epoch: Int64
    /// The number of transactions before.
    package var step: Int64

    package init(epoch: Int64, step: Int64) { (self.epoch, self.step) = (epoch, step) }

    /// The statement that enters the transaction: it changes one row if the fence holds, and otherwise none.
    package var statement: SQLStatement {
        SQLStatement(
            "UPDATE state SET step = step + 1 WHERE id = 0 AND epoch = $1 AND step = $2",
            [.integer(epoch), .integer(step)])
    }
}

/// The language of the definitions of a database.
package enum SQLDialect: Hashable, Sendable {
    case sqlite
    /// The tables are in this schema, which is also the channel of notifications.
    case postgreSQL(schema: String)

    var isPostgreSQL: Bool { self != .sqlite }
}
