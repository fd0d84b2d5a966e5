import SyncCore
import Synchronization

/// How much each account has under keys of its own beside its ledger, which has a limit of its own: counted once by
/// reading it, then kept up with each write of this process. Others may write too, so it is counted anew after a while.
final class AccountUsage: Sendable {
    /// After how long it is counted anew, in milliseconds.
    static let period: Int64 = 600_000
    /// How many keys are remembered of all accounts together, an account itself counting as one; when there are more,
    /// others are forgotten, and counted anew with their next change.
    static let capacity = 200_000

    private struct Usage {
        var sizes: [EntryKey: Int]
        var byteCount: Int
        var counted: Int64

        /// How much of the capacity it takes: also who has nothing is remembered.
        var weight: Int { sizes.count + 1 }

        mutating func set(_ size: Int?, of key: EntryKey) {
            byteCount += (size ?? 0) - (sizes[key] ?? 0)
            sizes[key] = size
        }
    }

    /// The changes of a key under way. Of several nobody knows which one the store carries out last.
    private struct Open {
        private var count = 0
        private(set) var areSeveral = false
        /// The longest that is to be written.
        private(set) var size = 0

        mutating func begin(_ size: Int = 0) {
            count += 1
            if count > 1 { areSeveral = true }
            self.size = max(self.size, size)
        }

        /// Whether it was the last one.
        mutating func end() -> Bool {
            count -= 1
            return count == 0
        }
    }

    private struct State {
        /// By what the account's keys begin with.
        var usages: [String: Usage] = [:]
        /// What they weigh together.
        var weight = 0
        var open: [EntryKey: Open] = [:]
        var counts: [String: Count] = [:]
    }

    /// A count that is under way.
    private struct Count {
        /// The keys that were changed meanwhile, and the longest that each was said to hold: what was read may be
        /// older.
        var changed: [EntryKey: Int] = [:]
        var waiting: [CheckedContinuation<Result<Void, BackendError>?, Never>] = []

        mutating func note(_ size: Int, of key: EntryKey) { changed[key] = max(size, changed[key] ?? 0) }
    }

    private let limits: CallerLimits
    private let capacity: Int
    private let onRefusal: @Sendable (Refusal) -> Void
    private let state = Mutex(State())

    init(
        _ limits: CallerLimits, capacity: Int = AccountUsage.capacity,
        onRefusal: @escaping @Sendable (Refusal) -> Void
    ) {
        (self.limits, self.capacity, self.onRefusal) = (limits, capacity, onRefusal)
    }

    /// How many accounts are remembered.
    var rememberedCount: Int { state.withLock { $0.usages.count } }

    /// Whether there is a limit.
    var isLimited: Bool { limits.accountKeys != nil || limits.accountBytes != nil }

    /// How many wait for a count.
    var waitingCount: Int { state.withLock { $0.counts.values.reduce(0) { $0 + $1.waiting.count } } }

    /// Why `key` cannot hold `count` bytes; `nil` where it can, and they are counted from now on, to be settled when
    /// the store has answered. What is smaller than before can always be written.
    func reserve(_ count: Int, under key: EntryKey, of prefix: String) -> BackendError? {
        let reason = state.withLock { state -> String? in
            let (known, reason) = look(at: state.usages[prefix], count, key)
            if let reason { return reason }
            state.open[key, default: Open()].begin(count)
            if known ?? -1 < count { Self.set(count, of: key, prefix, in: &state) }
            return nil
        }
        guard let reason else { return nil }
        onRefusal(.quota)
        return BackendError(
            .full, operation: .write, key: key, disposition: .permanent,
            message: "an account has at most \(reason) here beside its ledger; delete something", cause: QuotaReached())
    }

    /// What `key` is known to hold, and what is in the way of so many bytes there.
    private func look(at usage: Usage?, _ count: Int, _ key: EntryKey) -> (known: Int?, reason: String?) {
        guard let usage else { return (nil, nil) }
        let known = usage.sizes[key]
        if let most = limits.accountKeys, known == nil, usage.sizes.count >= most { return (known, "\(most) keys") }
        if let most = limits.accountBytes, count > known ?? 0, usage.byteCount - (known ?? 0) + count > most {
            return (known, "\(most) bytes")
        }
        return (known, nil)
    }

    /// A key is to be deleted; to be settled as what is reserved.
    func beginDeleting(_ key: EntryKey) { state.withLock { $0.open[key, default: Open()].begin() } }

    /// Notes what `key` holds now: so many bytes, or nothing. Of several changes at once the longest counts until the
    /// next one, or the next count.
    func settle(_ size: Int?, under key: EntryKey, of prefix: String) {
        state.withLock { state in
            let areSeveral = Self.end(key, in: &state)
            if !state.counts.isEmpty { state.counts[prefix]?.note(size ?? 0, of: key) }
            let known = state.usages[prefix]?.sizes[key]
            if size == known || areSeveral && size ?? -1 < known ?? -1 { return }
            Self.set(size, of: key, prefix, in: &state)
        }
    }

