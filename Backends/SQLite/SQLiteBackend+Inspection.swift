import GRDB
package import SyncCore

extension SQLiteBackend {
    /// A store that numbers rows by another hash: for tests of keys that share one.
    package convenience init(path: String, numbering: @escaping @Sendable ([UInt8]) -> Int64) {
        self.init(
            file: StoreFile(path: path, mayBeMade: true, numbering: numbering), creating: .unlessRemote, host: .system,
            busyTimeout: .seconds(10), maximumValueByteCount: 64 << 20)
    }

    /// A store that retains another number of changes: for tests that go beyond it.
    package convenience init(
        path: String, retainedChangeCount: Int64, numbering: (@Sendable ([UInt8]) -> Int64)? = nil
    ) {
        let file = StoreFile(
            path: path, mayBeMade: true, numbering: numbering ?? { RowChecksums.number(of: $0) },
            retainedChangeCount: retainedChangeCount)
        self.init(
            file: file, creating: .unlessRemote, host: .system, busyTimeout: .seconds(10),
            maximumValueByteCount: 64 << 20)
    }

    /// `PRAGMA synchronous` of the writing connection: 2 is FULL. `nil` if none is open.
    package func synchronousPragma() async throws(BackendError) -> Int64? {
        try await onWriter { try StoreSchema.pragma("synchronous", in: $0) }
    }

    /// `PRAGMA journal_mode` of the writing connection.
    package func journalMode() async throws(BackendError) -> String? {
        try await onWriter { try String.fetchOne($0, sql: "PRAGMA journal_mode") ?? "" }
    }

    /// The number of changes that are kept.
    package func changeRowCount() async throws(BackendError) -> Int64 { try await rowCount(of: "change") }

    /// The number of keys that are kept, deleted ones included.
    package func entryRowCount() async throws(BackendError) -> Int64 { try await rowCount(of: "entry") }

    private func rowCount(of table: String) async throws(BackendError) -> Int64 {
        try await onWriter { try Int64.fetchOne($0, sql: "SELECT count(*) FROM \(table)") ?? 0 } ?? 0
    }

    /// The answer to a read from memory; `nil` if SQLite has to be asked.
    package func remembered(_ key: EntryKey, unless knownVersion: EntryVersion? = nil) -> ReadOutcome? {
        store.current()?.cache?.read(key, unless: knownVersion)
    }

    /// The changes after `cursor` from memory; `nil` if SQLite has to be asked.
    package func rememberedChanges(since cursor: ChangeCursor?, limit: Int) -> ChangePage? {
        store.current()?.recentChanges?.page(since: cursor, limit: limit)
    }

    /// The bytes of keys and values in memory.
    package var rememberedByteCount: Int { store.current()?.cache?.heldByteCount ?? 0 }

    /// The number of transactions that this object has committed.
    package var commitCount: Int { store.commitCount }

    /// Limits the file to `count` pages, as a full disk would.
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
