import GRDB
import GRDBSQLite
import SyncCore
import Synchronization

/// The open connections to one file: one writer, and as many readers as are needed concurrently.
///
/// GRDB's pool is not suitable: it writes to a database before the application ID could be checked, and sets
/// `synchronous` to NORMAL, with which an acknowledged write may not survive a power cut.
final class StoreConnections: Sendable {
    let file: StoreFile
    let identity: FileIdentity
    /// The number of readers that stay open when they are not in use.
    private static let maximumIdleCount = 8
    private let idleReaders = Mutex<[StoreReader]>([])
    private let openWriter = Mutex<DatabaseQueue?>(nil)
    private let cachedByteCount: Int
    private let logByteCount: Int

    /// True if the database has a WAL. A backup and a closed store have none before the first write.
    let hasLog: Bool

    /// Opens the store at `file`. Reads only its header and the names of its tables.
    ///
    /// - Parameters:
    ///   - cachedByteCount: The approximate size of the page caches of all idle readers, in bytes; 0 for SQLite's
    ///     default.
    ///   - logByteCount: The approximate size of the WAL at which it is checkpointed.
    ///   - isForWriting: `true` to start a WAL if the database has none, like a backup or a closed store.
    init(
        file: StoreFile, identity: FileIdentity, cachedByteCount: Int = 0, logByteCount: Int = 16 << 20,
        isForWriting: Bool = false
    ) throws {
        (self.file, self.identity) = (file, identity)
        (self.cachedByteCount, self.logByteCount) = (cachedByteCount, logByteCount)
        try file.checkLog()
        var connection = try Self.connectionToWholeStore(path: file.path, cachedByteCount)
        _ = try connection.unsafeRead { try file.verify($0) }
        var writer: DatabaseQueue?
        if try isForWriting && !Self.hasLog(connection) {
            try connection.close()
            writer = try Self.writingConnection(to: file, logByteCount: logByteCount)
            connection = try Self.readOnlyConnection(path: file.path, cachedByteCount)
            _ = try connection.unsafeRead { try file.verify($0) }
        }
        hasLog = try Self.hasLog(connection)
        guard identity.isStill(at: file.path) else {
            throw BackendError(.busy, message: "\(file.path): the file was replaced during opening; try again")
        }
        openWriter.withLock { $0 = writer }
        let reader = try StoreReader(connection, file: file)
        idleReaders.withLock { $0.append(reader) }
    }

    /// True if the path still leads to this file.
    var isCurrent: Bool { identity.isStill(at: file.path) }

    /// Reads `key`, and reports an absence only if the index agrees.
    func readConfirmed(_ key: EntryKey, unless knownVersion: EntryVersion?) throws -> ReadOutcome {
        let outcome = try withReader { try $0.find { try $0.read(key, unless: knownVersion) } }
        guard outcome == .absent else { return outcome }
        // Both lookups need the same snapshot. Otherwise a key that is being written would look like damage.
        return try readConsistently { try EntryTable(db: $0, file: file).readConfirmed(key, unless: knownVersion) }
    }

    /// Calls `body` with a reading connection. Each of its statements may see a different snapshot.
    func read<Result: Sendable>(_ body: (Database) throws -> Result) throws -> Result {
        try withReader { try $0.use { try $0.unsafeRead(body) } }
    }

    /// Calls `body` with a reading connection on one snapshot.
    func readConsistently<Result: Sendable>(_ body: (Database) throws -> Result) throws -> Result {
        try withReader { try $0.use { try $0.read(body) } }
    }

    /// Copies all pages to `destination` in one step. The copy is a snapshot even if others write meanwhile.
    func copyAll(to destination: DatabaseQueue) throws {
        try withReader { try $0.use { try $0.backup(to: destination) } }
    }

    private func withReader<Result>(_ body: (StoreReader) throws -> Result) throws -> Result {
        let idle = idleReaders.withLock { $0.popLast() }
        let reader = try idle ?? StoreReader(Self.readOnlyConnection(path: file.path, cachedByteCount), file: file)
        defer { idleReaders.withLock { if $0.count < Self.maximumIdleCount { $0.append(reader) } } }
        return try body(reader)
    }

    /// The size of a page in the WAL, 4,120 bytes, plus an allowance for the transaction that exceeds the limit.
    private static let logPageByteCount = 4_194

    /// The writing connection.
    func writer() throws -> DatabaseQueue {
        try openWriter.withLock { open in
            if let open { return open }
            let writer = try Self.writingConnection(to: file, logByteCount: logByteCount)
            open = writer
            return writer
        }
    }

    /// Removes and returns the writing connection, so that it can be closed last; `nil` if none is open.
    func takeWriter() -> DatabaseQueue? {
        openWriter.withLock { open in
            defer { open = nil }
            return open
        }
    }

