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

extension FileSystemError {
    /// True if the file or one of the folders above it does not exist.
    var isMissing: Bool { code == ENOENT }

    /// True if the file already exists.
    var isExisting: Bool { code == EEXIST }

    /// True if the device or file server failed during the call, so that a rename or removal may have happened.
    var mayHaveHappened: Bool { [EIO, ESTALE, ETIMEDOUT].contains(code) }
}

extension BackendError {
    /// Maps a failed system call to an error with advice.
    init(_ error: FileSystemError, disposition: Disposition? = nil) {
        let (kind, usual, advice): (Kind, Disposition, String) =
            switch error.code {
            case EACCES, EPERM:
                (.permissionDenied, .permanent, "this user has no permission; give it access to the store's folder")
            case EROFS:
                (.permissionDenied, .permanent, "the file system is read-only; mount it for writing")
            case ENOSPC:
                (.full, .permanent, "no space is left; free some")
            case EDQUOT:
                (.full, .permanent, "the user's quota is used up; free some space")
            case EFBIG:
                (.tooLarge, .permanent, "the file would be larger than the file system or the process limit allows")
            case ENOTDIR, EISDIR, ENOTEMPTY:
                (.notAStore, .permanent, "there is a file where a folder should be, or the reverse; move it away")
            case FileSystemError.notRegular:
                (.notAStore, .permanent, "this is not a regular file; move it away")
            case ELOOP:
                (.notAStore, .permanent, "this is a symbolic link, or its path has too many; use the file itself")
            case ENAMETOOLONG:
                (.notAStore, .permanent, "the path cannot be followed; choose another folder")
            case EMFILE, ENFILE, ENOMEM, EAGAIN, EBUSY:
                (.busy, .transient, "the system is short of file descriptors or memory; try again")
            case ENOENT:
                (.unavailable, .transient, "it was removed while in use; try again")
            case ESTALE, ENODEV, ENXIO, ETIMEDOUT:
                (.unavailable, .transient, "the disk or file server is unavailable; try again later")
            case EIO:
                (.unavailable, .permanent, "the disk reports an error; check it")
            default:
                (.other, .permanent, "the file system rejected the operation")
            }
        self.init(kind, disposition: disposition ?? usual, message: "\(error.path): \(advice)", cause: error)
    }

    /// The error of creating a folder if it is reported as missing although its parent exists, for example in `/proc`.
    init(makingFolderIn error: FileSystemError) {
        self.init(
            .notAStore, disposition: .permanent,
            message: "\(error.path): no folder can be created there; choose another place", cause: error)
    }

    /// The error of a failed call that changes a name.
    init(renaming error: FileSystemError) {
        self.init(error, disposition: error.mayHaveHappened ? .outcomeUnknown : nil)
    }

    /// True if no space is left, or if the disk cannot be read or written.
    var isOfFullOrBrokenDisk: Bool {
        guard let error = cause as? FileSystemError else { return false }
        return [ENOSPC, EDQUOT, EFBIG, EIO].contains(error.code)
    }

    /// Creates the error for a damaged or unsupported entry file at `path`.
    init(_ problem: EntryFile.Problem, path: String) {
        switch problem {
        case .damaged(let what):
            self.init(.damaged, message: "\(path): \(what); restore this file from a backup or write the key again")
        case .newerFormat(let format):
            self.init(
                .newerFormat,
                message: "\(path): format \(format), but this software supports up to \(EntryFile.format); update it")
        }
    }
}

/// Performs system calls whose failure guarantees that nothing was changed.
func attempting<Result>(_ body: () throws(FileSystemError) -> Result) throws(BackendError) -> Result {
    do { return try body() } catch { throw BackendError(error) }
}

/// Returns the result of `body`; `nil` if the file or folder is missing.
func ifThere<Result>(_ body: () throws(FileSystemError) -> Result) throws(BackendError) -> Result? {
    do { return try body() } catch {
        guard error.isMissing else { throw BackendError(error) }
        return nil
    }
}
