import SyncCore

/// Follows a store by its cursors, as a watcher does, and knows what is in it.
struct Follower {
    private var cursor: ChangeCursor?
    private(set) var versions: [EntryKey: EntryVersion] = [:]

    /// Takes up what changed. Returns whether the cursor had expired.
    mutating func follow(_ store: StoreContents) async throws(BackendError) -> Bool {
        guard store.capabilities.changes else { return false }
        var hasExpired = false
        while true {
            let page: ChangePage
            do throws(BackendError) {
                page = try await store.changes(since: cursor, limit: 3).outcome
            } catch {
                guard error.kind == .cursorExpired, !hasExpired else { throw error }
                // An absence is not believed: everything is read again from the beginning.
                (cursor, versions, hasExpired) = (nil, [:], true)
                continue
            }
            for change in page.changes { versions[change.key] = change.version }
            cursor = page.cursor
            if !page.hasMore { return hasExpired }
        }
    }
}
