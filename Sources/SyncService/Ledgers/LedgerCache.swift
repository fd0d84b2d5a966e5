import Entitlements
import SyncCore
import Synchronization

/// The part of a server ledger that reads need.
struct DecodedServerLedger: Sendable {
    /// The version of the server ledger.
    let version: EntryVersion
    /// The transactions that are refused as long as another account owns them, ascending.
    let refused: [TransactionReference]
    /// The policy that the server ledger states.
    let policy: TrustPolicy

    init(_ ledger: Ledger, version: EntryVersion) {
        self.version = version
        policy = ServerLedger(ledger).policy
        refused = ledger.records.compactMap { record in
            guard case .acceptance(let acceptance) = Fact(record), case .refused(let reason) = acceptance.decision,
                Acceptance.ownershipRefusals.contains(reason)
            else { return nil }
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

/// A cache of decoded server ledgers, decoded ledgers and answers about entitlements, by version.
///
/// Its size in bytes is bounded; the accounts that were not requested recently are evicted. Servers over one store need
/// no invalidation between them, because an item is used only after the store has confirmed its versions.
final class LedgerCache: Sendable {
    private struct ResponseKey: Hashable {
        var ledger: EntryKey
        var environment: EnvironmentID
    }

    private struct State {
        var serverLedgers = WeightedCache<EntryKey, DecodedServerLedger>(capacity: 16 << 20)
        var answers = WeightedCache<ResponseKey, EntitlementsResponse>(capacity: 32 << 20)
        var ledgers = WeightedCache<EntryKey, (version: EntryVersion, ledger: Ledger)>(capacity: 16 << 20)
        /// The minute in which each account's refusals were last reconsidered, counted since 1970 UTC.
        var reviews = WeightedCache<EntryKey, Int64>(capacity: 4 << 20)
    }

    private let state = Mutex(State())

    /// The server ledger under `key`, in the version that was decoded last.
    func serverLedger(of key: EntryKey) -> DecodedServerLedger? { state.withLock { $0.serverLedgers.value(of: key) } }

    func insert(_ serverLedger: DecodedServerLedger, of key: EntryKey) {
        state.withLock {
            $0.serverLedgers.insert(serverLedger, under: key, weight: serverLedger.byteCount + key.text.utf8.count)
        }
    }

    /// Returns `true` if the refusals under `key` were not yet reconsidered in `minute`.
    func isReviewDue(of key: EntryKey, in minute: Int64) -> Bool {
        state.withLock { $0.reviews.value(of: key) != minute }
    }

    /// Records that the refusals under `key` are reconsidered in `minute`; `false` if they already were.
    func beginReview(of key: EntryKey, in minute: Int64) -> Bool {
        state.withLock { state in
            guard state.reviews.value(of: key) != minute else { return false }
            state.reviews.insert(minute, under: key, weight: key.text.utf8.count + 128)
            return true
        }
    }

    /// The ledger under `key`, if `version` is the one that was decoded last.
    func ledger(of key: EntryKey, version: EntryVersion) -> Ledger? {
        state.withLock { state in
            guard let known = state.ledgers.value(of: key), known.version == version else { return nil }
            return known.ledger
        }
    }

    func insert(_ ledger: Ledger, version: EntryVersion, of key: EntryKey) {
        let weight = ledger.byteCount + key.text.utf8.count + 256
        state.withLock { $0.ledgers.insert((version, ledger), under: key, weight: weight) }
    }

    /// The latest answer about the entitlements of the ledger under `key` in an environment.
    func answer(of key: EntryKey, in environment: EnvironmentID) -> EntitlementsResponse? {
        state.withLock { $0.answers.value(of: ResponseKey(ledger: key, environment: environment)) }
    }

    func insert(_ answer: EntitlementsResponse, of key: EntryKey, in environment: EnvironmentID) {
        let weight = answer.byteCount + 512 + key.text.utf8.count + environment.rawValue.utf8.count
        state.withLock {
            $0.answers.insert(answer, under: ResponseKey(ledger: key, environment: environment), weight: weight)
        }
    }
}

/// A cache with a bounded total weight. Recently used values survive longer than others.
struct WeightedCache<Key: Hashable & Sendable, Value: Sendable>: Sendable {
    private struct Generation {
        var items: [Key: (value: Value, weight: Int)] = [:]
        var weight = 0

        mutating func remove(_ key: Key) -> (value: Value, weight: Int)? {
            guard let item = items.removeValue(forKey: key) else { return nil }
            weight -= item.weight
            return item
        }
    }

    // A value that is used moves to `recent`. When `recent` reaches half of the capacity, it becomes `former`, and the
    // old `former` is dropped.
    private var (recent, former) = (Generation(), Generation())
    let capacity: Int

    init(capacity: Int) { self.capacity = capacity }

    var weight: Int { recent.weight + former.weight }

    /// The value of `key`. The look-up counts as a use.
    mutating func value(of key: Key) -> Value? {
        if let item = recent.items[key] { return item.value }
        guard let item = former.remove(key) else { return nil }
        insert(item.value, under: key, weight: item.weight)
        return item.value
    }

    /// Inserts or replaces a value. A value that is heavier than the capacity is not kept.
    mutating func insert(_ value: Value, under key: Key, weight: Int) {
        _ = (recent.remove(key), former.remove(key))
        guard weight <= capacity else { return }
        if recent.weight + weight > capacity / 2 { (former, recent) = (recent, Generation()) }
        recent.items[key] = (value, weight)
        recent.weight += weight
        if self.weight > capacity { former = Generation() }
    }
}
