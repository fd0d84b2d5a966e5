import GRDB
public import SyncCore

/// The result of an integrity check.
public struct IntegrityReport: Hashable, Sendable {
    /// The number of keys with an intact entry.
    public var wholeCount: Int
    /// The keys with a damaged entry, in ascending order. Bytes that are not valid UTF-8 are replaced.
    public var damagedKeys: [String]
    /// Problems that SQLite reports about pages, indexes and tables, and contradictions between rows; at most 100
    /// lines.
    public var problems: [String]

    /// True if the check found no damage.
    public var isIntact: Bool { damagedKeys.isEmpty && problems.isEmpty }
}

extension SQLiteBackend {
    /// Checks the structure of the database and the checksums of all rows.
    ///
    /// It reads the whole file on a separate thread. This object and other processes may write meanwhile.
    ///
    /// - Throws: `notAStore` or `damaged` if the file is not a store, or is so damaged that SQLite cannot open it.
    public func integrityCheck() async throws(BackendError) -> IntegrityReport {
        let store = store
        return try await store.maintaining { connections in
            guard let connections else { return IntegrityReport(wholeCount: 0, damagedKeys: [], problems: []) }
            return try connections.readConsistently { try IntegrityCheck(db: $0, file: store.file).run() }
        }
    }

    /// Copies a snapshot of the store to a new file at `path` and syncs it. Others may read and write meanwhile.
    ///
    /// To restore a copy, end all processes that use the store, remove `path-wal` and `path-shm`, and only then replace
    /// the file with the copy. A WAL with later writes does not belong to it.
    ///
    /// Damage is copied too. An engine detects that the store was restored from a copy, because the copy does not have
    /// the changes made after it.
    ///
    /// - Throws: `missing` if there is no store, `unsupported` if a file already exists at `path`.
    public func backup(to path: String) async throws(BackendError) {
        try await backup(to: path, draftingIn: nil)
    }

    /// Like ``backup(to:)``, but the incomplete copy is in the folder `drafts`, which the caller empties if the process
    /// is killed.
    package func backup(to path: String, draftingIn drafts: String?) async throws(BackendError) {
        let store = store
        try await store.maintaining { connections in
            guard let connections else {
                throw BackendError(.missing, message: "\(store.file.path): the store does not exist")
            }
            try NewFile.make(at: path, like: store.file, draftingIn: drafts, host: store.host) {
                try connections.copy(to: $0)
            }
        }
    }
}

extension StoreConnections {
    /// Copies all pages to the new file at `path`.
    func copy(to path: String) throws {
        var configuration = Configuration()
        configuration.foreignKeysEnabled = false
        configuration.prepareDatabase { try $0.execute(sql: "PRAGMA synchronous = EXTRA") }
        let destination = try DatabaseQueue(path: path, configuration: configuration)
        try copyAll(to: destination)
        // Makes the copy readable on read-only media. The first process that writes to it switches it back.
        try destination.inDatabase { try $0.execute(sql: "PRAGMA journal_mode = DELETE") }
        try destination.close()
    }
}
