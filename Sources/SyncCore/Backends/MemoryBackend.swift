import Synchronization

/// A store in the memory of the process, for tests and previews, and as the simplest complete backend to study.
///
/// It honours the whole contract of ``KeyValueBackend``: compare-and-swap, paging, tagged cursors and pushed signals.
/// The data is lost when the object is deallocated. All methods may be called from any task; each is one short critical
/// section.
///
/// ```swift
/// let backend = MemoryBackend()
/// _ = try await backend.write([1, 2, 3], to: EntryKey("greeting"), if: .absent)
/// ```
public final class MemoryBackend: KeyValueBackend {
    /// The guarantees of a store that one process uses alone.
    public let capabilities: Capabilities
    /// `memory:` and 16 hexadecimal digits that differ for every store, because an engine distinguishes its remotes by
    /// label.
    public let label: String

    private let host: HostServices
    private let state = Mutex(MemoryState())
    private let hub = SignalHub()

    /// Creates an empty store.
    ///
    /// - Parameters:
    ///   - host: The source of versions and tags.
    ///   - maximumValueByteCount: The largest value in bytes; larger ones are rejected with
    ///     ``BackendError/Kind/tooLarge``. `nil` for no limit.
    public init(host: HostServices = .system, maximumValueByteCount: Int? = nil) {
        self.host = host
        label = "memory:" + Hexadecimal.text(host.randomBits())
        capabilities = Capabilities(
            compareAndSwap: true, durability: .process, changes: true, signals: .pushed,
            sharedBetweenProcesses: false, maximumValueByteCount: maximumValueByteCount)
    }

    /// Reads one key. O(1).
    public func read(_ key: EntryKey, unless knownVersion: EntryVersion?) async throws(BackendError)
        -> Answer<ReadOutcome>
    {
        try BackendError.throwIfCancelled(.read, key: key)
        return Answer(outcome(of: key, unless: knownVersion))
    }

    private func outcome(of key: EntryKey, unless knownVersion: EntryVersion?) -> ReadOutcome {
        guard let entry = state.withLock({ $0.entries[key] }) else { return .absent }
        return entry.version == knownVersion ? .unchanged : .found(entry)
    }

    /// Writes one key. O(1); O(keys) moves of 16 bytes for a new key.
    public func write(_ value: [UInt8], to key: EntryKey, if precondition: Precondition) async throws(BackendError)
        -> Answer<WriteOutcome>
    {
        try BackendError.throwIfCancelled(.write, key: key)
        if let refusal = capabilities.refusal(of: value, at: key) { throw refusal }
        var generator = host.generator
        let entry = Entry(value: value, version: .random(using: &generator))
        return change(key, to: entry, if: precondition)
    }

    /// Deletes one key. O(keys) moves of 16 bytes.
    public func delete(_ key: EntryKey, if precondition: Precondition) async throws(BackendError)
        -> Answer<WriteOutcome>
    {
        try BackendError.throwIfCancelled(.delete, key: key)
        return change(key, to: nil, if: precondition)
    }

    /// Lists keys. O(log keys + limit).
    public func list(prefix: String, after cursor: EntryKey?, limit: Int) async throws(BackendError)
        -> Answer<KeyPage>
    {
        try BackendError.throwIfCancelled(.list)
        return Answer(state.withLock { $0.page(prefix: prefix, after: cursor, limit: limit) })
    }

    /// Returns the changes after `cursor`. O(records after it).
    public func changes(since cursor: ChangeCursor?, prefix: String, limit: Int) async throws(BackendError)
        -> Answer<ChangePage>
    {
        try BackendError.throwIfCancelled(.changes)
        return Answer(
            try state.withLock { (state) throws(BackendError) in
                let entries = state.entries
                return try state.log.page(since: cursor, prefix: prefix, limit: limit) { entries[$0]?.version }
            })
    }

