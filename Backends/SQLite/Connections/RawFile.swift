import GRDB
import GRDBSQLite
import SyncCore

/// Reads the raw bytes of a file through SQLite's own descriptor.
///
/// SQLite does not open the file as a database: nothing is locked, rolled back, created or verified. A separate
/// descriptor is not an option (see ``FileIdentity``).
package final class RawFile {
    private let connection: OpaquePointer
    private let file: UnsafeMutablePointer<sqlite3_file>
    package let byteCount: Int

    /// Opens the regular file at `path`.
    package init(path: String) throws {
        var connection: OpaquePointer?
        let code = sqlite3_open_v2(path, &connection, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX, nil)
        var file: UnsafeMutablePointer<sqlite3_file>?
        guard code == SQLITE_OK, let connection,
            sqlite3_file_control(connection, "main", SQLITE_FCNTL_FILE_POINTER, &file) == SQLITE_OK, let file,
            let methods = file.pointee.pMethods
        else {
            sqlite3_close(connection)
            throw DatabaseError(resultCode: ResultCode(rawValue: code == SQLITE_OK ? SQLITE_CANTOPEN : code))
        }
        var byteCount: Int64 = 0
        let sizeCode = methods.pointee.xFileSize(file, &byteCount)
        guard sizeCode == SQLITE_OK else {
            sqlite3_close(connection)
            throw DatabaseError(resultCode: ResultCode(rawValue: sizeCode))
        }
        self.connection = connection
        self.file = file
        self.byteCount = Int(byteCount)
    }

    deinit { sqlite3_close(connection) }

    /// Reads `count` bytes from `offset`, or fewer at the end of the file. Throws if the disk cannot read them.
    package func bytes(from offset: Int, count: Int) throws -> [UInt8] {
        let count = max(0, min(count, byteCount - offset))
        guard count > 0, let methods = file.pointee.pMethods else { return [] }
        var code = SQLITE_OK
        let bytes = [UInt8](unsafeUninitializedCapacity: count) { buffer, initializedCount in
            code = methods.pointee.xRead(file, buffer.baseAddress, Int32(count), Int64(offset))
            initializedCount = count
        }
        guard code == SQLITE_OK else { throw DatabaseError(resultCode: ResultCode(rawValue: code)) }
        return bytes
    }
}

extension [UInt8] {
    /// The big-endian number in `count` bytes at `offset`.
    package func bigEndian(at offset: Int, count: Int = 4) -> Int {
        self[offset..<(offset + count)].reduce(0) { $0 << 8 | Int($1) }
    }
}
