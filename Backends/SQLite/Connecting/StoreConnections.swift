import GRDB
import SyncCore
import Synchronization

/// The open connections to one file: one that writes, and as many that read as are needed at once.
///
/// Not GRDB's pool: that writes to a database before anybody could look whose it is, and sets `synchronous` to NORMAL,
/// with which an acknowledged write does not survive a power cut.
final class StoreConnections: Sendable {
    let file: StoreFile
    let identity: FileIdentity
    private let idleReaders = Mutex<[StoreReader]>([])
    private let openWriter = Mutex<DatabaseQueue?>(nil)
    /// What was read or written lately.
    let cache: EntryCache?
    /// What was changed lately.
    let recentChanges: RecentChanges?
    private let logByteCount: Int

    /// Opens the store that was found; looks at nothing but its header and the names of its tables.
    ///
    /// - Parameters:
    ///   - cachedByteCount: how much is kept in memory, about; 0 for nothing.
    ///   - logByteCount: how long the log becomes before it is taken into the database, about.
    init(file: StoreFile, identity: FileIdentity, cachedByteCount: Int = 0, logByteCount: Int = 16 << 20) throws {
        (self.file, self.identity, self.logByteCount) = (file, identity, logByteCount)
        try file.checkLog()
        let connection = try Self.connectionToWholeStore(path: file.path)
        let version = try connection.unsafeRead { try file.verify($0) }
        guard identity.isStill(at: file.path) else {
            throw BackendError(.busy, message: "\(file.path): the file was replaced while it was opened; try again")
        }
        let index = cachedByteCount > 0 ? try LogIndex(of: connection) : nil
        cache = index.map { EntryCache($0, byteCount: cachedByteCount) }
        recentChanges = index.map { RecentChanges($0, maximumCount: min(4_096, max(cachedByteCount / 1_024, 1))) }
        if version < StoreSchema.version { _ = try writer() }
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

    /// What a page takes in the log, 4,120 bytes, and a little for the transaction that goes beyond.
    private static let logPageByteCount = 4_194

    /// The connection that writes.
    func writer() throws -> DatabaseQueue {
        try openWriter.withLock { open in
            if let open { return open }
            let writer = try openedWriter()
            open = writer
            return writer
        }
    }

    private func openedWriter() throws -> DatabaseQueue {
        let (path, logByteCount) = (file.path, logByteCount)
        var configuration = Self.configuration
        configuration.prepareDatabase { db in
            try StoreFile.useWriteAheadLog(db, path: path)
            try db.execute(sql: "PRAGMA synchronous = FULL")
            try db.execute(sql: "PRAGMA journal_size_limit = \(logByteCount)")
            // Where writes are all over a large file, each of SQLite's usual checkpoints of 1,000 pages would write
            // nearly as many places of it. On the connection that writes and on no other: a second one beside it may
            // meet SQLite's error of logs that are begun anew (sqlite.org/wal.html#walresetbug, before 3.51.3), which
            // loses what was acknowledged.
            try db.execute(sql: "PRAGMA wal_autocheckpoint = \(logByteCount / Self.logPageByteCount)")
            // In KiB: what leads to a few thousand places of it.
            try db.execute(sql: "PRAGMA cache_size = -16384")
            #if canImport(Darwin)
            try db.execute(sql: "PRAGMA fullfsync = 1; PRAGMA checkpoint_fullfsync = 1")
            #endif
        }
        let writer = try DatabaseQueue(path: path, configuration: configuration)
        try writer.inDatabase { db in
            guard try Self.synchronises(db) else {
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
        // Nothing of ours sleeps in SQLite: who finds the database locked waits by the timer of the host.
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

    /// A connection that reads, after SQLite has undone what somebody had begun who died.
    ///
    /// Only a connection that writes can. It is needed before the database is in write-ahead mode: while it is made.
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
