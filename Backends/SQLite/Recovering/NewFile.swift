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
    static func make<Result>(
        at path: String, _ body: (String) throws(BackendError) -> Result
    ) throws(BackendError) -> Result {
        guard try FileIdentity.look(at: path) == .missing else {
            throw BackendError(.unsupported, message: "\(path): something is there already; choose another name")
        }
        let folder = StoreFile(path: path, mayBeMade: false).folder
        guard try FileIdentity.look(at: folder) == .folder else {
            throw BackendError(.missing, message: "\(path): the folder \(folder) does not exist; make it first")
        }
        let pending = path + ".pending"
        remove(pending)
        do throws(BackendError) {
            let result = try body(pending)
            // Unlike renaming, this never replaces a file that came up meanwhile.
            guard link(pending, path) == 0 else {
                throw BackendError(
                    .unsupported, message: "\(path): the file cannot get this name (error \(errno)); choose another")
            }
            remove(pending)
            try FileIdentity.synchroniseFolder(folder)
            return result
        } catch {
            remove(pending)
            throw error
        }
    }

    private static func remove(_ path: String) {
        for suffix in ["", "-journal", "-wal", "-shm"] { unlink(path + suffix) }
    }
}
