import GRDB
package import SyncCore

extension BackendError {
    /// Creates the error for damage in the store at `path`; `place` names the damaged part.
    init(damagedAt path: String, _ place: String) {
        self.init(
            .damaged,
            message: "\(path): \(place); write the key again, or recover the readable entries into a new file")
    }

    /// Converts an error thrown by work on the database at `path`, with a truthful disposition.
    ///
    /// - Parameter mayHaveHappened: `true` if the error was thrown by the commit.
    package init(_ error: any Error, at path: String, mayHaveHappened: Bool = false) {
        switch error {
        case let error as BackendError: self = error
        case let error as DatabaseError: self.init(error, path: path, mayHaveHappened: mayHaveHappened)
        default: self.init(.other, message: "\(path): \(error)", cause: error)
        }
    }

    private init(_ error: DatabaseError, path: String, mayHaveHappened: Bool) {
        let (kind, usual, advice) = Self.meaning(of: error, path: path)
        // A full disk ends a commit before its last page is written, and SQLite ignores a commit without that page.
        // After any other failure the last page may have been written.
        let isKnown = [.full, .busy, .damaged, .permissionDenied].contains(kind)
        self.init(
            kind, disposition: mayHaveHappened && !isKnown ? .outcomeUnknown : usual, message: "\(path): \(advice)",
            cause: error)
    }

    /// The kind, disposition and advice for an error of SQLite.
    private static func meaning(of error: DatabaseError, path: String) -> (Kind, Disposition, String) {
        switch error.extendedResultCode {
        case .SQLITE_READONLY_DBMOVED:
            return (.unavailable, .transient, "the file was moved while in use; try again")
        case .SQLITE_IOERR_NOMEM:
            return (.unavailable, .transient, "the system is short of memory; try again")
        case .SQLITE_IOERR_SHORT_READ, .SQLITE_IOERR_CORRUPTFS:
            return (.damaged, .permanent, "a part of the file is missing; recover the readable entries into a new file")
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
            return (.tooLarge, .permanent, "the value is larger than SQLite supports")
        case .SQLITE_READONLY, .SQLITE_PERM, .SQLITE_AUTH, .SQLITE_CANTOPEN:
            return unopened(error, path: path)
        case .SQLITE_CORRUPT:
            return (
                .damaged, .permanent, "the database is damaged here; recover the readable entries into a new file"
            )
        case .SQLITE_CONSTRAINT:
            return (
                .damaged, .permanent, "table and index disagree here; recover the readable entries into a new file"
            )
        case .SQLITE_NOTADB:
            return (
                .notAStore, .permanent,
                "this is not an SQLite database, or its first page is damaged; choose another file, or recover it"
            )
        case .SQLITE_IOERR:
            return (.unavailable, .permanent, "the disk reports an error; check it")
        default:
            return (.other, .permanent, "SQLite rejected the operation")
        }
    }

    /// Maps an error of SQLite for a file that it could not open or write. The cause is determined by asking the
    /// system, because SQLite does not report it.
    private static func unopened(_ error: DatabaseError, path: String) -> (Kind, Disposition, String) {
        if FileIdentity.isOutOfDescriptors() {
            return (.busy, .transient, "too many files are open; try again, or raise the limit")
        }
        if FileIdentity.isOnReadOnlyMedium(path) {
            return (
                .permissionDenied, .permanent,
                "the medium is read-only, and a database in use needs a file beside it; copy it to a disk, "
                    + "or use a backup, which needs no such file"
            )
        }
        return (
            .permissionDenied, .permanent,
            error.resultCode == .SQLITE_CANTOPEN
                ? "it cannot be opened; give this user access to the file and its folder"
                : "this user may not write there; give it access to the file and its folder"
        )
    }
}