    /// Forgets what is known of an account: a change of `keys` may have happened or not.
    func forget(_ prefix: String, after keys: [EntryKey]) {
        state.withLock { state in
            for key in keys { _ = Self.end(key, in: &state) }
            if let usage = state.usages.removeValue(forKey: prefix) { state.weight -= usage.weight }
        }
    }

    /// A change is over; whether it was one of several.
    private static func end(_ key: EntryKey, in state: inout State) -> Bool {
        guard let index = state.open.index(forKey: key) else { return false }
        let areSeveral = state.open.values[index].areSeveral
        if state.open.values[index].end() { state.open.remove(at: index) }
        return areSeveral
    }

    private static func set(_ size: Int?, of key: EntryKey, _ prefix: String, in state: inout State) {
        guard var usage = state.usages.removeValue(forKey: prefix) else { return }
        state.weight -= usage.weight
        usage.set(size, of: key)
        state.weight += usage.weight
        state.usages[prefix] = usage
    }

    /// Makes sure that the account whose keys begin with `prefix` is counted. Who comes while it is waits for that.
    ///
    /// - Parameter isCounted: whether a key counts.
    func count(
        _ prefix: String, in store: any KeyValueBackend, now: Int64, isCounted: @Sendable (EntryKey) -> Bool
    ) async throws(BackendError) {
        while true {
            let (isKnown, isUnderWay) = state.withLock { state in
                if let counted = state.usages[prefix]?.counted, now >= counted, now - counted < Self.period {
                    return (true, false)
                }
                if state.counts[prefix] != nil { return (false, true) }
                state.counts[prefix] = Count()
                return (false, false)
            }
            if isKnown { return }
            if isUnderWay {
                switch await countIsOver(prefix) {
                case .success: return
                // Somebody else has gone away, or it was over before.
                case nil: continue
                case .failure(let error) where error.kind == .cancelled: continue
                case .failure(let error): throw error
                }
            }
            do throws(BackendError) {
                // It may take long, and is nothing for the thread of an event loop.
                let usage = try await withTaskExecutorPreference(globalConcurrentExecutor) {
                    () async throws(BackendError) in
                    var usage = try await Self.read(prefix, in: store, now: now, isCounted)
                    // What was changed meanwhile may have been read before that.
                    try await Self.read(changed(prefix), in: store, into: &usage)
                    return usage
                }
                install(usage, of: prefix)
            } catch {
                end(prefix, .failure(error))
                throw error
            }
            return
        }
    }

    /// Waits for the count that is under way; `nil` where there is none.
    private func countIsOver(_ prefix: String) async -> Result<Void, BackendError>? {
        await withCheckedContinuation { continuation in
            let isOver = state.withLock { state in
                guard state.counts[prefix] != nil else { return true }
                state.counts[prefix]?.waiting.append(continuation)
                return false
            }
            if isOver { continuation.resume(returning: nil) }
        }
    }

    /// All that an account has.
    private static func read(
        _ prefix: String, in store: any KeyValueBackend, now: Int64, _ isCounted: @Sendable (EntryKey) -> Bool
    ) async throws(BackendError) -> Usage {
        var usage = Usage(sizes: [:], byteCount: 0, counted: now)
        var after: EntryKey?
        repeat {
            let page = try await store.list(prefix: prefix, after: after, limit: 256).outcome
            try await read(page.items.map(\.key).filter(isCounted), in: store, into: &usage)
            after = page.next
        } while after != nil
        return usage
    }

    private static func read(
        _ keys: [EntryKey], in store: any KeyValueBackend, into usage: inout Usage
    ) async throws(BackendError) {
        // A few at once: values may be long.
        for start in stride(from: 0, to: keys.count, by: 8) {
            let some = keys[start..<min(start + 8, keys.count)]
            let found = try await store.read(some.map { ReadRequest($0) }).outcome
            for (key, result) in zip(some, found) {
                if case .found(let entry) = try result.get() {
                    usage.set(entry.value.count, of: key)
                } else {
                    usage.set(nil, of: key)
                }
            }
        }
    }

    /// The keys that were changed since the count began, or since this was asked last; what is changed from now on is
    /// noted anew.
    private func changed(_ prefix: String) -> [EntryKey] {
        state.withLock { state in
            defer { state.counts[prefix]?.changed = [:] }
            return state.counts[prefix].map { Array($0.changed.keys) } ?? []
        }
    }

    /// Ends a count.
    private func install(_ counted: Usage, of prefix: String) {
        state.withLock { state in
            var usage = counted
            for (key, size) in state.counts[prefix]?.changed ?? [:] where size > usage.sizes[key] ?? 0 {
                usage.set(size, of: key)
            }
            for (key, open) in state.open where key.hasPrefix(prefix) && open.size > usage.sizes[key] ?? 0 {
                usage.set(open.size, of: key)
            }
            if let former = state.usages.removeValue(forKey: prefix) { state.weight -= former.weight }
            while state.weight + usage.weight > capacity, let other = state.usages.popFirst() {
                state.weight -= other.value.weight
            }
            state.weight += usage.weight
            state.usages[prefix] = usage
        }
        end(prefix, .success(()))
    }

