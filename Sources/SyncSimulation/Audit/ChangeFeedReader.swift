import SyncCore

/// Tracks the contents of a store through its change feed alone, as a subscriber does.
struct ChangeFeedReader {
    private(set) var cursor: ChangeCursor?
    private(set) var versions: [EntryKey: EntryVersion] = [:]

    /// Reads all changes since the last call.
    ///
    /// - Returns: `true` if the cursor had expired.
    mutating func follow(_ store: StoreContents) async throws(BackendError) -> Bool {
        guard store.capabilities.changes else { return false }
        var hasExpired = false
        while true {
            let page: ChangePage
            do throws(BackendError) {
                page = try await store.changes(since: cursor, limit: 3).outcome
            } catch {
                guard error.kind == .cursorExpired, !hasExpired else { throw error }
                // A missing entry proves nothing, so everything is read again from the start.
                (cursor, versions, hasExpired) = (nil, [:], true)
                continue
            }
            for change in page.changes { versions[change.key] = change.version }
            cursor = page.cursor
            if !page.hasMore { return hasExpired }
        }
    }
}