    /// Returns the position of the latest change. O(1).
    public func latestCursor() async throws(BackendError) -> Answer<ChangeCursor?> {
        try BackendError.throwIfCancelled(.changes)
        return Answer(state.withLock { $0.log.latestCursor })
    }

    /// Returns a stream that yields after every change. Each subscriber gets its own.
    public func signals() -> AsyncStream<Void> {
        hub.subscribe()
    }

    private func change(_ key: EntryKey, to entry: Entry?, if precondition: Precondition) -> Answer<WriteOutcome> {
        let tag = host.randomBits()
        let (outcome, changed) = state.withLock { $0.change(key, to: entry, tag: tag, if: precondition) }
        if changed { hub.signal() }
        return Answer(outcome)
    }
}

extension MemoryBackend {
    /// The complete state of a store at one moment, its sequence of changes included.
    package struct Backup: Sendable {
        fileprivate var state = MemoryState()

        /// The state of an empty store.
        package init() {}
    }

    /// Returns a copy of the complete state.
    package func backup() -> Backup {
        var backup = Backup()
        backup.state = state.withLock { $0 }
        return backup
    }

    /// Restores the state of `backup`, old versions and cursors included, as restoring a disk image does.
    package func putBack(_ backup: Backup) {
        state.withLock { $0 = backup.state }
        hub.signal()
    }

    /// Applies a change of another store, with its version and its tag, as a replica does.
    package func replay(_ key: EntryKey, _ entry: Entry?, tag: UInt64) {
        let (_, changed) = state.withLock { $0.change(key, to: entry, tag: tag, if: .any) }
        if changed { hub.signal() }
    }
}

extension KeyValueBackend where Self == MemoryBackend {
    /// Creates an empty store in memory.
    public static func memory(host: HostServices = .system) -> MemoryBackend {
        MemoryBackend(host: host)
    }
}

/// The state of a memory store, and the pure rules for changing and listing it.
private struct MemoryState: Sendable {
    var entries: [EntryKey: Entry] = [:]
    /// The keys of `entries` in ascending order, so that a page needs no sorting.
    var keys: [EntryKey] = []
    var log = ChangeLog()

    mutating func change(
        _ key: EntryKey, to entry: Entry?, tag: UInt64, if precondition: Precondition
    ) -> (WriteOutcome, changed: Bool) {
        let current = entries[key]
        guard precondition.holds(for: current?.version) else { return (.conflict(current), false) }
        switch (current, entry) {
        case (nil, nil):
            return (.deleted, false)
        case (nil, _?):
            keys.insert(key, at: keys.partitioningIndex { $0 > key })
        case (_?, nil):
            keys.remove(at: keys.partitioningIndex { $0 >= key })
        case (_?, _?):
            break
        }
        entries[key] = entry
        log.append(key, tag: tag)
        return (entry.map { .written($0.version) } ?? .deleted, true)
    }

    func page(prefix: String, after cursor: EntryKey?, limit: Int) -> KeyPage {
        precondition(limit >= 1, "limit must be 1 or more, not \(limit)")
        let start = keys.partitioningIndex { key in
            if let cursor, key <= cursor { return false }
            return !key.text.utf8.lexicographicallyPrecedes(prefix.utf8)
        }
        let items = keys[start...].prefix(limit).prefix { $0.hasPrefix(prefix) }.compactMap { key in
            entries[key].map { KeyPage.Item(key: key, version: $0.version, byteCount: $0.value.count) }
        }
        let following = keys[(start + items.count)...].first
        let hasMore = items.count == limit && following?.hasPrefix(prefix) == true
        return KeyPage(items: items, next: hasMore ? items.last?.key : nil)
    }
}

extension MemoryBackend: SynchronousReading {
    /// Always returns an outcome.
    package func readSynchronously(_ key: EntryKey, unless knownVersion: EntryVersion?) -> ReadOutcome? {
        outcome(of: key, unless: knownVersion)
    }
}
