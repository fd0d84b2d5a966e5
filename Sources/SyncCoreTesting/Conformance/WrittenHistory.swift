public import SyncCore

/// The versions and tags that a store issued to one process. No process may receive any of them again, in no later
/// history of the store.
public struct WrittenHistory: Hashable, Sendable {
    /// The versions, in the order of the writes.
    public var versions: [EntryVersion]
    /// The tags of the cursors after each write and delete; empty for a store without changes.
    public var tags: [UInt64]

    /// Creates a history that another process reported.
    public init(versions: [EntryVersion], tags: [UInt64]) {
        self.versions = versions
        self.tags = tags
    }

    /// Writes to `backend` under `v/`: equal values, over two keys, and after deletes.
    ///
    /// - Throws: The errors of the store; a conflict with a write under `any` is an error of kind `other`.
    public init(writingInto backend: any KeyValueBackend) async throws {
        self.init(versions: [], tags: [])
        let keys = [try EntryKey("v/a"), try EntryKey("v/b")]
        var cursor = try await Self.end(of: backend, after: nil)
        for round in 0..<12 {
            for key in keys {
                let outcome = try await backend.write([7], to: key, if: .any).outcome
                guard case .written(let version) = outcome else {
                    throw BackendError(
                        .other, operation: .write, key: key, message: "a write under `any` answered \(brief(outcome))")
                }
                versions.append(version)
                cursor = try await addTag(of: backend, after: cursor)
            }
            if round % 3 == 2 {
                _ = try await backend.delete(keys[0], if: .any)
                cursor = try await addTag(of: backend, after: cursor)
            }
        }
    }

    private mutating func addTag(
        of backend: any KeyValueBackend, after cursor: ChangeCursor?
    ) async throws -> ChangeCursor? {
        let end = try await Self.end(of: backend, after: cursor)
        if let end, end != cursor { tags.append(end.tag) }
        return end
    }

    private static func end(of backend: any KeyValueBackend, after start: ChangeCursor?) async throws -> ChangeCursor? {
        guard backend.capabilities.changes else { return nil }
        var cursor = start
        while true {
            let page = try await backend.changes(since: cursor, limit: 100).outcome
            cursor = page.cursor
            if !page.hasMore { return cursor }
        }
    }
}
