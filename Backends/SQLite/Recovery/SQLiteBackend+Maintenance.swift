import GRDB
public import SyncCore

/// What a check of a store found.
public struct IntegrityReport: Hashable, Sendable {
    /// How many keys have an entry that is whole.
    public var wholeCount: Int
    /// The keys whose entry cannot be believed, ascending; bytes that are no UTF-8 are replaced.
    public var damagedKeys: [String]
    /// What SQLite says about pages, indexes and tables, and what rows say about each other; at most 100 lines.
    public var problems: [String]

    /// Whether nothing was found.
    public var isIntact: Bool { damagedKeys.isEmpty && problems.isEmpty }
}

/// What was brought back from a damaged store.
public struct RecoveryReport: Hashable, Sendable {
    /// How many keys have their entry back.
    public var recoveredCount: Int
    /// The keys that are still named somewhere in the file and whose entry is not whole, ascending.
    public var lostKeys: [String]
    /// How many keys more there were, by the table of changes, of which neither name nor entry came back.
    public var missingCount: Int
    /// How many rows were found that cannot be believed, named or not.
    public var damagedRowCount: Int
}

extension SQLiteBackend {
    /// Checks everything: the structure of the database, and the checksums of every row. Reads the whole file, on a
    /// thread of its own; others may write meanwhile, and so may this object.
    ///
    /// - Throws: where the file is no store, or so damaged that SQLite cannot open it (`damaged` or `notAStore`).
    public func integrityCheck() async throws(BackendError) -> IntegrityReport {
        let store = store
        return try await store.maintaining { connections in
            guard let connections else { return IntegrityReport(wholeCount: 0, damagedKeys: [], problems: []) }
            return try connections.readConsistently { try IntegrityCheck(db: $0, file: store.file).run() }
        }
    }

    /// Copies the store, as of one moment, to a new file at `path`, which is on the disk afterwards. Others may read
    /// and write meanwhile.
    ///
    /// To put a copy back, end all processes that use the store, remove `path-wal` and `path-shm`, and only then put
    /// the copy in the place of the file: a log of later writes does not belong to it.
    ///
    /// Damage is copied too. An engine that finds the copy in the store's place notices, because no change after the
    /// copy is known in it.
    ///
    /// - Throws: `missing` when there is no store, `unsupported` when there is a file at `path` already.
    public func backup(to path: String) async throws(BackendError) {
        try await backup(to: path, draftingIn: nil)
    }

    /// As ``backup(to:)``; until it is whole, the copy is in the folder `drafts`, which the caller empties should the
    /// process be killed.
    package func backup(to path: String, draftingIn drafts: String?) async throws(BackendError) {
        let store = store
        try await store.maintaining { connections in
            guard let connections else {
                throw BackendError(.missing, message: "\(store.file.path): there is no store to copy")
            }
            try NewFile.make(at: path, like: store.file, draftingIn: drafts, host: store.host) {
                try connections.copy(to: $0)
            }
        }
    }

    /// Brings every entry that is whole into a new store at `path`, from a file that may be damaged anywhere: header,
    /// tables, index, missing parts.
    ///
    /// It looks at every page of the file and of the write-ahead log beside it by itself, and believes what its
    /// checksums confirm; of several rows of one key the latest. Versions stay, cursors expire. The damaged file is
    /// not changed. Nobody should write to it meanwhile.
    ///
    /// - Returns: what came back, and which keys did not. A key whose every trace is gone cannot be named.
    /// - Throws: `missing` when there is no file, `unsupported` when there is a file at `path` already.
    @discardableResult
    public func recover(to path: String) async throws(BackendError) -> RecoveryReport {
        let store = store
        return try await SerialQueue(label: "SQLiteStorage recovery").run { () throws(BackendError) in
            guard try store.file.isThere() else {
                throw BackendError(.missing, message: "\(store.file.path): there is no file to recover from")
            }
            do {
                return try NewFile.make(at: path, like: store.file, host: store.host) { path in
                    let pages = try PageSource(path: store.file.path)
                    return try Salvage(pages: pages, host: store.host).run(into: path)
                }
            } catch {
                throw BackendError(error, at: store.file.path)
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
        // So the copy can be read where nothing can be written; whoever writes to it first switches it back.
        try destination.inDatabase { try $0.execute(sql: "PRAGMA journal_mode = DELETE") }
        try destination.close()
    }
}
