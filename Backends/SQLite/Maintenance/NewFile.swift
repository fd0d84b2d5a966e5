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

/// Creates a file that is either complete under its name or does not exist.
enum NewFile {
    /// Lets `body` create a database under a temporary name, and renames it to `path` after it was synced.
    ///
    /// - Parameters:
    ///   - source: The file whose permissions the new file gets.
    ///   - drafts: The folder for the temporary file, on the same file system; `nil` for the folder of `path`. The
    ///     caller empties it if the process is killed.
    static func make<Result>(
        at path: String, like source: StoreFile, draftingIn drafts: String? = nil, host: HostServices,
        _ body: (String) throws -> Result
    ) throws(BackendError) -> Result {
        // SQLite would treat a leftover WAL of another store as that of the new one.
        for suffix in ["", "-wal", "-journal"] {
            guard try FileIdentity.look(at: path + suffix) == .missing else {
                throw BackendError(
                    .unsupported, message: "\(path)\(suffix): the file already exists; choose another name")
            }
        }
        let folder = StoreFile.folder(of: path)
        guard try FileIdentity.look(at: folder) == .folder else {
            throw BackendError(.missing, message: "\(path): the folder \(folder) does not exist; create it first")
        }
        // A unique name, because several processes may create a file at this path at the same time.
        let pending = (drafts.map { $0 + "/store" } ?? path) + ".pending-" + String(host.randomBits(), radix: 16)
        defer { remove(pending) }
        do {
            try create(pending, for: path, mode: FileIdentity.mode(of: source.path) ?? 0o600)
            let result = try body(pending)
            try name(pending, path)
            try FileIdentity.synchronize(folder)
            return result
        } catch {
            throw BackendError(error, at: path)
        }
    }

    /// Creates an empty file at the unused path `pending`, which is later renamed to `path`.
    static func create(_ pending: String, for path: String, mode: UInt32) throws(BackendError) {
        let descriptor = open(pending, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, mode_t(mode))
        guard descriptor >= 0 else { throw FileIdentity.failure(to: "be created", path) }
        // The umask of the process may have removed permissions.
        let isAllowed = fchmod(descriptor, mode_t(mode)) == 0
        close(descriptor)
        if !isAllowed { throw FileIdentity.failure(to: "get its permissions", path) }
    }

    /// Gives the file `pending` the additional name `path`, or renames it. Never replaces an existing file.
    private static func name(_ pending: String, _ path: String) throws(BackendError) {
        if link(pending, path) == 0 { return }
        // Some file systems, for example on memory cards, have no hard links. There an empty file reserves the name and
        // is then replaced.
        guard isWithoutLinks(errno) else { throw taken(path) }
        let descriptor = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw taken(path) }
        close(descriptor)
        guard rename(pending, path) == 0 else { throw FileIdentity.failure(to: "be renamed", path) }
    }

    /// Returns `true` if the error number means that the file system has no hard links.
    static func isWithoutLinks(_ code: Int32) -> Bool { [EPERM, ENOTSUP, EOPNOTSUPP, ENOSYS].contains(code) }

    private static func taken(_ path: String) -> BackendError {
        errno == EEXIST
            ? BackendError(.unsupported, message: "\(path): the file already exists; choose another name")
            : FileIdentity.failure(to: "be renamed", path)
    }

    /// Removes the database at `path` and the files that SQLite keeps beside it.
    static func remove(_ path: String) {
        for suffix in ["", "-journal", "-wal", "-shm"] { unlink(path + suffix) }
    }
}