    private func end(_ prefix: String, _ outcome: Result<Void, BackendError>) {
        let waiting = state.withLock { $0.counts.removeValue(forKey: prefix)?.waiting ?? [] }
        for continuation in waiting { continuation.resume(returning: outcome) }
    }
}

/// What an account's error has as its cause that has as much as it may have.
struct QuotaReached: Error {}

/// An account's part of the store, where it can have only so much beside its ledger. Whatever makes it less is done.
struct QuotaRules: KeyValueBackend {
    let store: any KeyValueBackend
    let usage: AccountUsage
    let scope: KeyScope
    let now: Int64

    var capabilities: Capabilities { store.capabilities }
    var label: String { store.label }

    func read(_ key: EntryKey, unless knownVersion: EntryVersion?) async throws(BackendError) -> Answer<ReadOutcome> {
        try await store.read(key, unless: knownVersion)
    }

    func read(_ requests: [ReadRequest]) async throws(BackendError) -> Answer<[Result<ReadOutcome, BackendError>]> {
        try await store.read(requests)
    }

    func write(
        _ value: [UInt8], to key: EntryKey, if precondition: Precondition
    ) async throws(BackendError) -> Answer<WriteOutcome> {
        guard scope.isCounted(key) else { return try await store.write(value, to: key, if: precondition) }
        try await usage.count(scope.prefix, in: store, now: now, isCounted: scope.isCounted)
        if let error = usage.reserve(value.count, under: key, of: scope.prefix) { throw error }
        do throws(BackendError) {
            let answer = try await store.write(value, to: key, if: precondition)
            settle(key, value.count, .success(answer.outcome))
            return answer
        } catch {
            settle(key, value.count, .failure(error))
            throw error
        }
    }

    func delete(_ key: EntryKey, if precondition: Precondition) async throws(BackendError) -> Answer<WriteOutcome> {
        guard scope.isCounted(key) else { return try await store.delete(key, if: precondition) }
        usage.beginDeleting(key)
        do throws(BackendError) {
            let answer = try await store.delete(key, if: precondition)
            settle(key, 0, .success(answer.outcome))
            return answer
        } catch {
            settle(key, 0, .failure(error))
            throw error
        }
    }

    func write(
        _ requests: [WriteRequest]
    ) async throws(BackendError) -> Answer<[Result<WriteOutcome, BackendError>]> {
        if requests.contains(where: { $0.value != nil && scope.isCounted($0.key) }) {
            try await usage.count(scope.prefix, in: store, now: now, isCounted: scope.isCounted)
        }
        let verdicts = requests.map { request -> BackendError? in
            guard scope.isCounted(request.key) else { return nil }
            guard let value = request.value else {
                usage.beginDeleting(request.key)
                return nil
            }
            return usage.reserve(value.count, under: request.key, of: scope.prefix)
        }
        let allowed = zip(requests, verdicts).filter { $0.1 == nil }.map(\.0)
        guard !allowed.isEmpty else { return Answer(verdicts.compactMap { $0 }.map { .failure($0) }) }
        let answer: Answer<[Result<WriteOutcome, BackendError>]>
        do throws(BackendError) { answer = try await store.write(allowed) } catch {
            usage.forget(scope.prefix, after: allowed.map(\.key))
            throw error
        }
        for (request, result) in zip(allowed, answer.outcome) {
            settle(request.key, request.value?.count ?? 0, result)
        }
        var results = answer.outcome[...]
        return Answer(
            verdicts.compactMap { $0.map { .failure($0) } ?? results.popFirst() }, serverTime: answer.serverTime,
            companion: answer.companion)
    }

    /// Notes what came of a write or delete.
    private func settle(_ key: EntryKey, _ count: Int, _ result: Result<WriteOutcome, BackendError>) {
        guard scope.isCounted(key) else { return }
        switch result {
        case .success(.written): usage.settle(count, under: key, of: scope.prefix)
        case .success(.deleted): usage.settle(nil, under: key, of: scope.prefix)
        case .success(.conflict(let entry)): usage.settle(entry?.value.count, under: key, of: scope.prefix)
        case .failure: usage.forget(scope.prefix, after: [key])
        }
    }

    func list(prefix: String, after cursor: EntryKey?, limit: Int) async throws(BackendError) -> Answer<KeyPage> {
        try await store.list(prefix: prefix, after: cursor, limit: limit)
    }

    func changes(since cursor: ChangeCursor?, limit: Int) async throws(BackendError) -> Answer<ChangePage> {
        try await store.changes(since: cursor, limit: limit)
    }

    func signals() -> AsyncStream<Void> { store.signals() }
}
