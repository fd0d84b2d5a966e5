import SyncCore
import Synchronization

/// Entries that were read or written lately, for as long as nobody commits anything else.
///
/// Whether somebody did is seen in the head of the log's index, see ``LogIndex``: so an answer from here is as new as
/// one of SQLite, other processes included. After a commit of another process all is forgotten; after one of this
/// object what it wrote is replaced.
final class EntryCache: Sendable {
    /// One entry; without its value where that is long or was not read.
    private struct Item {
        var version: EntryVersion
        var value: [UInt8]?
    }

    private struct State {
        /// As of which commit all of it holds.
        var head: LogIndex.Head?
        var isCommitting = false
        // What is used moves to the first; when that is full it becomes the second, which is forgotten.
        var recent: [EntryKey: Item] = [:]
        var former: [EntryKey: Item] = [:]
        var byteCount = 0
    }

    /// What an item takes beside its key and value, about.
    private static let overhead = 200

    private let index: LogIndex
    private let byteCount: Int
    private let state = Mutex(State())

    /// - Parameter byteCount: how much it may hold, about.
    init(_ index: LogIndex, byteCount: Int) { (self.index, self.byteCount) = (index, byteCount) }

    /// The commit of now; `nil` where it cannot be said.
    func head() -> LogIndex.Head? { index.head() }

    /// The answer to a read of `key`, where it is known.
    func read(_ key: EntryKey, unless knownVersion: EntryVersion?) -> ReadOutcome? {
        guard let head = index.head() else { return nil }
        return state.withLock { state in
            guard state.head == head else { return nil }
            if let item = state.recent[key] { return Self.outcome(item, unless: knownVersion) }
            guard let item = state.former[key] else { return nil }
            put(item, under: key, in: &state)
            return Self.outcome(item, unless: knownVersion)
        }
    }

    private static func outcome(_ item: Item, unless knownVersion: EntryVersion?) -> ReadOutcome? {
        if item.version == knownVersion { return .unchanged }
        return item.value.map { .found(Entry(value: $0, version: item.version)) }
    }

    /// Keeps what SQLite answered.
    ///
    /// - Parameters:
    ///   - outcome: what was read of `key`.
    ///   - knownVersion: the version of what is unchanged.
    ///   - head: the commit of when the read began.
    func note(
        _ outcome: ReadOutcome, of key: EntryKey, unless knownVersion: EntryVersion?, asOf head: LogIndex.Head
    ) {
        let item: Item
        switch outcome {
        case .found(let entry): item = Item(version: entry.version, value: entry.value)
        case .unchanged:
            guard let knownVersion else { return }
            item = Item(version: knownVersion, value: nil)
        case .absent: return
        }
        // With a commit in between it may be of before or of after it.
        guard index.head() == head else { return }
        state.withLock { state in
            if state.head != head {
                // Of this object's commit the new entries are about to come, see below; and another one's may have come
                // after the head was looked at.
                guard !state.isCommitting, index.head() == head else { return }
                state = State(head: head)
            }
            put(item, under: key, in: &state)
        }
    }

    private func put(_ item: Item, under key: EntryKey, in state: inout State) {
        var item = item
        if let value = item.value, value.count > byteCount / 16 { item.value = nil }
        let count = key.text.utf8.count + (item.value?.count ?? 0) + Self.overhead
        state.recent[key] = item
        // Too much where it replaces one; then the turn comes a little early.
        state.byteCount += count
        if state.byteCount > byteCount / 2 {
            (state.former, state.recent) = (state.recent, [:])
            state.byteCount = 0
        }
    }

    /// How many bytes of keys and values it holds.
    var heldByteCount: Int {
        state.withLock { state in
            [state.recent, state.former].joined().reduce(0) { sum, pair in
                sum + pair.key.text.utf8.count + (pair.value.value?.count ?? 0)
            }
        }
    }

    /// Is called when this object's transaction has begun, before which nobody else's can end.
    ///
    /// - Returns: the commit that it follows.
    func begin() -> LogIndex.Head? {
        state.withLock { $0.isCommitting = true }
        return index.head()
    }

    /// Is called when that transaction is at its end.
    ///
    /// - Parameters:
    ///   - changes: what it has put under each key, `nil` for nothing; of none where nothing was committed, or nobody
    ///     knows.
    ///   - before: what ``begin()`` said.
    func end(_ changes: [(EntryKey, Entry?)], after before: LogIndex.Head?) {
        let now = index.head()
        state.withLock { state in
            state.isCommitting = false
            guard !changes.isEmpty else { return }
            // Where another process has committed right after, one of them is missing here.
            guard let before, let now, now.commit == before.commit &+ 1 else {
                state = State()
                return
            }
            if state.head != before { state = State() }
            state.head = now
            for (key, entry) in changes {
                state.former[key] = nil
                if let entry {
                    put(Item(version: entry.version, value: entry.value), under: key, in: &state)
                } else {
                    state.recent[key] = nil
                }
            }
        }
    }
}
