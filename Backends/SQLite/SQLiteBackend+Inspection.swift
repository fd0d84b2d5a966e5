import GRDB
package import SyncCore

extension SQLiteBackend {
    /// Creates a store with another hash for row numbers, for tests of hash collisions.
    package convenience init(path: String, numbering: @escaping @Sendable ([UInt8]) -> Int64) {
        self.init(
            file: StoreFile(path: path, mayBeCreated: true, numbering: numbering), creating: .unlessRemote,
            host: .system, busyTimeout: .seconds(10), maximumValueByteCount: 64 << 20)
    }

    /// Creates a store with another retention, for tests that exceed it.
    package convenience init(
        path: String, retainedChangeCount: Int64, numbering: (@Sendable ([UInt8]) -> Int64)? = nil
    ) {
        let file = StoreFile(
            path: path, mayBeCreated: true, numbering: numbering ?? { RowChecksums.number(of: $0) },
            retainedChangeCount: retainedChangeCount)
        self.init(
            file: file, creating: .unlessRemote, host: .system, busyTimeout: .seconds(10),
            maximumValueByteCount: 64 << 20)
    }

    /// The `PRAGMA synchronous` of the writing connection, 2 for FULL; `nil` if no connection is open.
    package func synchronousPragma() async throws(BackendError) -> Int64? {
        try await onWriter { try StoreSchema.pragma("synchronous", in: $0) }
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
            return try store.attempt { try connections.writer().inDatabase(body) }
        }
    }
}
