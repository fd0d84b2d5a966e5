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

/// Which file a path leads to now.
///
/// Asked by path and never through a descriptor of our own: closing one would drop the locks that SQLite holds on the
/// file for this whole process.
struct FileIdentity: Hashable, Sendable {
    private let device: UInt64
    private let number: UInt64
    let byteCount: Int64

    /// What is at a path.
    enum Finding: Equatable {
        case missing
        case file(FileIdentity)
        case folder
        case other
    }

    static func == (left: FileIdentity, right: FileIdentity) -> Bool {
        left.device == right.device && left.number == right.number
    }

    func hash(into hasher: inout Hasher) {
        hasher.combine(device)
        hasher.combine(number)
    }

    /// Looks at `path`, following symbolic links as SQLite does.
    static func look(at path: String) throws(BackendError) -> Finding {
        var status = stat()
        guard stat(path, &status) == 0 else {
            switch errno {
            case ENOENT: return .missing
            case EACCES, EPERM:
                throw BackendError(
                    .permissionDenied, message: "\(path): this user may not look there; give it access to the folder")
            case ENOTDIR, ELOOP, ENAMETOOLONG:
                throw BackendError(.notAStore, message: "\(path): this path leads to no file; choose another")
            default:
                throw BackendError(
                    .unavailable, message: "\(path): the disk or file server is away (error \(errno)); try again")
            }
        }
        switch status.st_mode & S_IFMT {
        case S_IFREG:
            return .file(
                FileIdentity(
                    device: UInt64(truncatingIfNeeded: status.st_dev),
                    number: UInt64(truncatingIfNeeded: status.st_ino), byteCount: Int64(status.st_size)))
        case S_IFDIR: return .folder
        default: return .other
        }
    }

    /// Whether `path` leads to this file now.
    func isStill(at path: String) -> Bool {
        var status = stat()
        return stat(path, &status) == 0 && UInt64(truncatingIfNeeded: status.st_ino) == number
            && UInt64(truncatingIfNeeded: status.st_dev) == device
    }

    /// Synchronises the folder, so that the names in it survive a power cut.
    static func synchroniseFolder(_ folder: String) throws(BackendError) {
        let descriptor = open(folder, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else {
            throw BackendError(.unavailable, message: "\(folder): it cannot be synchronised (error \(errno))")
        }
        defer { close(descriptor) }
        guard fsync(descriptor) == 0 else {
            throw BackendError(.unavailable, message: "\(folder): it cannot be synchronised (error \(errno))")
        }
    }

    /// Notes the present time as the file's: what tells watchers in other processes that a commit is complete.
    static func touch(_ path: String) {
        // Only a signal: where it fails, watchers hear of the next change.
        _ = utimensat(AT_FDCWD, path, nil, 0)
    }
}
