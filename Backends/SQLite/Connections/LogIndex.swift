import GRDB
import GRDBSQLite
import Synchronization

/// The head of the index of SQLite's write-ahead log, in the memory that all processes share which have the database
/// open. SQLite looks there as each transaction begins, and believes the pages that it has read before where nothing
/// differs.
///
/// The format is SQLite's (sqlite.org/walformat.html, section 2): two copies of 48 bytes, the second of which is
/// written first. Another version than ``Head/knownVersion`` is not understood.
///
/// The memory is that of a connection, which is kept for that.
struct LogIndex: Sendable {
    /// What the log has at a moment. Where two are equal nothing was committed in between: it has a checksum over the
    /// log's frames, and salt that is drawn anew whenever the log begins again.
    struct Head: Equatable, BitwiseCopyable, Sendable {
        static let byteCount = 48
        static let knownVersion: UInt32 = 3_007_000

        private var words: (UInt64, UInt64, UInt64, UInt64, UInt64, UInt64) = (0, 0, 0, 0, 0, 0)

        fileprivate var isUsable: Bool {
            let isMade: UInt8 = field(at: 12)
            let salt: UInt64 = field(at: 32)
            // Without salt there is no log yet, and one such head is like any other.
            return field(at: 0) == Self.knownVersion && isMade != 0 && salt != 0
        }

        private func field<Field: BitwiseCopyable>(at offset: Int) -> Field {
            withUnsafeBytes(of: words) { $0.loadUnaligned(fromByteOffset: offset, as: Field.self) }
        }

        static func == (left: Head, right: Head) -> Bool { left.words == right.words }
    }

    /// A pointer is not sendable; what is here is only read, and checked by its second copy.
    private let address: UInt
    private let connection: DatabaseQueue

    /// The index of the database of a connection that has read from it.
    ///
    /// - Returns: `nil` where it has none, as when it is not in write-ahead mode or its memory is not shared.
    init?(of connection: DatabaseQueue) throws {
        guard let address = try connection.unsafeRead({ try Self.address(of: $0) }) else { return nil }
        (self.address, self.connection) = (address, connection)
    }

    private static func address(of db: Database) throws -> UInt? {
        // Asking for the index of another would make one.
        guard let connection = db.sqliteConnection,
            try String.fetchOne(db, sql: "PRAGMA journal_mode") == "wal",
            try String.fetchOne(db, sql: "PRAGMA locking_mode") == "normal"
        else { return nil }
        var file: UnsafeMutablePointer<sqlite3_file>?
        guard sqlite3_file_control(connection, "main", SQLITE_FCNTL_FILE_POINTER, &file) == SQLITE_OK, let file,
            let methods = file.pointee.pMethods, methods.pointee.iVersion >= 2, let map = methods.pointee.xShmMap
        else { return nil }
        var region: UnsafeMutableRawPointer?
        // The first region as SQLite divides it; no other is looked at, and it is never moved.
        guard map(file, 0, 32_768, 0, &region) == SQLITE_OK, let region else { return nil }
        return UInt(bitPattern: region)
    }

    /// The head as it is now; `nil` while somebody writes it, or puts the index together anew.
    func head() -> Head? {
        guard let start = UnsafeRawPointer(bitPattern: address) else { return nil }
        let first = start.loadUnaligned(as: Head.self)
        atomicMemoryFence(ordering: .sequentiallyConsistent)
        let second = start.loadUnaligned(fromByteOffset: Head.byteCount, as: Head.self)
        return first == second && first.isUsable ? first : nil
    }
}
