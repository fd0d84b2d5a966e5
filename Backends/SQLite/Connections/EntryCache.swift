import SyncCore
import Synchronization

/// A cache of recently used entries and absent keys, valid as long as no other connection commits.
///
/// The header of the WAL index shows whether another connection has committed (see ``LogIndex``), so a cached result is
/// as current as one from SQLite, other processes included. A commit of another process drops the whole cache. A commit
/// of this object replaces the entries that it wrote.
final class EntryCache: Sendable {
    /// A cached entry, or the absence of one.
    private struct Item {
        /// `nil` if the key is absent.
        var version: EntryVersion?
        /// `nil` if the value is too long or was not read.
        var value: [UInt8]?
    }

    private typealias Items = [EntryKey: Item]

    private struct State {
        /// The commit for which the whole cache is valid.
        var head: LogIndex.Head?
        var isCommitting = false
        // Used items move to `recent`. When `recent` is full it becomes `former`, and the previous `former` is dropped.
        var recent: Items = [:]
        var former: Items = [:]
        /// The approximate size of `recent`.
        var byteCount = 0
    }

    /// The approximate size of an item without its key and value.
    private static let overhead = 200

    private let index: LogIndex
    private let byteCount: Int
    private let state = Mutex(State())
    private let deallocation = SerialQueue(label: "SQLiteStorage deallocation")

    /// - Parameter byteCount: The approximate capacity, in bytes.
    init(_ index: LogIndex, byteCount: Int) { (self.index, self.byteCount) = (index, byteCount) }

    /// The header of the latest commit; `nil` if it cannot be determined.
    func head() -> LogIndex.Head? { index.head() }

    /// The outcome of reading `key`; `nil` if it is not cached.
    func read(_ key: EntryKey, unless knownVersion: EntryVersion?) -> ReadOutcome? {
        guard let head = index.head() else { return nil }
        let (outcome, evicted) = state.withLock { state -> (ReadOutcome?, [Items]) in
            guard state.head == head else { return (nil, []) }
            if let item = state.recent[key] { return (Self.outcome(item, unless: knownVersion), []) }
            guard let item = state.former[key] else { return (nil, []) }
            return (Self.outcome(item, unless: knownVersion), put(item, under: key, in: &state))
        }
        deallocate(evicted)
        return outcome
    }

    private static func outcome(_ item: Item, unless knownVersion: EntryVersion?) -> ReadOutcome? {
        guard let version = item.version else { return .absent }
        if version == knownVersion { return .unchanged }
        return item.value.map { .found(Entry(value: $0, version: version)) }
    }

    /// Caches an outcome from SQLite.
    ///
    /// - Parameters:
    ///   - outcome: The outcome of reading `key`. An absence must be confirmed by the index.
    ///   - knownVersion: The version of an unchanged entry.
    ///   - head: The header of the WAL index when the read began.
    func note(
        _ outcome: ReadOutcome, of key: EntryKey, unless knownVersion: EntryVersion?, asOf head: LogIndex.Head
    ) {
        let item: Item
        switch outcome {
        case .found(let entry): item = Item(version: entry.version, value: entry.value)
        case .unchanged:
            guard let knownVersion else { return }
            item = Item(version: knownVersion, value: nil)
        case .absent: item = Item(version: nil, value: nil)
        }
        // If there was a commit in between, the outcome may be from before or after it.
        guard index.head() == head else { return }
        let evicted = state.withLock { state -> [Items] in
            var evicted: [Items] = []
            if state.head != head {
                // During a commit of this object, its new entries are about to be cached (see `end`). Another
                // connection may also have committed since the header was read.
                guard !state.isCommitting, index.head() == head else { return [] }
                evicted = Self.clear(&state)
                state.head = head
            }
            return evicted + put(item, under: key, in: &state)
        }
        deallocate(evicted)
    }

    /// - Returns: The items that were evicted.
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

    /// Deallocates evicted items, possibly many thousands, outside the lock and off the reader's thread.
    private func deallocate(_ items: [Items]) {
        guard items.reduce(0, { $0 + $1.count }) > 100 else { return }
        deallocation.start { withExtendedLifetime(items) {} }
    }

    /// The total size of the cached keys and values, in bytes.
    var heldByteCount: Int {
        state.withLock { state in
            [state.recent, state.former].joined().reduce(0) { sum, pair in
                sum + pair.key.text.utf8.count + (pair.value.value?.count ?? 0)
            }
        }
    }

    /// Called when this object's transaction has begun. No other commit can happen before it ends.
    ///
    /// - Returns: The header of the commit that precedes the transaction.
    func begin() -> LogIndex.Head? {
        state.withLock { $0.isCommitting = true }
        return index.head()
    }

    /// Called when that transaction has ended.
    ///
    /// - Parameters:
    ///   - changes: The new entry of each written key; `nil` for a deletion. Empty if nothing was committed, or if the
    ///     outcome is unknown.
    ///   - before: The result of ``begin()``; `nil` if the prior state is unknown.
    ///   - now: The header right after the commit; `nil` if another connection may have committed since.
    func end(_ changes: [(EntryKey, Entry?)], after before: LogIndex.Head?, now: LogIndex.Head?) {
        let evicted = state.withLock { state -> [Items] in
            state.isCommitting = false
            guard !changes.isEmpty else { return [] }
            guard let now else { return Self.clear(&state) }
            var evicted = state.head == before ? [] : Self.clear(&state)
            state.head = now
            for (key, entry) in changes {
                state.former[key] = nil
                if let entry {
                    evicted += put(Item(version: entry.version, value: entry.value), under: key, in: &state)
                } else if let old = state.recent.removeValue(forKey: key) {
                    state.byteCount -= Self.byteCount(of: old, under: key)
                }
            }
            return evicted
        }
        deallocate(evicted)
    }
}
