import GRDB
import SyncCore

extension BackendError {
    /// What is stored at `path` cannot be believed; `place` says where in it.
    init(damagedAt path: String, _ place: String) {
        self.init(
            .damaged,
            message: "\(path): \(place); write the key anew, or recover what is whole into a new file")
    }

    /// Whatever a piece of work on the database at `path` threw, as an error with a true disposition.
    ///
    /// - Parameter mayHaveHappened: whether it was the commit that failed.
    init(_ error: any Error, at path: String, mayHaveHappened: Bool = false) {
        switch error {
        case let error as BackendError: self = error
        case let error as DatabaseError: self.init(error, path: path, mayHaveHappened: mayHaveHappened)
        default: self.init(.other, message: "\(path): \(error)", cause: error)
        }
    }

    private init(_ error: DatabaseError, path: String, mayHaveHappened: Bool) {
        let (kind, usual, advice) = Self.meaning(of: error, path: path)
        // A full disk ends a commit before its last page, without which SQLite forgets the rest. After any other
        // failure the last page may be there.
        let isKnown = [.full, .busy, .damaged, .permissionDenied].contains(kind)
        self.init(
            kind, disposition: mayHaveHappened && !isKnown ? .outcomeUnknown : usual, message: "\(path): \(advice)",
            cause: error)
    }

    /// Kind, disposition and advice.
    private static func meaning(of error: DatabaseError, path: String) -> (Kind, Disposition, String) {
        switch error.extendedResultCode {
        case .SQLITE_READONLY_DBMOVED:
            return (.unavailable, .transient, "the file was moved away while in use; try again")
        case .SQLITE_IOERR_NOMEM:
            return (.unavailable, .transient, "the system is short of memory; try again")
        case .SQLITE_IOERR_SHORT_READ, .SQLITE_IOERR_CORRUPTFS:
            return (.damaged, .permanent, "a part of the file is missing; recover what is whole into a new file")
        default:
            break
        }
        switch error.resultCode {
        case .SQLITE_BUSY, .SQLITE_LOCKED, .SQLITE_PROTOCOL:
            return (.busy, .transient, "another process holds the database; try again")
        case .SQLITE_NOMEM:
            return (.unavailable, .transient, "the system is short of memory; try again")
        case .SQLITE_FULL:
            return (.full, .permanent, "no space is left; free some")
        case .SQLITE_TOOBIG:
            return (.tooLarge, .permanent, "SQLite takes no value of this size")
        case .SQLITE_READONLY, .SQLITE_PERM, .SQLITE_AUTH, .SQLITE_CANTOPEN:
            return unopened(error, path: path)
        case .SQLITE_CORRUPT:
            return (
                .damaged, .permanent, "the database is damaged here; recover what is whole into a new file"
            )
        case .SQLITE_CONSTRAINT:
            return (
                .damaged, .permanent, "table and index disagree here; recover what is whole into a new file"
            )
        case .SQLITE_NOTADB:
            return (
                .notAStore, .permanent,
                "this is no SQLite database, or its first page is damaged; choose another file, or recover it"
            )
        case .SQLITE_IOERR:
            return (.unavailable, .permanent, "the disk reports an error; check it")
        default:
            return (.other, .permanent, "SQLite refused")
        }
    }

    /// SQLite could not open a file, or may not write it. It does not say why; the system does.
    private static func unopened(_ error: DatabaseError, path: String) -> (Kind, Disposition, String) {
        if FileIdentity.isOutOfDescriptors() {
            return (.busy, .transient, "too many files are open; try again, or raise the limit")
        }
        if FileIdentity.isOnReadOnlyMedium(path) {
            return (
                .permissionDenied, .permanent,
                "nothing can be written there, and a database in use needs a file beside it; copy it to a disk, "
                    + "or use a backup, which needs none"
            )
        }
        return (
            .permissionDenied, .permanent,
            error.resultCode == .SQLITE_CANTOPEN
                ? "it cannot be opened; give this user access to file and folder"
                : "this user may not write there; give it access to file and folder"
        )
    }
}
