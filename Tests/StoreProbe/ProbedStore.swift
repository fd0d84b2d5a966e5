import FileStorage
import SQLiteStorage
import SyncCore

#if PostgreSQL
import PostgreSQLStorage
#endif

/// The stores that the probe can open. The place is a folder, which must exist for a SQLite store.
enum ProbedStore {
    private static let folders: [String: @Sendable (String) throws(BackendError) -> any KeyValueBackend] = [
        "file": { FileBackend(folder: $0, lockTimeout: .seconds(60)) },
        "folder": { FileBackend(folder: $0, sharing: .fileSyncTool, lockTimeout: .seconds(60)) },
        "restarting": { FileBackend(folder: $0, host: RestartingHost().host) },
        "forgetful": { ForgetfulBackend(folder: $0) },
        "sqlite": { SQLiteBackend(path: $0 + "/store.sqlite", busyTimeout: .seconds(60)) },
    ]

    #if PostgreSQL
    /// The place is the rest of a URL.
    private static let kinds = folders.merging([
        "postgres": { rest throws(BackendError) in try PostgreSQLBackend("postgres:" + rest) }
    ]) { $1 }
    #else
    private static let kinds = folders
    #endif

    /// Opens the store with the name `KIND:PLACE`.
    static func open(_ name: String) throws(BackendError) -> any KeyValueBackend {
        let parts = name.split(separator: ":", maxSplits: 1).map(String.init)
        guard parts.count == 2, let open = kinds[parts[0]] else {
            throw BackendError(
                .notAStore, message: "\"\(name)\" must be one of \(kinds.keys.sorted().joined(separator: ", "))")
        }
        return try open(parts[1])
    }
}
