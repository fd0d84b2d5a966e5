public import SQLiteStorage
public import SyncCore

/// The result of recovering a damaged store.
public struct RecoveryReport: Hashable, Sendable {
    /// The number of keys whose entry was recovered.
    public var recoveredCount: Int
    /// The keys that were found in the file but whose entry was not recovered, in ascending order.
    public var lostKeys: [String]
    /// The number of further keys that existed according to the table of changes, but whose key and entry were not
    /// found.
    public var missingCount: Int
    /// The number of damaged rows, with or without a readable key.
    public var damagedRowCount: Int
}

extension SQLiteBackend {
    /// Writes all intact entries to a new store at `path`, from a file that may be damaged anywhere: header, tables,
    /// index, missing parts.
    ///
    /// It reads all pages of the file and of the WAL beside it without SQLite, and keeps the rows whose checksums
    /// match. If there are several rows for one key, it keeps the latest. Versions are preserved; cursors expire. The
    /// damaged file is not changed. No process should write to it meanwhile.
    ///
    /// - Returns: The number of recovered entries and the keys that were lost. A key of which no trace is left cannot
    ///   be named.
    /// - Throws: `missing` if the file does not exist, `unsupported` if a file already exists at `path`.
    @discardableResult
    public func recover(to path: String) async throws(BackendError) -> RecoveryReport {
        try await rebuild(at: path) { damaged, draft in
            try Salvage(pages: try PageSource(path: damaged)).run(into: &draft)
        }
    }
}
