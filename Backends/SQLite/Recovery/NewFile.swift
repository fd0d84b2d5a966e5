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

/// Making a file that is either whole under its name or not there.
enum NewFile {
    /// Lets `body` make a database under another name, and gives it the name `path` when it is on the disk.
    ///
    /// - Parameters:
    ///   - source: whose permissions the new file gets.
    ///   - drafts: the folder of the other name, on the same file system, which the caller empties should the process
    ///     be killed; `nil` for the folder of `path`.
    static func make<Result>(
        at path: String, like source: StoreFile, draftingIn drafts: String? = nil, host: HostServices,
        _ body: (String) throws -> Result
    ) throws(BackendError) -> Result {
        // A log that another store left there would be taken for the new one's.
        for suffix in ["", "-wal", "-journal"] {
            guard try FileIdentity.look(at: path + suffix) == .missing else {
                throw BackendError(
                    .unsupported, message: "\(path)\(suffix): something is there already; choose another name")
            }
        }
        let folder = StoreFile.folder(of: path)
        guard try FileIdentity.look(at: folder) == .folder else {
            throw BackendError(.missing, message: "\(path): the folder \(folder) does not exist; make it first")
        }
        // Of a name that nobody else uses, whoever makes a file at this path at the same time.
        let pending = (drafts.map { $0 + "/store" } ?? path) + ".pending-" + String(host.randomBits(), radix: 16)
        defer { remove(pending) }
        do {
            try create(pending, for: path, mode: FileIdentity.mode(of: source.path) ?? 0o600)
            let result = try body(pending)
            try name(pending, path)
            try FileIdentity.synchronise(folder)
            return result
        } catch {
            throw BackendError(error, at: path)
        }
    }

    /// Makes an empty file at `pending`, where nothing is yet, which is to become `path`.
    static func create(_ pending: String, for path: String, mode: UInt32) throws(BackendError) {
        let descriptor = open(pending, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, mode_t(mode))
        guard descriptor >= 0 else { throw FileIdentity.failure(to: "be made", path) }
        // What a process allows by default may be less.
        let isAllowed = fchmod(descriptor, mode_t(mode)) == 0
        close(descriptor)
        if !isAllowed { throw FileIdentity.failure(to: "get its permissions", path) }
    }

    /// Gives the file `pending` the name `path` as well or instead; never takes the name from another file.
    private static func name(_ pending: String, _ path: String) throws(BackendError) {
        if link(pending, path) == 0 { return }
        // Memory cards know no second name. There the name is taken by an empty file of ours, which is replaced.
        guard isWithoutLinks(errno) else { throw taken(path) }
        let descriptor = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw taken(path) }
        close(descriptor)
        guard rename(pending, path) == 0 else { throw FileIdentity.failure(to: "get its name", path) }
    }

    /// Whether the error number says that a file can have one name only.
    static func isWithoutLinks(_ code: Int32) -> Bool { [EPERM, ENOTSUP, EOPNOTSUPP, ENOSYS].contains(code) }

    private static func taken(_ path: String) -> BackendError {
        errno == EEXIST
            ? BackendError(.unsupported, message: "\(path): something is there already; choose another name")
            : FileIdentity.failure(to: "get its name", path)
    }

    /// Removes the database at `path` with all that SQLite keeps beside it.
    static func remove(_ path: String) {
        for suffix in ["", "-journal", "-wal", "-shm"] { unlink(path + suffix) }
    }
}
