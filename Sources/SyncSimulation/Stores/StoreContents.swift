import SyncCore

/// Wraps a store of a run: forwards every call, mirrors the contents, and reports each completed write.
/// Single-threaded.
final class StoreContents: ForwardingBackend, @unchecked Sendable {
    /// A completed write, with the old and the new value.
    struct Change {
        var key: EntryKey
        var old: [UInt8]?
        var new: [UInt8]?
        /// True for a write by a process, `false` for a change that the run makes to its stores.
        var isFromProcess: Bool
    }

    /// A copy of a store, with what is needed to restore it.
    struct Copy {
        var values: [EntryKey: [UInt8]]
        var backup: MemoryBackend.Backup?
    }

    let base: any KeyValueBackend
    /// The wrapped store if it can be copied and restored.
    private let memory: (any ReplaceableStore)?
    /// The wrapped store if it is a cluster, which reports writes when they become visible.
    private let cluster: SimulatedCluster?
    /// Checks what readers of a cluster see.
    var witness: StoreWitness?
    private let executor: SimulationExecutor
    private(set) var values: [EntryKey: [UInt8]] = [:]
    /// Earlier values of keys, oldest first, which a stale cache may return; at most three for each key.
    private(set) var history: [EntryKey: [Entry?]] = [:]
    private var versions: [EntryKey: EntryVersion] = [:]
    /// The number of writes to ledgers and copies of server ledgers, without a device's writes of its clock.
    private(set) var ledgerWriteCount = 0
    var didChange: (Change) -> Void = { _ in }
    /// Called for each access from a thread other than the run's.
    var didEscape: () -> Void = {}

    /// - Parameter memory: The store that `base` wraps, if any.
    init(_ base: any KeyValueBackend, memory: (any KeyValueBackend)? = nil, executor: SimulationExecutor) {
        self.base = base
        self.memory = (memory ?? base) as? any ReplaceableStore
        cluster = base as? SimulatedCluster
        self.executor = executor
        cluster?.didCommit = { [unowned self] in self.apply($0, $1?.value, $1?.version) }
    }

    func read(_ key: EntryKey, unless knownVersion: EntryVersion?) async throws(BackendError) -> Answer<ReadOutcome> {
        check()
        let answer = try await base.read(key, unless: knownVersion)
        witness?.didRead(key, answer.outcome, unless: knownVersion)
        return answer
    }

    func write(_ value: [UInt8], to key: EntryKey, if precondition: Precondition) async throws(BackendError)
        -> Answer<WriteOutcome>
    {
        check()
        return try await witnessed(key, value) { (base) async throws(BackendError) in
            try await base.write(value, to: key, if: precondition)
        }
    }

    func delete(_ key: EntryKey, if precondition: Precondition) async throws(BackendError) -> Answer<WriteOutcome> {
        check()
        return try await witnessed(key, nil) { (base) async throws(BackendError) in
            try await base.delete(key, if: precondition)
        }
    }

    func list(prefix: String, after cursor: EntryKey?, limit: Int) async throws(BackendError) -> Answer<KeyPage> {
        check()
        let answer = try await base.list(prefix: prefix, after: cursor, limit: limit)
        for item in answer.outcome.items { witness?.didSee(item.version, of: item.key) }
        return answer
    }

    func forward<Outcome: Sendable>(
        _ operation: BackendError.Operation, _ key: EntryKey?,
        _ call: (any KeyValueBackend) async throws(BackendError) -> Answer<Outcome>
    ) async throws(BackendError) -> Answer<Outcome> {
        check()
        return try await call(base)
    }

    private func witnessed(
        _ key: EntryKey, _ value: [UInt8]?,
        _ body: (any KeyValueBackend) async throws(BackendError) -> Answer<WriteOutcome>
    ) async throws(BackendError) -> Answer<WriteOutcome> {
        let number = witness?.willWrite(value, to: key)
        let answer: Answer<WriteOutcome>
        do throws(BackendError) { answer = try await body(base) } catch {
            if let number { witness?.didFail(number, key, error) }
            throw error
        }
        if cluster == nil {
            switch answer.outcome {
            case .written(let version): apply(key, value, version)
            case .deleted: apply(key, nil, nil)
            case .conflict: break
            }
        }
        if let witness, let number {
            witness.didAnswer(number, key, answer.outcome)
            await witness.follow(self, key)
        }
        return answer
    }

    private func check() {
        if !executor.isOnItsThread { didEscape() }
    }

    private func apply(_ key: EntryKey, _ value: [UInt8]?, _ version: EntryVersion?) {
        let old = values[key]
        remember(key)
        values[key] = value
        versions[key] = version
        if LedgerPlace(key.text) != nil || Self.isServerLedger(key) { ledgerWriteCount += 1 }
        didChange(Change(key: key, old: old, new: value, isFromProcess: true))
    }

    private func remember(_ key: EntryKey) {
        var entries = history[key] ?? []
        if let value = values[key], let version = versions[key] {
            entries.append(Entry(value: value, version: version))
        } else {
            entries.append(nil)
        }
        history[key] = entries.suffix(3)
    }
}

extension StoreContents {
    /// Returns `true` for the key of a server ledger, or of a device's copy of one.
    static func isServerLedger(_ key: EntryKey) -> Bool { key.text.hasSuffix("/decisions") }

    /// The keys with a value, ascending.
    var keys: [EntryKey] { values.keys.sorted() }

    /// Copies the contents.
    func copy() -> Copy {
        Copy(values: values, backup: memory?.backup())
    }

    /// Replaces the contents with `copy`. Returns `false` for a store that cannot do that: only one in memory can.
    func putBack(_ copy: Copy) -> Bool {
        guard let memory, let backup = copy.backup else { return false }
        let before = values
        memory.putBack(backup)
        values = copy.values
        witness?.didReplace()
        versions = [:]
        history = [:]
        for key in Set(before.keys).union(values.keys).sorted() where before[key] != values[key] {
            didChange(Change(key: key, old: before[key], new: values[key], isFromProcess: false))
        }
        return true
    }

    /// Empties the store, as if it were new. Returns `false` for a store that cannot do that.
    func wipe() -> Bool {
        putBack(Copy(values: [:], backup: MemoryBackend.Backup()))
    }

    /// Writes `value` to `key` unconditionally, as a client outside of the run would.
    func put(_ value: [UInt8]?, under key: EntryKey) async throws(BackendError) {
        cluster?.settle()
        let old = values[key]
        remember(key)
        var version: EntryVersion?
        if let cluster {
            version = cluster.put(value, under: key)
            witness?.didPut(key)
        } else if let value {
            guard case .written(let new) = try await base.write(value, to: key, if: .any).outcome else { return }
            version = new
        } else {
            _ = try await base.delete(key, if: .any)
        }
        versions[key] = version
        values[key] = value
        didChange(Change(key: key, old: old, new: value, isFromProcess: false))
    }

    /// The answer of a cache that still has an earlier value of `key`; `nil` if there is no earlier value.
    func staleAnswer(for key: EntryKey, unless knownVersion: EntryVersion?) -> Answer<ReadOutcome>? {
        guard let oldest = history[key]?.first else { return nil }
        guard let oldest else { return Answer(.absent) }
        return Answer(oldest.version == knownVersion ? .unchanged : .found(oldest))
    }
}
