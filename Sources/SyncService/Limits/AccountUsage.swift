import SyncCore
import Synchronization

/// The keys and bytes that each account has beside its ledger. The ledger has its own limit.
///
/// An account is counted by listing its keys, and the count is then updated with each write of this process. When the
/// changes of the store show a write of another server, the account is counted again at its next write. Until then, at
/// most ``FeedFreshness/trust`` while the changes are followed, the servers together may exceed a quota. Without regard
/// to changes, an account is counted again after ``period``.
///
/// A deleted key counts as a key without bytes for ``deletionPeriod``, because the store keeps a row for it. Writing it
/// again reuses that row.
final class AccountUsage: Sendable {
    /// The time after which an account is counted again, in milliseconds.
    static let period: Int64 = 600_000
    /// The time for which a deleted key still counts, in milliseconds.
    static let deletionPeriod: Int64 = 3_600_000
    /// The number of keys that are remembered of all accounts together; an account itself counts as one. Beyond it,
    /// accounts are evicted, and counted again at their next change.
    static let capacity = 200_000

    /// The keys of an account.
    struct Usage {
        private(set) var sizes: [EntryKey: Int] = [:]
        private(set) var byteCount = 0
        /// The version of each key, if it is known.
        private(set) var versions: [EntryKey: EntryVersion] = [:]
        /// The time until which each deleted key counts. The key may have been written again since.
        private(set) var deletions: [EntryKey: Int64] = [:]
        /// The number of keys that exist or were deleted recently.
        private(set) var keyCount = 0
        /// The time of the count; `nil` if the account must be counted again.
        var counted: Int64?

        /// The account's share of the capacity. An account without keys takes one place.
        var weight: Int { keyCount + 1 }

        /// Returns `true` if `key` occupies a place.
        func contains(_ key: EntryKey) -> Bool { sizes[key] != nil || deletions[key] != nil }

        /// Records the size and the version of `key`, or that it holds nothing.
        mutating func set(_ size: Int?, of key: EntryKey, version: EntryVersion? = nil) {
            versions[key] = version
            byteCount += (size ?? 0) - (sizes[key] ?? 0)
            change(key) { $0.sizes[key] = size }
        }

        /// Records that `key` was deleted, if it held anything.
        mutating func rememberDeletion(of key: EntryKey, at now: Int64) {
            if sizes[key] != nil { deletions[key] = now + AccountUsage.deletionPeriod }
        }

        /// Adds the deletions that another count knows.
        mutating func addDeletions(of other: Usage) {
            for (key, end) in other.deletions { change(key) { $0.deletions[key] = end } }
        }

        mutating func removeExpiredDeletions(at now: Int64) {
            for (key, end) in deletions where !(1...AccountUsage.deletionPeriod).contains(end - now) {
                // An end further ahead than possible means that the clock was set back.
                change(key) { $0.deletions[key] = nil }
            }
        }

        private mutating func change(_ key: EntryKey, _ body: (inout Usage) -> Void) {
            let former = contains(key)
            body(&self)
            keyCount += (contains(key) ? 1 : 0) - (former ? 1 : 0)
        }
    }

    /// The running changes of one key. The store may carry them out in any order.
    struct Running {
        private var count = 0
        private(set) var areSeveral = false
        /// The longest value that is being written, in bytes.
        private(set) var size = 0
        /// The latest version that the change feed reported; `.some(nil)` for a deletion.
        var noticed: EntryVersion??

        mutating func begin(_ size: Int = 0) {
            count += 1
            if count > 1 { areSeveral = true }
            self.size = max(self.size, size)
        }

        /// Ends a change. Returns `true` if it was the last one.
        mutating func end() -> Bool {
            count -= 1
            return count == 0
        }
    }

    struct State {
        /// The usage of each account, by the prefix of its keys.
        var usages: [String: Usage] = [:]
        var weight = 0
        var running: [EntryKey: Running] = [:]
        var counts: [String: Count] = [:]

        mutating func update(_ prefix: String, _ change: (inout Usage) -> Void) {
            guard var usage = usages.removeValue(forKey: prefix) else { return }
            weight -= usage.weight
            change(&usage)
            weight += usage.weight
            usages[prefix] = usage
        }
    }

    /// A running count of an account.
    struct Count {
        typealias Waiting = WaitList<Void, Result<Void, BackendError>>

        /// The keys that were changed in the meantime, and the largest possible size of each. The listing may be
        /// older. For a key with a single change at a time, it is the exact size; `nil` for a deleted key.
        var changed: [EntryKey: Int?] = [:]
        /// Other keys that the changes of the store named in the meantime, with their versions.
        var noticed: [EntryKey: EntryVersion?] = [:]
        let waiting = Waiting()
        /// True if the account must be counted again.
        var isOutdated = false
    }

    let limits: CallerLimits
    let capacity: Int
    private let onRefusal: @Sendable (Refusal) -> Void
    let state = Mutex(State())

    /// - Parameter onRefusal: Called for each write that is refused.
    init(
        _ limits: CallerLimits, capacity: Int = AccountUsage.capacity,
        onRefusal: @escaping @Sendable (Refusal) -> Void
    ) {
        (self.limits, self.capacity, self.onRefusal) = (limits, capacity, onRefusal)
    }

    /// The number of accounts in memory.
    var rememberedCount: Int { state.withLock { $0.usages.count } }

    /// True if there is a limit.
    var isLimited: Bool { limits.accountKeys != nil || limits.accountBytes != nil }

