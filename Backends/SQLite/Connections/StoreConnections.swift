import GRDB
import SyncCore
import Synchronization

/// The open connections to one file: one that writes, and as many that read as are needed at once.
///
/// GRDB's pool does not do: it writes to a database before its owner could be checked, and sets `synchronous` to
/// NORMAL, with which an acknowledged write does not survive a power cut.
final class StoreConnections: Sendable {
    let file: StoreFile
    let identity: FileIdentity
    private let idleReaders = Mutex<[StoreReader]>([])
    private let openWriter = Mutex<DatabaseQueue?>(nil)
    /// Entries that were read or written lately.
    let cache: EntryCache?
    /// Changes that were made lately.
    let recentChanges: RecentChanges?
    private let logByteCount: Int

    /// Indicates whether the database has a write-ahead log, which the memory of entries and changes depends on.
    let hasLog: Bool

    /// Opens the store that was found; reads only its header and the names of its tables.
    ///
    /// - Parameters:
    ///   - cachedByteCount: about how much is kept in memory; 0 for nothing.
    ///   - logByteCount: about how long the log becomes before it is taken into the database.
    ///   - isForWriting: whether to begin a log if the database has none, as a backup or a closed store.
    init(
        file: StoreFile, identity: FileIdentity, cachedByteCount: Int = 0, logByteCount: Int = 16 << 20,
        isForWriting: Bool = false
    ) throws {
        (self.file, self.identity, self.logByteCount) = (file, identity, logByteCount)
        try file.checkLog()
        var connection = try Self.connectionToWholeStore(path: file.path)
        _ = try connection.unsafeRead { try file.verify($0) }
        var writer: DatabaseQueue?
        if try isForWriting && !Self.hasLog(connection) {
            try connection.close()
            writer = try Self.writingConnection(to: file, logByteCount: logByteCount)
            connection = try Self.readOnlyConnection(path: file.path)
            _ = try connection.unsafeRead { try file.verify($0) }
        }
        hasLog = try Self.hasLog(connection)
        guard identity.isStill(at: file.path) else {
            throw BackendError(.busy, message: "\(file.path): the file was replaced while it was opened; try again")
        }
        let index = cachedByteCount > 0 ? try LogIndex(of: connection) : nil
        cache = index.map { EntryCache($0, byteCount: cachedByteCount) }
        recentChanges = index.map { RecentChanges($0, maximumCount: min(4_096, max(cachedByteCount / 1_024, 1))) }
        openWriter.withLock { $0 = writer }
        let reader = try StoreReader(connection, file: file)
        idleReaders.withLock { $0.append(reader) }
    }

    /// Whether the path still leads to this file.
    var isCurrent: Bool { identity.isStill(at: file.path) }

    /// Looks for rows by the hashes of their keys.
    func find<Result: Sendable>(_ body: (EntryLookup) throws -> Result) throws -> Result {
        try withReader { try $0.find(body) }
    }

    /// Reads `key`; that nothing is there only where the index says so, too.
    func readConfirmed(_ key: EntryKey, unless knownVersion: EntryVersion?) throws -> ReadOutcome {
        if let outcome = cache?.read(key, unless: knownVersion) { return outcome }
        let head = cache?.head()
        let outcome = try find { try $0.read(key, unless: knownVersion) }
        if let head { cache?.note(outcome, of: key, unless: knownVersion, asOf: head) }
        guard case .absent = outcome else { return outcome }
        // Both ways to the key as of one moment, or one that is just written would look like damage.
        return try readConsistently { try EntryTable(db: $0, file: file).readConfirmed(key, unless: knownVersion) }
    }

    /// Performs `body` on a connection that only reads. Each statement of it sees the store as of its own moment.
    func read<Result: Sendable>(_ body: (Database) throws -> Result) throws -> Result {
        try withReader { try $0.use { try $0.unsafeRead(body) } }
    }

    /// Performs `body` on a connection that only reads, with the store as of one moment.
    func readConsistently<Result: Sendable>(_ body: (Database) throws -> Result) throws -> Result {
        try withReader { try $0.use { try $0.read(body) } }
    }

