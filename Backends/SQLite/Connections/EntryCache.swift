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

    private typealias Items = [EntryKey: Item]

    private struct State {
        /// As of which commit all of it holds.
        var head: LogIndex.Head?
        var isCommitting = false
        // What is used moves to the first; when that is full it becomes the second, which is forgotten.
        var recent: Items = [:]
        var former: Items = [:]
        /// Of `recent`.
        var byteCount = 0
    }

    /// What an item takes beside its key and value, about.
    private static let overhead = 200

    private let index: LogIndex
    private let byteCount: Int
    private let state = Mutex(State())
    private let forgetting = SerialQueue(label: "SQLiteStorage forgetting")

    /// - Parameter byteCount: how much it may hold, about.
    init(_ index: LogIndex, byteCount: Int) { (self.index, self.byteCount) = (index, byteCount) }

    /// The commit of now; `nil` where it cannot be said.
    func head() -> LogIndex.Head? { index.head() }

    /// The answer to a read of `key`, where it is known.
    func read(_ key: EntryKey, unless knownVersion: EntryVersion?) -> ReadOutcome? {
        guard let head = index.head() else { return nil }
        let (outcome, forgotten) = state.withLock { state -> (ReadOutcome?, [Items]) in
            guard state.head == head else { return (nil, []) }
            if let item = state.recent[key] { return (Self.outcome(item, unless: knownVersion), []) }
            guard let item = state.former[key] else { return (nil, []) }
            return (Self.outcome(item, unless: knownVersion), put(item, under: key, in: &state))
        }
        forget(forgotten)
        return outcome
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
        let forgotten = state.withLock { state -> [Items] in
            var forgotten: [Items] = []
            if state.head != head {
                // Of this object's commit the new entries are about to come, see below; and another one's may have come
                // after the head was looked at.
                guard !state.isCommitting, index.head() == head else { return [] }
                forgotten = Self.clear(&state)
                state.head = head
            }
            return forgotten + put(item, under: key, in: &state)
        }
        forget(forgotten)
    }

    /// - Returns: what there was no room for any more.
    private func put(_ item: Item, under key: EntryKey, in state: inout State) -> [Items] {
        var item = item
        if let value = item.value, value.count > byteCount / 16 { item.value = nil }
        state.byteCount += Self.byteCount(of: item, under: key)
        if let old = state.recent.updateValue(item, forKey: key) {
            state.byteCount -= Self.byteCount(of: old, under: key)
        }
        guard state.byteCount > byteCount / 2 else { return [] }
        defer { (state.former, state.recent, state.byteCount) = (state.recent, [:], 0) }
        return [state.former]
    }

    private static func byteCount(of item: Item, under key: EntryKey) -> Int {
        key.text.utf8.count + (item.value?.count ?? 0) + overhead
    }

    private static func clear(_ state: inout State) -> [Items] {
        defer { (state.head, state.recent, state.former, state.byteCount) = (nil, [:], [:], 0) }
        return [state.recent, state.former]
    }

    /// Takes apart what may be many thousands of entries: neither under the lock nor on the thread of a reader.
    private func forget(_ items: [Items]) {
        guard items.reduce(0, { $0 + $1.count }) > 100 else { return }
        forgetting.start { withExtendedLifetime(items) {} }
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
    ///   - before: what ``begin()`` said; where that is nothing, nothing is known of before.
    ///   - now: the commit of right after it; `nil` where somebody else may have committed since.
    func end(_ changes: [(EntryKey, Entry?)], after before: LogIndex.Head?, now: LogIndex.Head?) {
        let forgotten = state.withLock { state -> [Items] in
            state.isCommitting = false
            guard !changes.isEmpty else { return [] }
            guard let now else { return Self.clear(&state) }
            var forgotten = state.head == before ? [] : Self.clear(&state)
            state.head = now
            for (key, entry) in changes {
                state.former[key] = nil
                if let entry {
                    forgotten += put(Item(version: entry.version, value: entry.value), under: key, in: &state)
                } else if let old = state.recent.removeValue(forKey: key) {
                    state.byteCount -= Self.byteCount(of: old, under: key)
                }
            }
            return forgotten
        }
        forget(forgotten)
    }
}
