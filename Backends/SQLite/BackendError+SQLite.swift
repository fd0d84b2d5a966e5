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
        let (kind, usual, advice) = Self.meaning(of: error)
        // A full disk ends a commit before its last page, without which SQLite forgets the rest. After any other
        // failure the last page may be there.
        let isKnown = [.full, .busy, .damaged, .permissionDenied].contains(kind)
        self.init(
            kind, disposition: mayHaveHappened && !isKnown ? .outcomeUnknown : usual, message: "\(path): \(advice)",
            cause: error)
    }

    /// Kind, disposition and advice.
    private static func meaning(of error: DatabaseError) -> (Kind, Disposition, String) {
        switch error.extendedResultCode {
        case .SQLITE_READONLY_DBMOVED:
            return (.unavailable, .transient, "the file was moved away while in use; try again")
        case .SQLITE_IOERR_NOMEM:
            return (.busy, .transient, "the system is short of memory; try again")
        case .SQLITE_IOERR_SHORT_READ, .SQLITE_IOERR_CORRUPTFS:
            return (.damaged, .permanent, "a part of the file is missing; recover what is whole into a new file")
        default:
            break
        }
        switch error.resultCode {
        case .SQLITE_BUSY, .SQLITE_LOCKED, .SQLITE_PROTOCOL:
            return (.busy, .transient, "another process holds the database; try again")
        case .SQLITE_NOMEM:
            return (.busy, .transient, "the system is short of memory; try again")
        case .SQLITE_FULL:
            return (.full, .permanent, "no space is left; free some")
        case .SQLITE_TOOBIG:
            return (.tooLarge, .permanent, "SQLite takes no value of this size")
        case .SQLITE_READONLY, .SQLITE_PERM, .SQLITE_AUTH:
            return (.permissionDenied, .permanent, "this user may not write there; give it access to file and folder")
        case .SQLITE_CANTOPEN:
            return (.permissionDenied, .permanent, "it cannot be opened; give this user access to file and folder")
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
}
