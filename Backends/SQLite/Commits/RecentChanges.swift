import SyncCore
import Synchronization

/// The changes that this object has committed recently, as long as no other connection commits.
///
/// A follower of a busy store asks for its changes again and again. SQLite reads two rows for each of them, from pages
/// that are read again after every commit; here a change costs one step along a list. Commits of other connections are
/// detected as in ``EntryCache``, so an answer from memory is as new as one from SQLite.
final class RecentChanges: Sendable {
    /// One change: its cursor, its key, and the key's version after it, `nil` for a deletion.
    struct Item: Sendable {
        var cursor: ChangeCursor
        var key: EntryKey
        var version: EntryVersion?
    }

    private struct State {
        /// The commit as of which these are the latest changes.
        var head: LogIndex.Head?
        /// The change before the first of them; `nil` if that is the store's first.
        var start: ChangeCursor?
        /// The changes in order, without a gap.
        var items: [(item: Item, isLatest: Bool)] = []
        /// The number of changes that were dropped before the first of them.
        var droppedCount = 0
        /// The index of the latest change of each key; the dropped changes are counted in it.
        var latest: [EntryKey: Int] = [:]
    }

    private let index: LogIndex
    private let maximumCount: Int
    private let state = Mutex(State())

    /// - Parameter maximumCount: The number of changes that are kept; for a while a quarter more.
    init(_ index: LogIndex, maximumCount: Int) { (self.index, self.maximumCount) = (index, maximumCount) }

    /// The page of ``ChangeTable/page(since:limit:)``, which finds no damage here; `nil` if SQLite has to be asked.
    func page(since cursor: ChangeCursor?, limit: Int) -> ChangePage? {
        guard let head = index.head() else { return nil }
        return state.withLock { state in
            guard state.head == head, let place = Self.place(behind: cursor, in: state) else { return nil }
            var page = ChangePage(changes: [], cursor: cursor, hasMore: false)
            for (item, isLatest) in state.items[place...] {
                if isLatest {
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
    }

    /// The index of the first change after `cursor`; `nil` if the cursor is not among the changes.
    private static func place(behind cursor: ChangeCursor?, in state: State) -> Int? {
        if cursor == state.start { return 0 }
        guard let cursor, let first = state.items.first?.item.cursor.sequence, cursor.sequence >= first,
            let place = Int(exactly: cursor.sequence - first), place < state.items.count,
            state.items[place].item.cursor == cursor
        else { return nil }
        return place + 1
    }

    /// Notes a commit of this object.
    ///
    /// - Parameters:
    ///   - items: Its changes, one or more.
    ///   - start: The change before them.
    ///   - before: The commit before it; `nil` if it is unknown.
    ///   - now: The state right after the commit; `nil` if another connection may have committed since.
    func note(_ items: [Item], behind start: ChangeCursor?, after before: LogIndex.Head?, now: LogIndex.Head?) {
        state.withLock { state in
            guard let now else { return state = State() }
            if state.head != before || before == nil { state = State(start: start) }
            state.head = now
            for item in items {
                let place = state.droppedCount + state.items.count
                if let former = state.latest.updateValue(place, forKey: item.key) {
                    state.items[former - state.droppedCount].isLatest = false
                }
                state.items.append((item, true))
            }
            if state.items.count > maximumCount + maximumCount / 4 { drop(state.items.count - maximumCount, &state) }
        }
    }

    private func drop(_ count: Int, _ state: inout State) {
        for (item, isLatest) in state.items[..<count] where isLatest { state.latest[item.key] = nil }
        state.start = state.items[count - 1].item.cursor
        state.items.removeFirst(count)
        state.droppedCount += count
    }
}
