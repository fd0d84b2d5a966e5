import GRDB
package import SyncCore

extension SQLiteBackend {
    /// A store that numbers rows by another hash: for tests of keys that share one.
    package convenience init(path: String, numbering: @escaping @Sendable ([UInt8]) -> Int64) {
        self.init(
            file: StoreFile(path: path, mayBeMade: true, numbering: numbering), creating: .unlessRemote, host: .system,
            busyTimeout: .seconds(10), maximumValueByteCount: 64 << 20)
    }

    /// What `PRAGMA synchronous` says on the connection that writes: 2 is FULL. `nil` when none is open.
    package func synchronousPragma() async throws(BackendError) -> Int64? {
        try await onWriter { try StoreSchema.pragma("synchronous", in: $0) }
    }

    /// What `PRAGMA journal_mode` says on the connection that writes.
    package func journalMode() async throws(BackendError) -> String? {
        try await onWriter { try String.fetchOne($0, sql: "PRAGMA journal_mode") ?? "" }
    }

    /// How many changes are kept.
    package func changeRowCount() async throws(BackendError) -> Int64 {
        try await onWriter { try Int64.fetchOne($0, sql: "SELECT count(*) FROM change") ?? 0 } ?? 0
    }

    /// What a read would be answered without SQLite; `nil` where SQLite has to be asked.
    package func remembered(_ key: EntryKey, unless knownVersion: EntryVersion? = nil) -> ReadOutcome? {
        store.current()?.cache?.read(key, unless: knownVersion)
    }

    /// What would be answered without SQLite of the changes after `cursor`; `nil` where SQLite has to be asked.
    package func rememberedChanges(since cursor: ChangeCursor?, limit: Int) -> ChangePage? {
        store.current()?.recentChanges?.page(since: cursor, limit: limit)
    }

    /// How many bytes of keys and values it keeps in memory.
    package var rememberedByteCount: Int { store.current()?.cache?.heldByteCount ?? 0 }

    /// How many transactions this object has committed.
    package var commitCount: Int { store.commitCount }

    /// Lets the file have no more than `count` pages, as a full disk would.
    package func limitPages(to count: Int) async throws(BackendError) {
        _ = try await onWriter { try $0.execute(sql: "PRAGMA max_page_count = \(count)") }
    }

    private func onWriter<Result: Sendable>(
        _ body: @escaping @Sendable (Database) throws -> Result
    ) async throws(BackendError) -> Result? {
        let store = store
        return try await store.queue.run { () throws(BackendError) -> Result? in
            guard let connections = try store.opened() else { return nil }
            do {
                return try connections.writer().inDatabase(body)
            } catch {
                throw BackendError(error, at: store.file.path)
            }
        }
    }
}