    private static func hasLog(_ connection: DatabaseQueue) throws -> Bool {
        try connection.unsafeRead { try String.fetchOne($0, sql: "PRAGMA journal_mode") == "wal" }
    }

    static func writingConnection(to file: StoreFile, logByteCount: Int) throws -> DatabaseQueue {
        let path = file.path
        var configuration = Self.configuration
        configuration.prepareDatabase { db in
            try StoreFile.useWriteAheadLog(db, path: path)
            try db.keepLog(true)
            try db.execute(sql: "PRAGMA synchronous = FULL")
            // Overwrites deleted rows, so that `Salvage` does not find them in unused parts of the file. This is the
            // default of Debian.
            try db.execute(sql: "PRAGMA secure_delete = 1")
            try db.execute(sql: "PRAGMA journal_size_limit = \(logByteCount)")
            // With writes spread over a large file, each of SQLite's default checkpoints of 1,000 pages would write
            // nearly as many places of the file. Only the writing connection checkpoints: with a second one, SQLite
            // before 3.51.3 can lose acknowledged writes (WAL reset bug, sqlite.org/wal.html#walresetbug).
            try db.execute(sql: "PRAGMA wal_autocheckpoint = \(logByteCount / logPageByteCount)")
            // In KiB. It holds the inner pages that lead to a few thousand places of a large file.
            try db.execute(sql: "PRAGMA cache_size = -16384")
            #if canImport(Darwin)
            try db.execute(sql: "PRAGMA fullfsync = 1; PRAGMA checkpoint_fullfsync = 1")
            #endif
        }
        let writer = try DatabaseQueue(path: path, configuration: configuration)
        try writer.inDatabase { db in
            guard try isDurable(db) else {
                throw BackendError(
                    .unsupported, operation: .open,
                    message: "\(path): SQLite does not sync every commit here, so writes would not be durable")
            }
            if try file.verify(db) < StoreSchema.version {
                try db.inTransaction(.immediate) {
                    try StoreSchema.migrate(db, from: try file.verify(db))
                    return .commit
                }
            }
        }
        return writer
    }

    /// Returns `true` if a commit on this connection is synced before it returns: FULL or EXTRA.
    static func isDurable(_ db: Database) throws -> Bool {
        try StoreSchema.pragma("synchronous", in: db) >= 2
    }

    private static var configuration: Configuration {
        var configuration = Configuration()
        configuration.foreignKeysEnabled = false
        // SQLite must not sleep. A caller that finds the database locked waits on the timer of the host.
        configuration.busyMode = .immediateError
        #if os(iOS)
        // Automatic memory management would use a connection on GRDB's queue while a reader's statements run on it.
        configuration.automaticMemoryManagement = false
        #endif
        configuration.prepareDatabase { db in
            try db.execute(sql: "PRAGMA cell_size_check = 1; PRAGMA trusted_schema = 0")
        }
        return configuration
    }

    /// Returns a reading connection after SQLite has rolled back the transaction of a process that was killed.
    ///
    /// Only a writing connection can roll back. This is necessary for a database without a WAL.
    private static func connectionToWholeStore(path: String, _ cachedByteCount: Int) throws -> DatabaseQueue {
        do {
            return try readOnlyConnection(path: path, cachedByteCount)
        } catch let error as DatabaseError where error.extendedResultCode == .SQLITE_READONLY_ROLLBACK {
            let writer = try DatabaseQueue(path: path, configuration: configuration)
            try writer.inDatabase { _ = try StoreSchema.identity(of: $0) }
            try writer.close()
            return try readOnlyConnection(path: path, cachedByteCount)
        }
    }

    private static func readOnlyConnection(path: String, _ cachedByteCount: Int) throws -> DatabaseQueue {
        var configuration = Self.configuration
        configuration.readonly = true
        if cachedByteCount > 0 {
            // A negative number is in KiB, and has 32 bits.
            let kibibytes = min(max(1, cachedByteCount / (maximumIdleCount << 10)), Int(Int32.max))
            configuration.prepareDatabase { try $0.execute(sql: "PRAGMA cache_size = \(-kibibytes)") }
        }
        return try DatabaseQueue(path: path, configuration: configuration)
    }
}

extension Database {
    /// Chooses whether the WAL stays when the last connection closes without ``SQLiteStore/close()``. Without it, a
    /// store that has the mark of a WAL is the copy of one in use.
    func keepLog(_ isKept: Bool) throws {
        var flag: CInt = isKept ? 1 : 0
        let code = sqlite3_file_control(sqliteConnection, nil, SQLITE_FCNTL_PERSIST_WAL, &flag)
        guard code == SQLITE_OK else { throw DatabaseError(resultCode: ResultCode(rawValue: code)) }
    }
}
