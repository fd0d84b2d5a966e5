import GRDB
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

/// Examines, verifies and creates the file of a store.
package final class StoreFile: Sendable {
    let path: String
    /// True if a missing store may be created here.
    let mayBeCreated: Bool
    /// Computes the first row number for a key.
    let numbering: @Sendable ([UInt8]) -> Int64
    /// The number of later changes after which a cursor expires and a tombstone row is removed.
    ///
    /// It is the same for all processes that use a store and therefore not configurable: a process with a larger number
    /// would accept cursors after which another process has removed deletions.
    let retainedChangeCount: Int64

    static let usualRetainedChangeCount: Int64 = 100_000

    init(
        path: String, mayBeCreated: Bool,
        numbering: @escaping @Sendable ([UInt8]) -> Int64 = { RowChecksums.number(of: $0) },
        retainedChangeCount: Int64 = StoreFile.usualRetainedChangeCount
    ) {
        self.numbering = numbering
        self.retainedChangeCount = retainedChangeCount
        self.path = path
        self.mayBeCreated = mayBeCreated
    }

    /// The path of the file with all symbolic links resolved.
    var place: String { FileIdentity.resolved(path) }
    /// The path of the WAL.
    var logPath: String { place + "-wal" }

    /// The folder of `path`.
    static func folder(of path: String) -> String {
        guard let slash = path.lastIndex(of: "/") else { return "." }
        return slash == path.startIndex ? "/" : String(path[..<slash])
    }

    /// The last component of `path`.
    static func name(of path: String) -> String {
        path.lastIndex(of: "/").map { String(path[path.index(after: $0)...]) } ?? path
    }

    /// Maps the errors of `body` to errors about this file.
    func attempting<Result>(_ body: () throws -> Result) throws(BackendError) -> Result {
        do { return try body() } catch { throw BackendError(error, at: path) }
    }

    /// Returns the store's identity; `nil` if it does not exist and may be created. Changes nothing.
    func find() throws(BackendError) -> FileIdentity? {
        switch try FileIdentity.look(at: path) {
        case .folder:
            throw BackendError(.notAStore, message: "\(path): this is a folder; name a file in it")
        case .other:
            throw BackendError(.notAStore, message: "\(path): this is not a regular file; choose another path")
        case .missing:
            try attempting { try rejectOrphanedLog() }
            let folder = Self.folder(of: place)
            guard try FileIdentity.look(at: folder) == .folder else {
                throw BackendError(
                    .missing, disposition: mayBeCreated ? .permanent : .transient,
                    message: "\(path): the folder \(folder) does not exist; create or mount it")
            }
        case .file(let identity):
            if try hasStore(identity) { return identity }
        }
        guard mayBeCreated else {
            throw BackendError(
                .missing, message: "\(path): the store does not exist; mount it, or allow its creation")
        }
        return nil
    }

    /// Returns `true` if the file has a store, and `false` if it is empty. Throws otherwise.
    private func hasStore(_ identity: FileIdentity) throws(BackendError) -> Bool {
        try attempting {
            if try identity.byteCount == 0 || isHalfMade() {
                try rejectOrphanedLog()
                return false
            }
            let header = try RawFile(path: path).bytes(from: 0, count: 100)
            if case .file(let now) = try FileIdentity.look(at: path), now.byteCount == 0 {
                throw BackendError(.busy, message: "\(path): another process is creating the store; try again")
            }
            guard header.count == 100, header.starts(with: Array("SQLite format 3\u{0}".utf8)) else {
                throw BackendError(
                    .notAStore,
                    message: "\(path): this is not an SQLite database, or its first page is damaged; "
                        + "choose another file, or recover it")
            }
            guard header.bigEndian(at: 68) == Int(StoreSchema.applicationID) else {
                throw BackendError(
                    .notAStore, message: "\(path): this is the database of another application; choose another file")
            }
            try check(version: Int64(header.bigEndian(at: 60)))
            return true
        }
    }

    /// Returns `true` if a file or a WAL of a store exists.
    func isThere() throws(BackendError) -> Bool {
        if case .file = try FileIdentity.look(at: path) { return true }
        return try hasLog()
    }

    private func hasLog() throws(BackendError) -> Bool {
        guard case .file(let log) = try FileIdentity.look(at: logPath) else { return false }
        return log.byteCount > WriteAheadLog.headerByteCount
    }

    /// Throws if the file is missing or empty and a WAL with possibly acknowledged writes is beside it, which SQLite
    /// would remove.
    private func rejectOrphanedLog() throws {
        guard try hasLog() else { return }
        if case .file(let now) = try FileIdentity.look(at: path), now.byteCount > 0, try !isHalfMade() {
            throw BackendError(.busy, message: "\(path): the store has just been created; try again")
        }
        throw BackendError(
            .damaged,
            message: "\(path): the file is missing or empty, but \(logPath) has writes; restore the file, "
                + "or recover the writes in the log")
    }

    /// Throws if SQLite would drop acknowledged changes because the WAL is damaged, or would apply the WAL of another
    /// database.
    ///
    /// It must run before SQLite opens the store, because SQLite would overwrite or remove a damaged WAL. O(WAL size),
    /// which checkpoints limit.
    func checkLog() throws {
        guard try !isLogForeign() else {
            throw BackendError(
                .damaged,
                message: "\(path): \(logPath) is the log of another database, which was here before this one was "
                    + "restored: move \(logPath) and \(place)-shm away and open the store again; or restore the other "
                    + "database to recover the writes in its log")
        }
        guard let damage = try WriteAheadLog.damage(ofLogAt: logPath, pageSize: StoreSchema.pageSize) else {
            return
        }
        throw BackendError(
            .damaged,
            message: "\(logPath): byte \(damage.offset): the log is damaged, and SQLite would drop "
                + "\(damage.commitCount) commits from there on; recover the readable entries into a new file")
    }

    /// Returns `true` if `header`, the first bytes of a database, states that there is no WAL.
    ///
    /// SQLite writes the opposite to the disk before it starts a WAL, and removes the WAL before it states this again
    /// (sqlite.org/fileformat2.html, 1.3.3). It is true for backups, and for a store after ``SQLiteBackend/close()``.
    package static func hasNoLog(header: [UInt8]) -> Bool { header.count >= 20 && header[18] == 1 }

    /// Returns `true` if the WAL has commits although the database states that it has none.
    ///
    /// SQLite would replay them nevertheless. Other processes may start or remove a WAL at any time, so the same WAL
    /// must exist before and after the header is read.
    private func isLogForeign() throws -> Bool {
        while try hasLog(), Self.hasNoLog(header: try RawFile(path: path).bytes(from: 0, count: 20)) {
            guard let before = try WriteAheadLog.nameOfCommitted(at: logPath, pageSize: StoreSchema.pageSize),
                Self.hasNoLog(header: try RawFile(path: path).bytes(from: 0, count: 20))
            else { return false }
            if try WriteAheadLog.nameOfCommitted(at: logPath, pageSize: StoreSchema.pageSize) == before { return true }
        }
        return false
    }

    /// Returns `true` if a process was killed while it created the first tables in an empty file. The journal then
    /// states that the file had no pages, and SQLite will empty it again.
    private func isHalfMade() throws -> Bool {
        let journal = place + "-journal"
        guard case .file(let identity) = try FileIdentity.look(at: journal), identity.byteCount >= 20 else {
            return false
        }
        let header: [UInt8]
        do {
            header = try RawFile(path: journal).bytes(from: 0, count: 20)
        } catch {
            // The process that creates the store may have removed the journal.
            guard try FileIdentity.look(at: journal) != .missing else { return false }
            throw error
        }
        return header.starts(with: [0xD9, 0xD5, 0x05, 0xF9, 0x20, 0xA1, 0x63, 0xD7]) && header.bigEndian(at: 16) == 0
    }

    /// Throws if this software does not support a store of `version`.
    func check(version: Int64) throws(BackendError) {
        guard version <= StoreSchema.version else {
            throw BackendError(
                .newerFormat,
                message: "\(path): the store has schema \(version), but this software supports up to "
                    + "\(StoreSchema.version); update it")
        }
    }

    /// Throws if `db` is not a store that this software supports; returns its version.
    func verify(_ db: Database) throws -> Int64 {
        switch try StoreSchema.identity(of: db) {
        case .store(let version):
            try check(version: version)
            return version
        case .empty:
            throw BackendError(.notAStore, message: "\(path): the database is empty; choose another file")
        case .foreign(let reason):
            throw BackendError(.notAStore, message: "\(path): \(reason); choose another file, or recover it")
        }
    }

    /// Creates the store, unless another process was faster. Only the owner may read it; SQLite creates the files
    /// beside it with the same mode.
    ///
    /// All tables are created in one transaction with a rollback journal, so the file is always empty or a complete
    /// store. Only then it is switched to WAL mode.
    func make(host: HostServices) throws(BackendError) {
        try attempting {
            if try FileIdentity.look(at: path) == .missing { try claim(host: host) }
            var configuration = Configuration()
            configuration.foreignKeysEnabled = false
            configuration.prepareDatabase { db in
                try db.execute(sql: "PRAGMA page_size = \(StoreSchema.pageSize)")
                // EXTRA also syncs the removal of the journal, which would empty the store if it reappeared.
                try db.execute(sql: "PRAGMA synchronous = EXTRA")
            }
            let database = try DatabaseQueue(path: path, configuration: configuration)
            try database.inDatabase { db in
                try db.inTransaction(.exclusive) {
                    if try StoreSchema.identity(of: db) == .empty { try StoreSchema.migrate(db, from: 0) }
                    _ = try verify(db)
                    return .commit
                }
                try Self.useWriteAheadLog(db, path: path)
            }
            try database.close()
        }
        try FileIdentity.synchronize(Self.folder(of: place))
    }

    /// Creates an empty file that only its owner may read, unless another process was faster.
    ///
    /// The file gets its name only after its descriptor is closed (see ``FileIdentity``).
    private func claim(host: HostServices) throws(BackendError) {
        let path = place
        let pending = path + ".pending-" + String(host.randomBits(), radix: 16)
        defer { NewFile.remove(pending) }
        try NewFile.create(pending, for: path, mode: 0o600)
        if link(pending, path) == 0 || errno == EEXIST { return }
        // Some file systems, for example on memory cards, have no hard links. There SQLite creates the file, with the
        // permissions of the file system.
        guard NewFile.isWithoutLinks(errno) else { throw FileIdentity.failure(to: "be renamed", path) }
    }

    static func useWriteAheadLog(_ db: Database, path: String) throws {
        let mode = try String.fetchOne(db, sql: "PRAGMA journal_mode = WAL")
        guard mode == "wal" else {
            throw BackendError(
                .unsupported, operation: .open,
                message: "\(path): this file system has no shared memory for a write-ahead log; use a local disk")
        }
    }
}
