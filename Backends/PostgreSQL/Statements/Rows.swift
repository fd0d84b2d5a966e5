#if PostgreSQL
import CPQ

/// The rows that a statement returned, in binary format.
final class Rows: Sendable {
    /// Never changed after its creation, so any thread may read it.
    private nonisolated(unsafe) let result: OpaquePointer

    /// Takes over `result`.
    init(_ result: OpaquePointer) { self.result = result }

    deinit { PQclear(result) }

    var count: Int { Int(PQntuples(result)) }

    var columnCount: Int { Int(PQnfields(result)) }

    /// The number of the column's type in `pg_type`.
    func type(ofColumn column: Int) -> UInt32 { PQftype(result, Int32(column)) }

    func isNull(_ row: Int, _ column: Int) -> Bool { PQgetisnull(result, Int32(row), Int32(column)) == 1 }

    /// The bytes of a column; empty for NULL.
    func bytes(_ row: Int, _ column: Int) -> [UInt8] { Array(raw(row, column)) }

    /// The text of a column; empty for NULL.
    func text(_ row: Int, _ column: Int) -> String { String(decoding: raw(row, column), as: UTF8.self) }

    /// The value of a column of any integer type; 0 for NULL.
    func integer(_ row: Int, _ column: Int) -> Int64 {
        let bytes = raw(row, column)
        let isNegative = bytes.first.map { $0 & 0x80 != 0 } ?? false
        return bytes.reduce(isNegative ? -1 : 0) { $0 << 8 | Int64($1) }
    }

    /// The value of a Boolean column; `false` for NULL.
    func isTrue(_ row: Int, _ column: Int) -> Bool { raw(row, column).first == 1 }

    private func raw(_ row: Int, _ column: Int) -> UnsafeRawBufferPointer {
        let count = Int(PQgetlength(result, Int32(row), Int32(column)))
        return UnsafeRawBufferPointer(start: PQgetvalue(result, Int32(row), Int32(column)), count: count)
    }
}
#endif
