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

/// The file of a store: examines what is at its path, and creates it.
final class StoreFile: Sendable {
    let path: String
    /// Whether a missing store may be made here.
    let mayBeMade: Bool
    /// The number of a key's row, unless another key has it.
    let numbering: @Sendable ([UInt8]) -> Int64
    /// The number of changes during which a cursor stays valid and a deleted key is remembered.
    ///
    /// The same for all processes that use a store: one that retained more would believe cursors behind which another
    /// process has removed deletions. So it is no option.
    let retainedChangeCount: Int64

    static let usualRetainedChangeCount: Int64 = 100_000

    init(
        path: String, mayBeMade: Bool, numbering: @escaping @Sendable ([UInt8]) -> Int64 = { RowChecksums.number(of: $0) },
        retainedChangeCount: Int64 = StoreFile.usualRetainedChangeCount
    ) {
        self.numbering = numbering
        self.retainedChangeCount = retainedChangeCount
        self.path = path
        self.mayBeMade = mayBeMade
    }

    /// Where the file is, behind all symbolic links.
    var place: String { FileIdentity.resolved(path) }
    /// The log beside it.
    var logPath: String { place + "-wal" }

    /// The folder that `path` is in.
    static func folder(of path: String) -> String {
        guard let slash = path.lastIndex(of: "/") else { return "." }
        return slash == path.startIndex ? "/" : String(path[..<slash])
    }

    /// The last part of `path`.
    static func name(of path: String) -> String {
        path.lastIndex(of: "/").map { String(path[path.index(after: $0)...]) } ?? path
    }

    /// The store's identity; `nil` where there is none yet and one may be made. Changes nothing.
    func find() throws(BackendError) -> FileIdentity? {
        switch try FileIdentity.look(at: path) {
        case .folder:
            throw BackendError(.notAStore, message: "\(path): this is a folder; name a file in it")
        case .other:
            throw BackendError(.notAStore, message: "\(path): this is no regular file; choose another path")
        case .missing:
            do { try refuseToForgetLog() } catch { throw BackendError(error, at: path) }
            let folder = Self.folder(of: place)
            guard try FileIdentity.look(at: folder) == .folder else {
                throw BackendError(
                    .missing, disposition: mayBeMade ? .permanent : .transient,
                    message: "\(path): the folder \(folder) does not exist; make it or mount it")
            }
        case .file(let identity):
            if try hasStore(identity) { return identity }
        }
        guard mayBeMade else {
            throw BackendError(
                .missing, message: "\(path): there is no store; mount it, or allow to create the store there")
        }
        return nil
    }

    /// Whether the file has a store in it; `false` where it is empty. Anything else throws.
    private func hasStore(_ identity: FileIdentity) throws(BackendError) -> Bool {
        do {
            if try identity.byteCount == 0 || isHalfMade() {
                try refuseToForgetLog()
                return false
            }
            let header = try RawFile(path: path).bytes(from: 0, count: 100)
            if case .file(let now) = try FileIdentity.look(at: path), now.byteCount == 0 {
                throw BackendError(.busy, message: "\(path): another process is creating the store; try again")
            }
            guard header.count == 100, header.starts(with: Array("SQLite format 3\u{0}".utf8)) else {
                throw BackendError(
                    .notAStore,
                    message: "\(path): this is no SQLite database, or its first page is damaged; "
                        + "choose another file, or recover it")
            }
            guard header.bigEndian(at: 68) == Int(StoreSchema.applicationID) else {
                throw BackendError(
                    .notAStore, message: "\(path): this is another application's database; choose another file")
            }
            try check(version: Int64(header.bigEndian(at: 60)))
            return true
        } catch {
            throw BackendError(error, at: path)
        }
    }

    /// Whether there is anything of a store: the file, or the log beside it.
    func isThere() throws(BackendError) -> Bool {
        if case .file = try FileIdentity.look(at: path) { return true }
        return try hasLog()
    }

    private func hasLog() throws(BackendError) -> Bool {
        guard case .file(let log) = try FileIdentity.look(at: logPath) else { return false }
        return log.byteCount > WriteAheadLog.headerByteCount
    }

    /// Throws if a log lies beside a file that is missing or empty: acknowledged writes may be in it, and SQLite would
    /// remove it.
    private func refuseToForgetLog() throws {
        guard try hasLog() else { return }
        if case .file(let now) = try FileIdentity.look(at: path), now.byteCount > 0, try !isHalfMade() {
            throw BackendError(.busy, message: "\(path): the store has just been made; try again")
        }
        throw BackendError(
            .damaged,
            message: "\(path): the file is missing or empty, and \(logPath) has writes in it; put the file back, "
                + "or recover what is in the log")
    }