    /// The number of callers that wait for a count.
    var waitingCount: Int { state.withLock { $0.counts.values.reduce(0) { $0 + $1.waiting.count } } }
}

// Changes.
extension AccountUsage {
    /// Reserves `count` bytes under `key`, until ``settle(_:under:of:deletedAt:)``. A value that is not longer than the
    /// previous one can always be written.
    ///
    /// - Returns: `false` if the account is not counted, or must be counted again. Nothing is reserved then.
    /// - Throws: The error of a write that would exceed the quota. Nothing is reserved then.
    func reserve(_ count: Int, under key: EntryKey, of prefix: String, now: Int64) throws(BackendError) -> Bool {
        let (isCounted, reason) = state.withLock { state -> (Bool, String?) in
            guard var usage = state.usages[prefix] else { return (false, nil) }
            if shortage(of: usage, count, key) != nil {
                state.update(prefix) { known in
                    known.removeExpiredDeletions(at: now)
                    usage = known
                }
                if let reason = shortage(of: usage, count, key) { return (true, reason) }
            }
            state.running[key, default: Running()].begin(count)
            if usage.sizes[key] ?? -1 < count { state.update(prefix) { $0.set(count, of: key) } }
            return (true, nil)
        }
        guard let reason else { return isCounted }
        onRefusal(.quota)
        throw BackendError(
            .full, operation: .write, key: key, disposition: .permanent,
            message: "an account can have at most \(reason) beside its ledger; delete something", cause: QuotaReached())
    }

    private func shortage(of usage: Usage, _ count: Int, _ key: EntryKey) -> String? {
        let known = usage.sizes[key]
        if let most = limits.accountKeys, !usage.contains(key), usage.keyCount >= most {
            let note = usage.deletions.isEmpty ? "" : " (including those deleted in the last hour)"
            return "\(most) keys\(note)"
        }
        if let most = limits.accountBytes, count > known ?? 0, usage.byteCount - (known ?? 0) + count > most {
            return "\(most) bytes"
        }
        return nil
    }

    /// Begins the deletion of a key, until ``settle(_:under:of:deletedAt:)``.
    func beginDeleting(_ key: EntryKey) { state.withLock { $0.running[key, default: Running()].begin() } }

    /// Ends a change of `key`, which now holds `size` bytes, or nothing. Of several concurrent changes, the longest
    /// value counts until the next change or count.
    ///
    /// - Parameters:
    ///   - version: The version of the value. Without it, the account is counted again when the change is read.
    ///   - now: The time, if the change was a deletion.
    func settle(
        _ size: Int?, version: EntryVersion? = nil, under key: EntryKey, of prefix: String,
        deletedAt now: Int64? = nil
    ) {
        state.withLock { state in
            let (areSeveral, noticed) = Self.end(key, in: &state)
            if var count = state.counts.removeValue(forKey: prefix) {
                let former = count.changed[key] ?? nil
                count.changed[key] = areSeveral ? max(size ?? 0, former ?? 0) : size
                state.counts[prefix] = count
            }
            if let now, limits.accountKeys != nil { state.update(prefix) { $0.rememberDeletion(of: key, at: now) } }
            var isOutdated = false
            state.update(prefix) { usage in
                // The former version may be one that this server wrote just before.
                if let noticed, noticed != version, noticed != usage.versions[key] {
                    usage.counted = nil
                    isOutdated = true
                }
                let known = usage.sizes[key]
                usage.set(areSeveral && size ?? -1 < known ?? -1 ? known : size, of: key, version: version)
            }
            if isOutdated { state.counts[prefix]?.isOutdated = true }
        }
    }

    /// Handles a change of the store: `key` has `version` now, or was deleted. If another server wrote it, the account
    /// is counted again at its next write.
    func notice(_ key: EntryKey, _ version: EntryVersion?, now: Int64) {
        guard isLimited, let prefix = KeyScope.countedPrefix(of: key) else { return }
        state.withLock { state in
            if state.running[key] != nil {
                state.running[key]?.noticed = .some(version)
            } else if state.counts[prefix] != nil {
                state.counts[prefix]?.noticed[key] = version
            } else if version == nil {
                state.update(prefix) { self.remove(key, from: &$0, at: now) }
            } else if let usage = state.usages[prefix], usage.versions[key] != version {
                state.usages[prefix]?.counted = nil
            }
        }
    }

    /// Makes all accounts be counted again at their next writes.
    func recountAll() {
        state.withLock { state in
            for prefix in state.usages.keys { state.usages[prefix]?.counted = nil }
            for prefix in state.counts.keys { state.counts[prefix]?.isOutdated = true }
        }
    }

    /// Records that `key` was deleted.
    func remove(_ key: EntryKey, from usage: inout Usage, at now: Int64) {
        if limits.accountKeys != nil { usage.rememberDeletion(of: key, at: now) }
        usage.set(nil, of: key)
    }

    /// Ends changes of `keys` whose outcomes are unknown. The account must be counted again.
    func forget(_ prefix: String, after keys: [EntryKey]) {
        state.withLock { state in
            for key in keys { _ = Self.end(key, in: &state) }
            state.update(prefix) { $0.counted = nil }
        }
    }

    /// Ends a change. Returns `true` if other changes of the key were running, and the version that was noticed.
    private static func end(_ key: EntryKey, in state: inout State) -> (areSeveral: Bool, noticed: EntryVersion??) {
        guard let index = state.running.index(forKey: key) else { return (false, nil) }
        let running = state.running.values[index]
        if state.running.values[index].end() { state.running.remove(at: index) }
        return (running.areSeveral, running.noticed)
    }
}
