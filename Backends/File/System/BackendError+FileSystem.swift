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
    /// Nothing has that name, or a folder on the way to it is missing.
    var isMissing: Bool { code == ENOENT }

    /// Something has that name already.
    var isExisting: Bool { code == EEXIST }

    /// The call was for a folder, or through one, and a file is there.
    var isNoFolder: Bool { code == ENOTDIR }

    /// The device or file server failed in the middle, so a change of names may have happened after all.
    var mayHaveHappened: Bool { [EIO, ESTALE, ETIMEDOUT].contains(code) }
}

extension BackendError {
    /// What a failed system call means for the store, in a line that says what to do.
    init(_ error: FileSystemError, disposition: Disposition? = nil) {
        let (kind, usual, advice): (Kind, Disposition, String) =
            switch error.code {
            case EACCES, EPERM:
                (.permissionDenied, .permanent, "this user may not do that here; give it access to the store's folder")
            case EROFS:
                (.permissionDenied, .permanent, "the file system is read-only; mount it for writing")
            case ENOSPC:
                (.full, .permanent, "no space is left; free some")
            case EDQUOT:
                (.full, .permanent, "the user's quota is used up; free some space")
            case EFBIG:
                (.tooLarge, .permanent, "the file would be larger than the file system or the process limit allows")
            case ENOTDIR, EISDIR, ENOTEMPTY:
                (.notAStore, .permanent, "a file stands where a folder should be, or the reverse; move it away")
            case FileSystemError.notRegular:
                (.notAStore, .permanent, "this is no regular file; move it away")
            case ELOOP:
                (.notAStore, .permanent, "this is a symbolic link, or its path has too many; put the file itself there")
            case ENAMETOOLONG:
                (.notAStore, .permanent, "the path cannot be followed; choose another folder")
            case EMFILE, ENFILE, ENOMEM, EAGAIN, EBUSY:
                (.busy, .transient, "the system is short of files or memory; try again")
            case ENOENT:
                (.unavailable, .transient, "it was removed while in use; try again")
            case ESTALE, ENODEV, ENXIO, ETIMEDOUT:
                (.unavailable, .transient, "the disk or file server is away; try again when it is back")
            case EIO:
                (.unavailable, .permanent, "the disk reports an error; check it")
            default:
                (.other, .permanent, "the file system refused")
            }
        self.init(kind, disposition: disposition ?? usual, message: "\(error.path): \(advice)", cause: error)
    }

    /// The error of making a folder that was "missing" although its parent was there: in `/proc`, for one.
    init(makingFolderIn error: FileSystemError) {
        self.init(
            .notAStore, disposition: .permanent,
            message: "\(error.path): no folder can be made there; choose another place", cause: error)
    }

    /// The error of a call that changes a name, when it failed.
    init(renaming error: FileSystemError) {
        self.init(error, disposition: error.mayHaveHappened ? .outcomeUnknown : nil)
    }

    /// No space is left, or the disk cannot read or write what it should.
    var isOfFullOrBrokenDisk: Bool {
        guard let error = cause as? FileSystemError else { return false }
        return [ENOSPC, EDQUOT, EFBIG, EIO].contains(error.code)
    }

    /// What is wrong with the entry file at `path`.
    init(_ problem: EntryFile.Problem, path: String) {
        switch problem {
        case .damaged(let what):
            self.init(.damaged, message: "\(path): \(what); restore this file from a backup or write the key anew")
        case .newerFormat(let format):
            self.init(
                .newerFormat,
                message: "\(path): format \(format), this software knows up to \(EntryFile.format); update it")
        }
    }
}

/// Performs system calls whose failure means that nothing was done.
func attempting<Result>(_ body: () throws(FileSystemError) -> Result) throws(BackendError) -> Result {
    do {
        return try body()
    } catch {
        throw BackendError(error)
    }
}