    /// Throws if SQLite would forget acknowledged changes because the log is damaged, or would overwrite the database
    /// with the log of another one.
    ///
    /// Runs before SQLite opens the store, which would write over a damaged log or remove it. O(log), which each
    /// checkpoint begins anew.
    func checkLog() throws {
        guard try !isLogForeign() else {
            throw BackendError(
                .damaged,
                message: "\(path): \(logPath) is the log of another database, which was here before this one was put "
                    + "back: move \(logPath) and \(place)-shm away, and open the store again; or put the other "
                    + "database back to recover what is in its log")
        }
        guard let damage = try WriteAheadLog.damage(ofLogAt: logPath, pageSize: StoreSchema.pageSize) else {
            return
        }
        throw BackendError(
            .damaged,
            message: "\(logPath): byte \(damage.offset): the log is damaged, and \(damage.commitCount) commits from "
                + "there on would be forgotten; recover what is whole into a new file")
    }

    /// Indicates whether `header`, the first bytes of a database, says that there is no write-ahead log.
    ///
    /// SQLite brings the opposite to the disk before it begins a log, and removes the log before it says this again
    /// (sqlite.org/fileformat2.html, 1.3.3). Backups say this, and a store after ``SQLiteBackend/close()``.
    static func hasNoLog(header: [UInt8]) -> Bool { header.count >= 20 && header[18] == 1 }

    /// Indicates whether commits are in the log although the database says that it has none.
    ///
    /// SQLite would replay them all the same. Other processes may begin or end a log meanwhile, so the same log must be
    /// there before and after the header is read.
    private func isLogForeign() throws -> Bool {
        while try hasLog(), Self.hasNoLog(header: try RawFile(path: path).bytes(from: 0, count: 20)) {
            guard let before = try WriteAheadLog.nameOfCommitted(at: logPath, pageSize: StoreSchema.pageSize),
                Self.hasNoLog(header: try RawFile(path: path).bytes(from: 0, count: 20))
            else { return false }
            if try WriteAheadLog.nameOfCommitted(at: logPath, pageSize: StoreSchema.pageSize) == before { return true }
        }
        return false
    }

    /// Indicates whether a process was interrupted while it created the first tables of a database in an empty file.
    /// Then the journal says that the file had no page, and SQLite will empty it again.
    private func isHalfMade() throws -> Bool {
        let journal = place + "-journal"
        guard case .file(let identity) = try FileIdentity.look(at: journal), identity.byteCount >= 20 else {
            return false
        }
        let header: [UInt8]
        do {
            header = try RawFile(path: journal).bytes(from: 0, count: 20)
        } catch {
            // The process that creates the store may have removed it meanwhile.
            guard try FileIdentity.look(at: journal) != .missing else { return false }
            throw error
        }
        return header.starts(with: [0xD9, 0xD5, 0x05, 0xF9, 0x20, 0xA1, 0x63, 0xD7]) && header.bigEndian(at: 16) == 0
    }

    /// Throws unless this software knows a store of `version`.
    func check(version: Int64) throws(BackendError) {
        guard version <= StoreSchema.version else {
            throw BackendError(
                .newerFormat,
                message: "\(path): the store has schema \(version), this software knows up to \(StoreSchema.version);"
                    + " update it")
        }
    }

    /// Throws unless `db` is a store that this software knows; answers its version.
    func verify(_ db: Database) throws -> Int64 {
        switch try StoreSchema.identity(of: db) {
        case .store(let version):
            try check(version: version)
            return version
        case .empty:
            throw BackendError(.notAStore, message: "\(path): nothing is in this database; choose another file")
        case .foreign(let reason):
            throw BackendError(.notAStore, message: "\(path): \(reason); choose another file, or recover it")
        }
    }

    /// Creates the store, unless another process was faster. Only its owner may read it; SQLite gives the files beside
    /// it the same mode.
    ///
    /// In one transaction with a rollback journal, so that the file is empty or a whole store at every moment; only
    /// then it is switched to write-ahead logging.
    func make(host: HostServices) throws(BackendError) {
        do {
            if try FileIdentity.look(at: path) == .missing { try claim(host: host) }
            var configuration = Configuration()
            configuration.foreignKeysEnabled = false
            configuration.prepareDatabase { db in
                try db.execute(sql: "PRAGMA page_size = \(StoreSchema.pageSize)")
                // Also the removal of the journal, which would empty the store again if it came back.
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
        } catch {
            throw BackendError(error, at: path)
        }
        try FileIdentity.synchronise(Self.folder(of: place))
    }

    /// Puts an empty file there that only its owner may read, unless another process was faster.
    ///
    /// It has no name of a store while a descriptor of ours is open, see ``FileIdentity``.
    private func claim(host: HostServices) throws(BackendError) {
        let path = place
        let pending = path + ".pending-" + String(host.randomBits(), radix: 16)
        defer { NewFile.remove(pending) }
        try NewFile.create(pending, for: path, mode: 0o600)
        if link(pending, path) == 0 || errno == EEXIST { return }
        // Memory cards know no second name. There SQLite makes the file, and the card's permissions hold.
        guard NewFile.isWithoutLinks(errno) else { throw FileIdentity.failure(to: "get its name", path) }
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
