package import SyncCore

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#elseif canImport(Android)
import Android
#elseif canImport(Darwin)
import Darwin
#endif

/// The identity of the file that a path currently leads to.
///
/// It is determined by path, never through a separate descriptor: closing such a descriptor would release the locks
/// that SQLite holds on the file for this whole process.
package struct FileIdentity: Hashable, Sendable {
    private let device: UInt64
    private let number: UInt64
    package let byteCount: Int64

    /// The result of examining a path.
    package enum Finding: Equatable {
        case missing
        case file(FileIdentity)
        case folder
        case other
    }

    package static func == (left: FileIdentity, right: FileIdentity) -> Bool {
        left.device == right.device && left.number == right.number
    }

    package func hash(into hasher: inout Hasher) {
        hasher.combine(device)
        hasher.combine(number)
    }

    /// Examines `path`, following symbolic links as SQLite does.
    package static func look(at path: String) throws(BackendError) -> Finding {
        var status = stat()
        guard stat(path, &status) == 0 else {
            switch errno {
            case ENOENT: return .missing
            case EACCES, EPERM:
                throw BackendError(
                    .permissionDenied, message: "\(path): this user has no access to it; give it access to the folder")
            case ENOTDIR, ELOOP, ENAMETOOLONG:
                throw BackendError(.notAStore, message: "\(path): the path does not lead to a file; choose another")
            case EIO:
                throw BackendError(
                    .unavailable, disposition: .permanent,
                    message: "\(path): the disk reports an error; check it")
            default:
                throw BackendError(
                    .unavailable,
                    message: "\(path): the disk or file server is unavailable (error \(errno)); try again")
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

    /// Returns `true` if `path` still leads to this file.
    func isStill(at path: String) -> Bool {
        var status = stat()
        return stat(path, &status) == 0 && UInt64(truncatingIfNeeded: status.st_ino) == number
            && UInt64(truncatingIfNeeded: status.st_dev) == device
    }

    /// Resolves the symbolic links in `path`. SQLite keeps its other files beside the resolved file.
    package static func resolved(_ path: String) -> String {
        var path = path
        // The number of links that the system follows.
        for _ in 0..<40 {
            if let resolved = realpath(path, nil) {
                defer { free(resolved) }
                return String(cString: resolved)
            }
            // The file does not exist yet, but a link may lead to its future place.
            var buffer = [CChar](repeating: 0, count: Int(PATH_MAX) + 1)
            let count = readlink(path, &buffer, buffer.count - 1)
            guard count > 0 else { return path }
            let target = String(decoding: buffer[..<count].map { UInt8(bitPattern: $0) }, as: UTF8.self)
            path = target.hasPrefix("/") ? target : StoreFile.folder(of: path) + "/" + target
        }
        return path
    }

    /// The permissions of the file at `path`; `nil` if it does not exist.
    static func mode(of path: String) -> UInt32? {
        var status = stat()
        return stat(path, &status) == 0 ? UInt32(status.st_mode) & 0o777 : nil
    }

    /// Maps `errno` to the error for a file at `path` on which `work` failed.
    static func failure(to work: String, _ path: String) -> BackendError {
        switch errno {
        case EACCES, EPERM, EROFS:
            BackendError(.permissionDenied, message: "\(path): this user may not write there; choose another folder")
        case ENOSPC, EDQUOT: BackendError(.full, message: "\(path): no space is left; free some")
        case EMFILE, ENFILE:
            BackendError(
                .busy, disposition: .transient,
                message: "\(path): too many files are open; try again, or raise the limit")
        case let code: BackendError(.unavailable, message: "\(path): it cannot \(work) (error \(code)); check the disk")
        }
    }

    /// Returns `true` if the medium of `path` is read-only.
    static func isOnReadOnlyMedium(_ path: String) -> Bool {
        var status = statvfs()
        return statvfs(path, &status) == 0 && status.f_flag & UInt(ST_RDONLY) != 0
    }

    /// Returns `true` if this process or the system has reached its limit of open files.
    static func isOutOfDescriptors() -> Bool {
        let descriptor = open("/dev/null", O_RDONLY | O_CLOEXEC)
        if descriptor >= 0 { close(descriptor) }
        return descriptor < 0 && [EMFILE, ENFILE].contains(errno)
    }

    /// Syncs a folder, so that the names in it survive a power cut.
    ///
    /// It works for a WAL too, but must not be used for a database (see ``FileIdentity``).
    static func synchronize(_ path: String) throws(BackendError) {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else {
            throw BackendError(.unavailable, message: "\(path): it cannot be synced (error \(errno))")
        }
        defer { close(descriptor) }
        guard fsync(descriptor) == 0 else {
            throw BackendError(.unavailable, message: "\(path): it cannot be synced (error \(errno))")
        }
    }

    /// Sets the file's modification time to now, which signals a commit to watchers in other processes.
    static func touch(_ path: String) {
        // This is only a signal. If it fails, watchers are notified by the next change.
        _ = utimensat(AT_FDCWD, path, nil, 0)
    }
}
