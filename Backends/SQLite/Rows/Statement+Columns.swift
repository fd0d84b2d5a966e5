import GRDB
import GRDBSQLite
import SyncCore

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#elseif canImport(Android)
import Android
#elseif canImport(Darwin)
import Darwin
#endif

/// A value for a parameter of a statement.
enum Parameter {
    case integer(Int64)
    case bytes([UInt8])
    case null
}

/// The current row of a statement. Its memory belongs to SQLite and is valid until the next step.
struct StatementRow {
    fileprivate let statement: SQLiteStatement

    func integer(_ column: Int32) -> Int64 { sqlite3_column_int64(statement, column) }

    func isNull(_ column: Int32) -> Bool { sqlite3_column_type(statement, column) == SQLITE_NULL }

    func bytes(_ column: Int32) -> [UInt8] { Array(buffer(column)) }

    /// A substitute for the version of a damaged row, derived from the number in a column.
    ///
    /// No write generates such a version. A reader with any other version therefore reads the row again and gets the
    /// error.
    func mark(_ column: Int32) -> EntryVersion {
        EntryVersion(bytes: withUnsafeBytes(of: integer(column).bigEndian) { Array($0) })
    }

    /// Returns `true` if the value of a column equals `bytes`.
    func has(_ bytes: [UInt8], in column: Int32) -> Bool {
        let buffer = buffer(column)
        guard buffer.count == bytes.count, let start = buffer.baseAddress else { return buffer.count == bytes.count }
        return bytes.withUnsafeBytes { other in
            other.baseAddress.map { memcmp($0, start, buffer.count) == 0 } ?? true
        }
    }

    /// The bytes of a column, not copied. Valid until the next step.
    func buffer(_ column: Int32) -> UnsafeRawBufferPointer {
        // The address must be requested first, because that call may convert the value and change its length.
        let start = sqlite3_column_blob(statement, column)
        return UnsafeRawBufferPointer(start: start, count: Int(sqlite3_column_bytes(statement, column)))
    }
}

/// A statement that can run repeatedly on its connection.
///
/// It steps SQLite directly, because a GRDB `Row` copies each value once more, and those copies are most of the cost of
/// a read. Do not begin or end a transaction with it: GRDB must track transactions.
struct PreparedStatement {
    fileprivate let statement: SQLiteStatement
    fileprivate let connection: SQLiteConnection

    /// - Parameter statement: The underlying statement. It must outlive this value.
    init(_ statement: Statement, of db: Database) throws {
        guard let connection = db.sqliteConnection else {
            throw DatabaseError(resultCode: .SQLITE_MISUSE, message: "the connection is closed")
        }
        self.statement = statement.sqliteStatement
        self.connection = connection
    }

    /// Runs with `parameters` and calls `body` for each row until it returns `false`.
    func forEachRow(_ parameters: [Parameter], body: (StatementRow) throws -> Bool) throws {
        defer {
            sqlite3_reset(statement)
            // Otherwise a large value would stay in memory until the statement is used again.
            sqlite3_clear_bindings(statement)
        }
        for (index, parameter) in parameters.enumerated() {
            let code = bind(parameter, at: Int32(index + 1))
            guard code == SQLITE_OK else { throw failure(code) }
        }
        while try step(body) {}
    }

    /// Runs with one integer parameter.
    ///
    /// - Returns: the result of `transform` for the first row; `nil` if there is no row.
    func firstRow<Result>(
        _ parameter: Int64, transform: (StatementRow) throws -> Result
    ) throws -> Result? {
        defer { sqlite3_reset(statement) }
        let code = sqlite3_bind_int64(statement, 1, parameter)
        guard code == SQLITE_OK else { throw failure(code) }
        var result: Result?
        _ = try step { row in
            result = try transform(row)
            return false
        }
        return result
    }

    /// Steps once and passes the row, if there is one, to `body`. Returns `false` after the last row, or if `body`
    /// returns `false`.
    private func step(_ body: (StatementRow) throws -> Bool) throws -> Bool {
        switch sqlite3_step(statement) {
        case SQLITE_ROW: try body(StatementRow(statement: statement))
        case SQLITE_DONE: false
        case let code: throw failure(code)
        }
    }

    private func failure(_ code: Int32) -> DatabaseError {
        DatabaseError(
            resultCode: ResultCode(rawValue: code), message: String(cString: sqlite3_errmsg(connection)))
    }

    private func bind(_ parameter: Parameter, at index: Int32) -> Int32 {
        switch parameter {
        case .integer(let value): sqlite3_bind_int64(statement, index, value)
        case .null: sqlite3_bind_null(statement, index)
        // SQLite binds NULL for a blob whose address is null.
        case .bytes(let bytes) where bytes.isEmpty: sqlite3_bind_zeroblob(statement, index, 0)
        case .bytes(let bytes):
            sqlite3_bind_blob64(statement, index, bytes, UInt64(bytes.count), Self.transient)
        }
    }

    /// `SQLITE_TRANSIENT`: SQLite copies the bound value.
    private static var transient: sqlite3_destructor_type { unsafeBitCast(-1, to: sqlite3_destructor_type.self) }
}

extension Database {
    /// The statement for `sql`, from the connection's cache.
    func prepared(_ sql: String) throws -> PreparedStatement {
        try PreparedStatement(try cachedStatement(sql: sql), of: self)
    }

    /// Runs `sql` with `parameters` and calls `body` for each row until it returns `false`.
    func forEachRow(
        of sql: String, _ parameters: Parameter..., body: (StatementRow) throws -> Bool
    ) throws {
        try prepared(sql).forEachRow(parameters, body: body)
    }

    /// The result of `transform` for the first row of `sql`; `nil` if there is no row.
    func firstRow<Result>(
        of sql: String, _ parameters: Parameter..., transform: (StatementRow) throws -> Result
    ) throws -> Result? {
        var result: Result?
        try prepared(sql).forEachRow(parameters) { row in
            result = try transform(row)
            return false
        }
        return result
    }

    /// Runs `sql`, which must not return rows.
    func change(_ sql: String, _ parameters: Parameter...) throws {
        try prepared(sql).forEachRow(parameters) { _ in true }
    }
}
