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
    private let idleReaders = Mutex<[DatabaseQueue]>([])
    private let openWriter = Mutex<DatabaseQueue?>(nil)

    /// Opens the store that was found; looks at nothing but its header and the names of its tables.
    init(file: StoreFile, identity: FileIdentity) throws {
        self.file = file
        self.identity = identity
        let reader = try Self.reader(path: file.path)
        let version = try reader.unsafeRead { try file.verify($0) }
        guard identity.isStill(at: file.path) else {
            throw BackendError(.busy, message: "\(file.path): the file was replaced while it was opened; try again")
        }
        idleReaders.withLock { $0.append(reader) }
        if version < StoreSchema.version { _ = try writer() }
    }

    /// Whether the path still leads to this file.
    var isCurrent: Bool { identity.isStill(at: file.path) }

    /// Performs `body` on a connection that only reads. Each statement of it sees the store as of its own moment.
    func read<Result>(_ body: (Database) throws -> Result) throws -> Result {
        let reader = try idleReaders.withLock { $0.popLast() } ?? Self.reader(path: file.path)
        defer { idleReaders.withLock { $0.append(reader) } }
        return try reader.unsafeRead(body)
    }

    /// Performs `body` on a connection that only reads, with the store as of one moment.
    func readConsistently<Result>(_ body: (Database) throws -> Result) throws -> Result {
        let reader = try idleReaders.withLock { $0.popLast() } ?? Self.reader(path: file.path)
        defer { idleReaders.withLock { $0.append(reader) } }
        return try reader.read(body)
    }

    /// Copies all pages to `destination`, in one step: the store as of one moment, while others write.
    func copyAll(to destination: DatabaseQueue) throws {
        let reader = try idleReaders.withLock { $0.popLast() } ?? Self.reader(path: file.path)
        defer { idleReaders.withLock { $0.append(reader) } }
        try reader.backup(to: destination)
    }

    /// The connection that writes. To be asked by one thread at a time.
    func writer() throws -> DatabaseQueue {
        if let writer = openWriter.withLock({ $0 }) { return writer }
        let path = file.path
        var configuration = Self.configuration
        configuration.prepareDatabase { db in
            try StoreFile.useWriteAheadLog(db, path: path)
            try db.execute(sql: "PRAGMA synchronous = FULL")
            try db.execute(sql: "PRAGMA journal_size_limit = \(16 << 20)")
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
        openWriter.withLock { $0 = writer }
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
        configuration.prepareDatabase { db in
            try db.execute(sql: "PRAGMA cell_size_check = 1; PRAGMA trusted_schema = 0")
        }
        return configuration
    }

    private static func reader(path: String) throws -> DatabaseQueue {
        var configuration = Self.configuration
        configuration.readonly = true
        return try DatabaseQueue(path: path, configuration: configuration)
    }
}
