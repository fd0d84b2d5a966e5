import GRDB
import GRDBSQLite

/// A value that is bound to a parameter of a statement.
enum Parameter {
    case integer(Int64)
    case bytes([UInt8])
    case null
}

/// The row that a statement stands on. Its memory is SQLite's and ends with the next step.
struct StatementRow {
    fileprivate let statement: SQLiteStatement

    func integer(_ column: Int32) -> Int64 { sqlite3_column_int64(statement, column) }

    func isNull(_ column: Int32) -> Bool { sqlite3_column_type(statement, column) == SQLITE_NULL }

    func bytes(_ column: Int32) -> [UInt8] { Array(buffer(column)) }

    /// The bytes of a column, without copying them.
    func buffer(_ column: Int32) -> UnsafeRawBufferPointer {
        // The blob first: asking for it may change how many bytes there are.
        let start = sqlite3_column_blob(statement, column)
        return UnsafeRawBufferPointer(start: start, count: Int(sqlite3_column_bytes(statement, column)))
    }
}

extension Database {
    /// Runs `sql` with `parameters` and hands each row to `body` until that answers `false`.
    ///
    /// The steps are SQLite's own: a row of GRDB's would copy every value once more, which is most of what a read
    /// costs. Not for statements that begin or end a transaction, of which GRDB must know.
    func forEachRow(
        of sql: String, _ parameters: Parameter..., body: (StatementRow) throws -> Bool
    ) throws {
        try run(try cachedStatement(sql: sql).sqliteStatement, parameters, body)
    }

    /// The first row of `sql`, `nil` when there is none.
    func firstRow<Result>(
        of sql: String, _ parameters: Parameter..., transform: (StatementRow) throws -> Result
    ) throws -> Result? {
        var result: Result?
        try run(try cachedStatement(sql: sql).sqliteStatement, parameters) { row in
            result = try transform(row)
            return false
        }
        return result
    }

    /// Runs `sql`, which answers no rows.
    func change(_ sql: String, _ parameters: Parameter...) throws {
        try run(try cachedStatement(sql: sql).sqliteStatement, parameters) { _ in true }
    }

    private func run(
        _ statement: SQLiteStatement, _ parameters: [Parameter], _ body: (StatementRow) throws -> Bool
    ) throws {
        defer {
            sqlite3_reset(statement)
            // Or a large value would be kept until the statement's next use.
            sqlite3_clear_bindings(statement)
        }
        for (index, parameter) in parameters.enumerated() {
            let code = Self.bind(parameter, to: statement, at: Int32(index + 1))
            guard code == SQLITE_OK else { throw failure(code) }
        }
        while true {
            switch sqlite3_step(statement) {
            case SQLITE_ROW:
                if try !body(StatementRow(statement: statement)) { return }
            case SQLITE_DONE:
                return
            case let code:
                throw failure(code)
            }
        }
    }

    private func failure(_ code: Int32) -> DatabaseError {
        DatabaseError(resultCode: ResultCode(rawValue: code), message: lastErrorMessage)
    }

    private static func bind(_ parameter: Parameter, to statement: SQLiteStatement, at index: Int32) -> Int32 {
        switch parameter {
        case .integer(let value): sqlite3_bind_int64(statement, index, value)
        case .null: sqlite3_bind_null(statement, index)
        // Without an address SQLite would take it for null.
        case .bytes(let bytes) where bytes.isEmpty: sqlite3_bind_zeroblob(statement, index, 0)
        case .bytes(let bytes):
            sqlite3_bind_blob64(statement, index, bytes, UInt64(bytes.count), Self.copying)
        }
    }

    /// Tells SQLite to copy what is bound.
    private static var copying: sqlite3_destructor_type { unsafeBitCast(-1, to: sqlite3_destructor_type.self) }
}
