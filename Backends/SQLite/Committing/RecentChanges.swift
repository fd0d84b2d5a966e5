import SyncCore
import Synchronization

/// The changes that this object has committed lately, for as long as nobody else commits anything.
///
/// Whoever follows a busy store asks for its changes again and again. Each costs SQLite a row and that of its entry,
/// from pages that are read anew after every commit; here it costs a look into a table. Whether somebody else has
/// committed is seen as ``EntryCache`` sees it, so an answer from here is as new as one of SQLite.
final class RecentChanges: Sendable {
    /// One change: where it stands, of which key, and the version that it gave it, `nil` for none.
    struct Item: Sendable {
        var cursor: ChangeCursor
        var key: EntryKey
        var version: EntryVersion?
    }

    private struct State {
        /// As of which commit these are the latest.
        var head: LogIndex.Head?
        /// The change before the first of them, `nil` where that was the store's first.
        var start: ChangeCursor?
        /// In order, without a gap.
        var items: [Item] = []
    }

    private let index: LogIndex
    private let maximumCount: Int
    private let state = Mutex(State())

    /// - Parameter maximumCount: so many are kept, and a quarter more for a while.
    init(_ index: LogIndex, maximumCount: Int) { (self.index, self.maximumCount) = (index, maximumCount) }

    /// What ``ChangeTable/page(since:limit:)`` would answer; `nil` where it has to be asked.
    func page(since cursor: ChangeCursor?, limit: Int) -> ChangePage? {
        guard let head = index.head() else { return nil }
        let items = state.withLock { state -> ArraySlice<Item>? in
            guard state.head == head else { return nil }
            if cursor == state.start { return state.items[...] }
            guard let cursor, let first = state.items.first?.cursor.sequence, cursor.sequence >= first,
                let place = Int(exactly: cursor.sequence - first), place < state.items.count,
                state.items[place].cursor == cursor
            else { return nil }
            return state.items[(place + 1)...]
        }
        return items.map { Self.page(of: $0, after: cursor, limit: limit) }
    }

    /// The latest change of each key in `items`, so many at most.
    private static func page(of items: ArraySlice<Item>, after cursor: ChangeCursor?, limit: Int) -> ChangePage {
        var page = ChangePage(changes: [], cursor: cursor, hasMore: false)
        var latest: [EntryKey: UInt64] = [:]
        for item in items { latest[item.key] = item.cursor.sequence }
        for item in items {
            if latest[item.key] == item.cursor.sequence {
                guard page.changes.count < limit else {
                    page.hasMore = true
                    break
                }
                page.changes.append(ChangePage.Change(key: item.key, version: item.version))
            }
            page.cursor = item.cursor
        }
        return page
    }

    /// Is called after a commit of this object's.
    ///
    /// - Parameters:
    ///   - items: what it has changed, one or more.
    ///   - start: the change before them.
    ///   - before: the commit that it followed; where that is nothing, nothing is known of before.
    ///   - now: the commit of right after it; `nil` where somebody else may have committed since.
    func note(_ items: [Item], behind start: ChangeCursor?, after before: LogIndex.Head?, now: LogIndex.Head?) {
        state.withLock { state in
            guard let now else { return state = State() }
            if state.head != before || before == nil {
                state.items = []
                state.start = start
            }
            state.head = now
            state.items += items
            if state.items.count > maximumCount + maximumCount / 4 {
                let count = state.items.count - maximumCount
                state.start = state.items[count - 1].cursor
                state.items.removeFirst(count)
            }
        }
    }
}
