import Foundation
import SyncCore

/// Files with secrets, which only their owner may read.
enum PrivateFile {
    /// The folder for what `syncd` keeps from one start to the next (XDG base directories); `nil` where there is no
    /// home.
    static var stateFolder: String? {
        if let state = environmentVariable("XDG_STATE_HOME"), state.hasPrefix("/") { return state + "/syncd" }
        if let home = environmentVariable("HOME"), home.hasPrefix("/") { return home + "/.local/state/syncd" }
        return nil
    }

    /// Reads all of a file that is its owner's alone; `nil` where there is none.
    static func read(_ path: String) throws(BackendError) -> Data? {
        let file = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW)
        guard file >= 0 else {
            if errno == ENOENT { return nil }
            throw BackendError(
                [EACCES, EPERM, ELOOP].contains(errno) ? .permissionDenied : .unavailable, operation: .read,
                disposition: .permanent, message: "\(path): it cannot be read: \(String(cString: strerror(errno)))")
        }
        defer { close(file) }
        var status = stat()
        let isKnown = fstat(file, &status) == 0
        guard isKnown, status.st_mode & S_IFMT == S_IFREG, status.st_uid == geteuid(), status.st_mode & 0o077 == 0
        else {
            throw BackendError(
                .permissionDenied, operation: .read,
                message: "\(path): others can read this log-in: chmod 600 it, and log out everywhere if they may have")
        }
        do {
            return try FileHandle(fileDescriptor: file, closeOnDealloc: false).readToEnd() ?? Data()
        } catch {
            throw BackendError(.unavailable, operation: .read, message: "\(path): it cannot be read", cause: error)
        }
    }
}
