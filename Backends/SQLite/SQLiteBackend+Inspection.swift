import GRDB
package import SyncCore

extension SQLiteBackend {
    /// Creates a store with another retention, for tests that exceed it, or with another hash for row numbers, for
    /// tests of hash collisions.
    package convenience init(
        path: String, retainedChangeCount: Int64,
        numbering: @escaping @Sendable ([UInt8]) -> Int64 = { RowChecksums.number(of: $0) }
    ) {
        let file = StoreFile(
            path: path, mayBeCreated: true, numbering: numbering, retainedChangeCount: retainedChangeCount)
        self.init(
            file: file, creating: .unlessRemote, host: .system, busyTimeout: .seconds(10),
            maximumValueByteCount: 64 << 20)
    }

    /// The `PRAGMA synchronous` of the writing connection, 2 for FULL; `nil` if no connection is open.
    package func synchronousPragma() async throws(BackendError) -> Int64? {
        try await onWriter { try StoreSchema.pragma("synchronous", in: $0) }
    }

    /// `PRAGMA journal_mode` of the writing connection.
    package func journalMode() async throws(BackendError) -> String? {
        try await onWriter { try String.fetchOne($0, sql: "PRAGMA journal_mode") ?? "" }
    }

    /// The number of retained changes.
    package func changeRowCount() async throws(BackendError) -> Int64 { try await rowCount(of: "change") }

    /// The number of rows for keys, tombstone rows included.
    package func entryRowCount() async throws(BackendError) -> Int64 { try await rowCount(of: "entry") }

    private func rowCount(of table: String) async throws(BackendError) -> Int64 {
        try await onWriter { try Int64.fetchOne($0, sql: "SELECT count(*) FROM \(table)") ?? 0 } ?? 0
    }

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
            return try store.file.attempting { try connections.writer().inDatabase(body) }
        }
    }
}
