import GRDB
import GRDBSQLite
import Synchronization

/// The header of SQLite's WAL index, in memory that all processes with the open database share.
///
/// SQLite reads it at the beginning of each transaction, and keeps using its cached pages if the header has not
/// changed.
///
/// The format is defined by SQLite (sqlite.org/walformat.html, section 2): two copies of 48 bytes, of which the second
/// is written first. Only the version ``Head/knownVersion`` is supported.
///
/// The memory belongs to a connection, which this value keeps open.
struct LogIndex: Sendable {
    /// The state of the WAL at one moment. If two headers are equal, nothing was committed in between: a header has a
    /// checksum over the frames, and a salt that changes whenever the WAL restarts.
    struct Head: Equatable, BitwiseCopyable, Sendable {
        static let byteCount = 48
        static let knownVersion: UInt32 = 3_007_000

        private var words: (UInt64, UInt64, UInt64, UInt64, UInt64, UInt64) = (0, 0, 0, 0, 0, 0)

        fileprivate var isUsable: Bool {
            let isInitialized: UInt8 = field(at: 12)
            let salt: UInt64 = field(at: 32)
            // Without a salt there is no WAL yet, and all such headers are equal.
            return field(at: 0) == Self.knownVersion && isInitialized != 0 && salt != 0
        }

        private func field<Field: BitwiseCopyable>(at offset: Int) -> Field {
            withUnsafeBytes(of: words) { $0.loadUnaligned(fromByteOffset: offset, as: Field.self) }
        }

        static func == (left: Head, right: Head) -> Bool { left.words == right.words }
    }

    /// An address, because a pointer is not sendable. The memory is only read, and verified by its second copy.
    private let address: UInt
    private let connection: DatabaseQueue

    /// Maps the index of the database of a connection that has read from it.
    ///
    /// - Returns: `nil` if there is no index, for example because the database is not in WAL mode or the memory is not
    ///   shared.
    init?(of connection: DatabaseQueue) throws {
        guard let address = try connection.unsafeRead({ try Self.address(of: $0) }) else { return nil }
        (self.address, self.connection) = (address, connection)
    }

    private static func address(of db: Database) throws -> UInt? {
        // In another mode, requesting the index would create one.
        guard let connection = db.sqliteConnection,
            try String.fetchOne(db, sql: "PRAGMA journal_mode") == "wal",
            try String.fetchOne(db, sql: "PRAGMA locking_mode") == "normal"
        else { return nil }
        var file: UnsafeMutablePointer<sqlite3_file>?
        guard sqlite3_file_control(connection, "main", SQLITE_FCNTL_FILE_POINTER, &file) == SQLITE_OK, let file,
            let methods = file.pointee.pMethods, methods.pointee.iVersion >= 2, let map = methods.pointee.xShmMap
        else { return nil }
        var region: UnsafeMutableRawPointer?
        // The first region of the index. Only this one is read, and SQLite never moves it.
        guard map(file, 0, 32_768, 0, &region) == SQLITE_OK, let region else { return nil }
        return UInt(bitPattern: region)
    }

    /// The current header; `nil` while a process writes it or rebuilds the index.
    func head() -> Head? {
        guard let start = UnsafeRawPointer(bitPattern: address) else { return nil }
        let first = start.loadUnaligned(as: Head.self)
        atomicMemoryFence(ordering: .sequentiallyConsistent)
        let second = start.loadUnaligned(fromByteOffset: Head.byteCount, as: Head.self)
        return first == second && first.isUsable ? first : nil
    }
}
