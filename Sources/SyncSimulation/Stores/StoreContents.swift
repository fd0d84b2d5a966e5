import SyncCore

/// A store of a run, seen from outside: passes everything on to the real one, knows what it holds, and tells each write
/// that happened. One thread only.
final class StoreContents: KeyValueBackend, @unchecked Sendable {
    /// A write that happened: what stood there, and what stands there now.
    struct Change {
        var key: EntryKey
        var old: [UInt8]?
        var new: [UInt8]?
        /// Whether it came from a process, and not from what a run does to its stores.
        var isFromProcess: Bool
    }

    /// All that a store holds, and what is needed to put it back.
    struct Copy {
        var values: [EntryKey: [UInt8]]
        var backup: MemoryBackend.Backup?
    }

    private let wrapped: any KeyValueBackend
    /// The store itself where it is one of memory, which alone can be copied and put back.
    private let memory: MemoryBackend?
    private let executor: SimulationExecutor
    private(set) var values: [EntryKey: [UInt8]] = [:]
    /// What keys held before, oldest first, as caches may still answer; at most three of each.
    private(set) var history: [EntryKey: [Entry?]] = [:]
    private var versions: [EntryKey: EntryVersion] = [:]
    /// Writes of processes to ledgers; devices also note what time it is.
    private(set) var ledgerWriteCount = 0
    var didChange: (Change) -> Void = { _ in }
    /// What touched it from another thread than the run's.
    var didEscape: () -> Void = {}

    /// - Parameter memory: what `wrapped` wraps, if it does.
    init(_ wrapped: any KeyValueBackend, memory: (any KeyValueBackend)? = nil, executor: SimulationExecutor) {
        self.wrapped = wrapped
        self.memory = (memory ?? wrapped) as? MemoryBackend
        self.executor = executor
    }

    var capabilities: Capabilities { wrapped.capabilities }
    var label: String { wrapped.label }

    func read(_ key: EntryKey, unless knownVersion: EntryVersion?) async throws(BackendError) -> Answer<ReadOutcome> {
        check()
        return try await wrapped.read(key, unless: knownVersion)
    }

    func write(_ value: [UInt8], to key: EntryKey, if precondition: Precondition) async throws(BackendError)
        -> Answer<WriteOutcome>
    {
        check()
        let answer = try await wrapped.write(value, to: key, if: precondition)
        if case .written(let version) = answer.outcome { note(key, value, version) }
        return answer
    }

    func delete(_ key: EntryKey, if precondition: Precondition) async throws(BackendError) -> Answer<WriteOutcome> {
        check()
        let answer = try await wrapped.delete(key, if: precondition)
        if case .deleted = answer.outcome { note(key, nil, nil) }
        return answer
    }

    func list(prefix: String, after cursor: EntryKey?, limit: Int) async throws(BackendError) -> Answer<KeyPage> {
        check()
        return try await wrapped.list(prefix: prefix, after: cursor, limit: limit)
    }

    func changes(since cursor: ChangeCursor?, limit: Int) async throws(BackendError) -> Answer<ChangePage> {
        check()
        return try await wrapped.changes(since: cursor, limit: limit)
    }

    func signals() -> AsyncStream<Void> { wrapped.signals() }

    private func check() {
        if !executor.isOnItsThread { didEscape() }
    }

    private func note(_ key: EntryKey, _ value: [UInt8]?, _ version: EntryVersion?) {
        let old = values[key]
        remember(key)
        values[key] = value
        versions[key] = version
        if LedgerPlace(key.text) != nil { ledgerWriteCount += 1 }
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
    /// The keys that hold something, ascending.
    var keys: [EntryKey] { values.keys.sorted() }

    /// A copy of all that it holds.
    func copy() -> Copy {
        Copy(values: values, backup: memory?.backup())
    }

    /// Holds what `copy` does from now on. Returns whether the store can do that: only one of memory can.
    func putBack(_ copy: Copy) -> Bool {
        guard let memory, let backup = copy.backup else { return false }
        let before = values
        memory.putBack(backup)
        values = copy.values
        versions = [:]
        history = [:]
        for key in Set(before.keys).union(values.keys).sorted() where before[key] != values[key] {
            didChange(Change(key: key, old: before[key], new: values[key], isFromProcess: false))
        }
        return true
    }

    /// Holds nothing any more, as if it had been made anew.
    func wipe() -> Bool {
        putBack(Copy(values: [:], backup: MemoryBackend.Backup()))
    }

    /// Puts `value` under `key`, whatever stands there, as somebody does who is none of the run's processes.
    func put(_ value: [UInt8]?, under key: EntryKey) async throws(BackendError) {
        let old = values[key]
        remember(key)
        if let value {
            guard case .written(let version) = try await wrapped.write(value, to: key, if: .any).outcome else { return }
            versions[key] = version
        } else {
            _ = try await wrapped.delete(key, if: .any)
            versions[key] = nil
        }
        values[key] = value
        didChange(Change(key: key, old: old, new: value, isFromProcess: false))
    }

    /// What a cache answers that still has what `key` held a few writes ago; `nil` when nothing else stood there.
    func staleAnswer(for key: EntryKey, unless knownVersion: EntryVersion?) -> Answer<ReadOutcome>? {
        guard let oldest = history[key]?.first else { return nil }
        guard let oldest else { return Answer(.absent) }
        return Answer(oldest.version == knownVersion ? .unchanged : .found(oldest))
    }
}
