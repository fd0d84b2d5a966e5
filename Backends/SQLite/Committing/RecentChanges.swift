import SyncCore
import Synchronization

/// The changes that this object has committed lately, for as long as nobody else commits anything.
///
/// Whoever follows a busy store asks for its changes again and again. Each costs SQLite a row and that of its entry,
/// from pages that are read anew after every commit; here it costs a step along a list. Whether somebody else has
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
        var items: [(item: Item, isLatest: Bool)] = []
        /// How many came before the first of them.
        var droppedCount = 0
        /// The places of the latest change of each key, counted with those that were dropped.
        var latest: [EntryKey: Int] = [:]
    }

    private let index: LogIndex
    private let maximumCount: Int
    private let state = Mutex(State())

    /// - Parameter maximumCount: so many are kept, and a quarter more for a while.
    init(_ index: LogIndex, maximumCount: Int) { (self.index, self.maximumCount) = (index, maximumCount) }

    /// What ``ChangeTable/page(since:limit:)`` would answer where no row is damaged; `nil` where it has to be asked.
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

    /// Where the changes behind `cursor` begin; `nil` where it is none of these.
    private static func place(behind cursor: ChangeCursor?, in state: State) -> Int? {
        if cursor == state.start { return 0 }
        guard let cursor, let first = state.items.first?.item.cursor.sequence, cursor.sequence >= first,
            let place = Int(exactly: cursor.sequence - first), place < state.items.count,
            state.items[place].item.cursor == cursor
        else { return nil }
        return place + 1
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
