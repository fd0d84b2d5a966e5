/// Collects a page of changes, from the changes of a store in their order.
package struct ChangePageDraft {
    /// The page so far.
    package private(set) var page: ChangePage
    private let prefix: String
    private let limit: Int
    private var skippedCount = 0

    /// The number of changes of other keys that one page passes. It bounds the work of a request.
    package static let maximumSkippedCount = 1_000

    /// Begins the page after `cursor` with at most `limit` changes of keys that begin with `prefix`.
    package init(since cursor: ChangeCursor?, prefix: String, limit: Int) {
        precondition(limit >= 1, "limit must be 1 or more, not \(limit)")
        page = ChangePage(changes: [], cursor: cursor, hasMore: false)
        (self.prefix, self.limit) = (prefix, limit)
    }

    /// Adds the latest change of a key if it belongs to the page.
    ///
    /// - Returns: False if the page is complete without the change. The draft takes no further changes then.
    package mutating func append(_ change: ChangePage.Change, at cursor: ChangeCursor) -> Bool {
        let isAsked = change.key.hasPrefix(prefix)
        guard isAsked ? page.changes.count < limit : skippedCount < Self.maximumSkippedCount else {
            page.hasMore = true
            return false
        }
        if isAsked { page.changes.append(change) } else { skippedCount += 1 }
        page.cursor = cursor
        return true
    }

    /// Moves the cursor past a change that a later one of the same key has superseded.
    package mutating func pass(_ cursor: ChangeCursor) { page.cursor = cursor }
}
