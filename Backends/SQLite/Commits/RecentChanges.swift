import SyncCore
import Synchronization

/// Recent changes committed by this object, valid as long as no other connection commits.
///
/// A reader that follows a busy store requests changes repeatedly. SQLite reads two rows for each change, from pages
/// that it must load again after every commit; in memory, a change costs one step along a list. Commits of other
/// connections are detected as in ``EntryCache``, so the result is as current as one from SQLite.
final class RecentChanges: Sendable {
    /// One change: its cursor, its key, and the key's version after it; `nil` for a deletion.
    struct Item: Sendable {
        var cursor: ChangeCursor
        var key: EntryKey
        var version: EntryVersion?
    }

    private struct State {
        /// The latest commit that the items include.
        var head: LogIndex.Head?
        /// The change before the first item; `nil` if the first item is the store's first change.
        var start: ChangeCursor?
        /// The changes in order, without gaps.
        var items: [(item: Item, isLatest: Bool)] = []
        /// The number of changes that were dropped before the first item.
        var droppedCount = 0
        /// The index of the latest change of each key, counted from the first change, dropped ones included.
        var latest: [EntryKey: Int] = [:]
    }

    private let index: LogIndex
    private let maximumCount: Int
    private let state = Mutex(State())

    /// - Parameter maximumCount: The number of changes to keep. It may be exceeded by a quarter temporarily.
    init(_ index: LogIndex, maximumCount: Int) { (self.index, self.maximumCount) = (index, maximumCount) }

    /// Returns the same page as ``ChangeTable/page(since:prefix:limit:)``; `nil` if only SQLite can answer.
    func page(since cursor: ChangeCursor?, prefix: String, limit: Int) -> ChangePage? {
        guard let head = index.head() else { return nil }
        return state.withLock { state in
            guard state.head == head, let place = Self.place(behind: cursor, in: state) else { return nil }
            var draft = ChangePageDraft(since: cursor, prefix: prefix, limit: limit)
            for (item, isLatest) in state.items[place...] {
                if isLatest {
                    let change = ChangePage.Change(key: item.key, version: item.version)
                    guard draft.append(change, at: item.cursor) else { break }
                } else {
                    draft.pass(item.cursor)
                }
            }
            return draft.page
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

    /// Records a commit of this object.
    ///
    /// - Parameters:
    ///   - items: The changes of the commit, at least one.
    ///   - start: The change before them.
    ///   - before: The state of the WAL before the commit; `nil` if it is unknown.
    ///   - now: The state of the WAL right after the commit; `nil` if another connection may have committed since.
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
