import Entitlements
import SyncCore
import Synchronization

/// The part of an account's decisions that reads need.
struct DecodedDecisions: Sendable {
    /// The version of the decisions.
    let version: EntryVersion
    /// The refused transactions, ascending.
    let refused: [TransactionReference]
    /// The last minute in which refusals were reconsidered, counted since 1970 UTC.
    var reviewed: Int64?

    init(_ ledger: Ledger, version: EntryVersion) {
        self.version = version
        refused = ledger.records.compactMap { record in
            guard case .acceptance(let acceptance) = Fact(record), case .refused = acceptance.decision else {
                return nil
            }
            return acceptance.transaction
        }.sorted()
    }

    fileprivate var byteCount: Int {
        refused.reduce(512) { count, transaction in
            let parts = [transaction.store.rawValue, transaction.environment.rawValue, transaction.id.rawValue]
            return count + parts.reduce(48) { $0 + $1.utf8.count }
        }
    }
}

/// Decoded decisions and answers about entitlements of the accounts that were asked about last, by version.
///
/// Bounded in bytes: when it is full, other accounts are dropped. Several servers over one store need no invalidation,
/// because an item is used only after the store has confirmed its versions.
final class LedgerCache: Sendable {
    private struct State {
        var decisions = WeightedCache<EntryKey, DecodedDecisions>(capacity: 16 << 20)
        var answers = WeightedCache<EntryKey, EntitlementsAnswer>(capacity: 32 << 20)
    }

    private let state = Mutex(State())

    /// The decisions under `key`, of the version that was decoded last.
    func decisions(of key: EntryKey) -> DecodedDecisions? { state.withLock { $0.decisions[key] } }

    func insert(_ decisions: DecodedDecisions, of key: EntryKey) {
        state.withLock { $0.decisions.insert(decisions, under: key, weight: decisions.byteCount + key.text.utf8.count) }
    }

    /// Records that the refusals of this version were reconsidered in `minute`.
    func noteReview(of key: EntryKey, version: EntryVersion, in minute: Int64) {
        state.withLock { state in
            guard var decisions = state.decisions[key], decisions.version == version else { return }
            decisions.reviewed = minute
            state.decisions.insert(decisions, under: key, weight: decisions.byteCount + key.text.utf8.count)
        }
    }

    /// The latest answer about the entitlements of the ledger under `key`.
    func answer(of key: EntryKey) -> EntitlementsAnswer? { state.withLock { $0.answers[key] } }

    func insert(_ answer: EntitlementsAnswer, of key: EntryKey) {
        state.withLock { $0.answers.insert(answer, under: key, weight: answer.byteCount + 512 + key.text.utf8.count) }
    }
}

/// Values by key whose weights have a bounded sum.
struct WeightedCache<Key: Hashable & Sendable, Value: Sendable>: Sendable {
    private var items: [Key: (value: Value, weight: Int)] = [:]
    private(set) var weight = 0
    let capacity: Int

    init(capacity: Int) { self.capacity = capacity }

    subscript(key: Key) -> Value? { items[key]?.value }

    /// Inserts or replaces a value; drops others until it fits. A value that is heavier than the capacity is not kept.
    mutating func insert(_ value: Value, under key: Key, weight: Int) {
        if let former = items.removeValue(forKey: key) { self.weight -= former.weight }
        guard weight <= capacity else { return }
        while self.weight + weight > capacity, let other = items.popFirst() { self.weight -= other.value.weight }
        items[key] = (value, weight)
        self.weight += weight
    }
}
