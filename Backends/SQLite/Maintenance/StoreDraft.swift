import GRDB
package import SyncCore

/// A new store that is filled with the entries of a damaged one, in one transaction.
package struct StoreDraft {
    private let db: Database
    private let entries: EntryTable
    private let changes: ChangeTable
    private let host: HostServices
    private var sequence: Int64 = 0

    fileprivate init(db: Database, file: StoreFile, host: HostServices) {
        self.db = db
        entries = EntryTable(db: db, file: file)
        changes = ChangeTable(db: db, file: file)
        self.host = host
    }

    /// Stores `entry` under `key`, or that the key was deleted if it is `nil`. Replaces what was stored before.
    package mutating func put(_ entry: Entry?, under key: [UInt8]) throws {
        sequence += 1
        let place = try entries.lookup().locate(key)
        try entries.put(entry, under: key, at: place, sequence: sequence)
        try changes.append(sequence: sequence, tag: host.randomBits(), entry: place.number, superseding: 0)
        if place.sequence > 0 { try remove(change: place.sequence) }
    }

    /// Removes `key` as if it had never been stored.
    package func remove(_ key: [UInt8]) throws {
        let place = try entries.lookup().locate(key)
        try db.change("DELETE FROM entry WHERE id = ?", .integer(place.number))
        try remove(change: place.sequence)
    }

    private func remove(change sequence: Int64) throws {
        try db.change("DELETE FROM change WHERE sequence = ?", .integer(sequence))
    }
}

extension SQLiteBackend {
    /// Creates a store at `path` from what `fill` finds in the file of this store, on a separate thread.
    ///
    /// The file at `path` appears when it is complete and synced. Nothing is created if `fill` throws.
    ///
    /// - Parameter fill: Receives the path of this store's file, which may be damaged or missing if a WAL is beside it.
    /// - Throws: `missing` if neither the file nor its WAL exists, `unsupported` if a file already exists at `path`.
    package func rebuild<Report: Sendable>(
        at path: String, _ fill: @escaping @Sendable (_ damaged: String, inout StoreDraft) throws -> Report
    ) async throws(BackendError) -> Report {
        let store = store
        return try await SerialQueue(label: "SQLiteStorage recovery").run { () throws(BackendError) in
            guard try store.file.isThere() else {
                throw BackendError(.missing, message: "\(store.file.path): the file does not exist")
            }
            return try store.file.attempting {
                try NewFile.make(at: path, like: store.file, host: store.host) { path in
                    let file = StoreFile(path: path, mayBeCreated: true)
                    try file.make(host: store.host)
                    return try StoreDraft.fill(file, host: store.host) { try fill(store.file.path, &$0) }
                }
            }
        }
    }
}

extension StoreDraft {
    fileprivate static func fill<Report>(
        _ file: StoreFile, host: HostServices, _ body: (inout StoreDraft) throws -> Report
    ) throws -> Report {
        var configuration = Configuration()
        configuration.prepareDatabase { db in
            // The file is renamed only after it was synced completely, and must not have a WAL then.
            try db.execute(sql: "PRAGMA journal_mode = DELETE; PRAGMA synchronous = EXTRA")
        }
        let database = try DatabaseQueue(path: file.path, configuration: configuration)
        var report: Report?
        try database.inDatabase { db in
            try db.inTransaction(.exclusive) {
                var draft = StoreDraft(db: db, file: file, host: host)
                report = try body(&draft)
                return .commit
            }
        }
        try database.close()
        guard let report else { throw BackendError(.other, message: "\(file.path): the transaction did not run") }
        return report
    }
}