    /// Copies all pages to `destination`, in one step: the store as of one moment, while others write.
    func copyAll(to destination: DatabaseQueue) throws {
        try withReader { try $0.use { try $0.backup(to: destination) } }
    }

    private func withReader<Result>(_ body: (StoreReader) throws -> Result) throws -> Result {
        let idle = idleReaders.withLock { $0.popLast() }
        let reader = try idle ?? StoreReader(try Self.readOnlyConnection(path: file.path), file: file)
        defer { idleReaders.withLock { $0.append(reader) } }
        return try body(reader)
    }

    /// The bytes of a page in the log, 4,120, and some for the transaction that goes beyond.
    private static let logPageByteCount = 4_194

    /// The connection that writes.
    func writer() throws -> DatabaseQueue {
        try openWriter.withLock { open in
            if let open { return open }
            let writer = try Self.writingConnection(to: file, logByteCount: logByteCount)
            open = writer
            return writer
        }
    }

    /// Takes the connection that writes out, so that it can be the last one to close; `nil` if none is open.
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
            try db.execute(sql: "PRAGMA synchronous = FULL")
            // Deleted rows leave nothing in unused parts of the file, where `Salvage` would find them. It is Debian's
            // default.
            try db.execute(sql: "PRAGMA secure_delete = 1")
            try db.execute(sql: "PRAGMA journal_size_limit = \(logByteCount)")
            // Where writes are all over a large file, each of SQLite's usual checkpoints of 1,000 pages would write
            // nearly as many places of it. On the connection that writes and on no other: a second one beside it may
            // meet SQLite's error of logs that are begun anew (sqlite.org/wal.html#walresetbug, before 3.51.3), which
            // loses what was acknowledged.
            try db.execute(sql: "PRAGMA wal_autocheckpoint = \(logByteCount / logPageByteCount)")
            // In KiB: enough for the inner pages that lead to a few thousand places of a large file.
            try db.execute(sql: "PRAGMA cache_size = -16384")
            #if canImport(Darwin)
            try db.execute(sql: "PRAGMA fullfsync = 1; PRAGMA checkpoint_fullfsync = 1")
            #endif
        }
        let writer = try DatabaseQueue(path: path, configuration: configuration)
        try writer.inDatabase { db in
            guard try synchronises(db) else {
                throw BackendError(
                    .unsupported, operation: .open,
                    message: "\(path): SQLite does not synchronise every commit here; nothing can be promised")
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

    /// Whether a commit on this connection is on the disk before it returns: FULL or EXTRA.
    static func synchronises(_ db: Database) throws -> Bool {
        try StoreSchema.pragma("synchronous", in: db) >= 2
    }

    private static var configuration: Configuration {
        var configuration = Configuration()
        configuration.foreignKeysEnabled = false
        // SQLite must not sleep: a caller that finds the database locked waits by the timer of the host.
        configuration.busyMode = .immediateError
        #if os(iOS)
        // It would use a connection on GRDB's queue, beside which a reader's statements run.
        configuration.automaticMemoryManagement = false
        #endif
        configuration.prepareDatabase { db in
            try db.execute(sql: "PRAGMA cell_size_check = 1; PRAGMA trusted_schema = 0")
        }
        return configuration
    }

    /// A connection that reads, after SQLite has rolled back the transaction of a process that died.
    ///
    /// Only a connection that writes can roll back. It is needed for a database without a log.
    private static func connectionToWholeStore(path: String) throws -> DatabaseQueue {
        do {
            return try readOnlyConnection(path: path)
        } catch let error as DatabaseError where error.extendedResultCode == .SQLITE_READONLY_ROLLBACK {
            let writer = try DatabaseQueue(path: path, configuration: configuration)
            try writer.inDatabase { _ = try StoreSchema.identity(of: $0) }
            try writer.close()
            return try readOnlyConnection(path: path)
        }
    }

    private static func readOnlyConnection(path: String) throws -> DatabaseQueue {
        var configuration = Self.configuration
        configuration.readonly = true
        return try DatabaseQueue(path: path, configuration: configuration)
    }
}
