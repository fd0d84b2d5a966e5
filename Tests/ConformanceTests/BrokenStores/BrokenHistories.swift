import SyncCore
import Synchronization

/// Acknowledges writes in memory and flushes to disk occasionally; a crash loses the rest.
final class ForgetsToSynchronize: OneFault {
    let memory = MemoryBackend()
    private let disk: MemoryBackend
    private let count = Mutex(0)

    /// Creates a store on the content of `disk`.
    init(disk: MemoryBackend = MemoryBackend()) {
        self.disk = disk
        memory.putBack(disk.backup())
    }

    /// Returns the store as the next process finds it.
    func crash() -> ForgetsToSynchronize { ForgetsToSynchronize(disk: disk) }

    var capabilities: Capabilities {
        var capabilities = memory.capabilities
        capabilities.durability = .powerLoss
        return capabilities
    }

    func write(_ value: [UInt8], to key: EntryKey, if precondition: Precondition) async throws(BackendError)
        -> Answer<WriteOutcome>
    {
        let answer = try await memory.write(value, to: key, if: precondition)
        let isDue = count.withLock { count in
            count += 1
            return count.isMultiple(of: 10)
        }
        if isDue { disk.putBack(memory.backup()) }
        return answer
    }
}

/// Numbers its versions; the number is part of a backup.
final class NumbersVersions: OneFault {
    let memory = MemoryBackend()
    private let count = Mutex<UInt64>(0)
    private let versions = Mutex<[EntryVersion: EntryVersion]>([:])

    /// Copies the store with its number, and returns a function that restores both.
    func backup() -> @Sendable () -> NumbersVersions {
        let (contents, number) = (memory.backup(), count.withLock { $0 })
        return { [self] in
            memory.putBack(contents)
            count.withLock { $0 = number }
            return self
        }
    }

    func read(_ key: EntryKey, unless known: EntryVersion?) async throws(BackendError) -> Answer<ReadOutcome> {
        guard case .found(let entry) = try await memory.read(key).outcome else { return Answer(.absent) }
        let number = self.number(of: entry.version)
        return Answer(number == known ? .unchanged : .found(Entry(value: entry.value, version: number)))
    }

    func write(_ value: [UInt8], to key: EntryKey, if precondition: Precondition) async throws(BackendError)
        -> Answer<WriteOutcome>
    {
        guard case .written(let version) = try await memory.write(value, to: key, if: .any).outcome else {
            return Answer(.conflict(nil))
        }
        let number = count.withLock { count in
            count += 1
            return EntryVersion(bytes: withUnsafeBytes(of: count.bigEndian) { Array($0) })
        }
        versions.withLock { $0[version] = number }
        return Answer(.written(number))
    }

    private func number(of version: EntryVersion) -> EntryVersion { versions.withLock { $0[version] } ?? version }
}

/// Gives every write of a key the version of the first write.
final class RepeatsVersions: OneFault {
    let memory = MemoryBackend()
    private let firsts = Mutex<[EntryKey: EntryVersion]>([:])

    func read(_ key: EntryKey, unless known: EntryVersion?) async throws(BackendError) -> Answer<ReadOutcome> {
        let answer = try await memory.read(key, unless: known)
        guard case .found(let entry) = answer.outcome, let first = firsts.withLock({ $0[key] }) else { return answer }
        return Answer(.found(Entry(value: entry.value, version: first)))
    }

    func write(_ value: [UInt8], to key: EntryKey, if precondition: Precondition) async throws(BackendError)
        -> Answer<WriteOutcome>
    {
        let answer = try await memory.write(value, to: key, if: precondition)
        guard case .written(let version) = answer.outcome else { return answer }
        return firsts.withLock { firsts in
            let first = firsts[key] ?? version
            firsts[key] = first
            return Answer(.written(first))
        }
    }
}

/// Identifies a cursor by its number alone, so that it accepts cursors of another history.
struct KnowsCursorsByNumber: OneFault {
    let memory = MemoryBackend()

    func changes(since cursor: ChangeCursor?, prefix: String, limit: Int) async throws(BackendError)
        -> Answer<ChangePage>
    {
        guard let number = cursor?.sequence else {
            return try await memory.changes(since: nil, prefix: prefix, limit: limit)
        }
        var own: ChangeCursor?
        while own?.sequence ?? 0 < number {
            let page = try await memory.changes(since: own, limit: 1).outcome
            guard page.cursor != own else { break }
            own = page.cursor
        }
        return try await memory.changes(since: own?.sequence == number ? own : cursor, prefix: prefix, limit: limit)
    }
}

/// Answers an expired cursor with an empty page.
struct BelievesExpiredCursors: OneFault {
    let memory = MemoryBackend()

    func changes(since cursor: ChangeCursor?, prefix: String, limit: Int) async throws(BackendError)
        -> Answer<ChangePage>
    {
        do throws(BackendError) {
            return try await memory.changes(since: cursor, prefix: prefix, limit: limit)
        } catch {
            return Answer(ChangePage(changes: [], cursor: cursor, hasMore: false))
        }
    }
}

/// Omits the last change of a full page.
struct SkipsAChange: OneFault {
    let memory = MemoryBackend()

    func changes(since cursor: ChangeCursor?, prefix: String, limit: Int) async throws(BackendError)
        -> Answer<ChangePage>
    {
        var answer = try await memory.changes(since: cursor, prefix: prefix, limit: limit)
        if answer.outcome.hasMore, answer.outcome.changes.count > 1 { answer.outcome.changes.removeLast() }
        return answer
    }
}

/// Returns the changes of all keys.
struct IgnoresThePrefixOfChanges: OneFault {
    let memory = MemoryBackend()

    func changes(since cursor: ChangeCursor?, prefix: String, limit: Int) async throws(BackendError)
        -> Answer<ChangePage>
    {
        try await memory.changes(since: cursor, limit: limit)
    }
}

/// Answers the cursor before the latest change as the latest one.
struct ForgetsTheLatestChange: OneFault {
    let memory = MemoryBackend()

    func latestCursor() async throws(BackendError) -> Answer<ChangeCursor?> {
        var (cursor, previous): (ChangeCursor?, ChangeCursor?)
        while true {
            let page = try await memory.changes(since: cursor, limit: 1).outcome
            if page.changes.isEmpty { return Answer(previous) }
            (previous, cursor) = (cursor, page.cursor)
        }
    }
}

/// Declares pushed signals but never sends any.
struct NeverSignals: OneFault {
    let memory = MemoryBackend()

    func signals() -> AsyncStream<Void> { AsyncStream { _ in } }
}

/// Signals only the first change.
struct SignalsOnce: OneFault {
    let memory = MemoryBackend()

    func signals() -> AsyncStream<Void> {
        let (stream, continuation) = AsyncStream.makeStream(of: Void.self)
        continuation.yield()
        return stream
    }
}

/// Two objects on one store, each of which signals only its own changes.
struct SignalsOwnChangesOnly: OneFault {
    let memory: MemoryBackend
    private let hub = SignalHub()

    init(_ memory: MemoryBackend = MemoryBackend()) {
        self.memory = memory
    }

    var capabilities: Capabilities {
        var capabilities = memory.capabilities
        capabilities.sharedBetweenProcesses = true
        return capabilities
    }

    func write(_ value: [UInt8], to key: EntryKey, if precondition: Precondition) async throws(BackendError)
        -> Answer<WriteOutcome>
    {
        let answer = try await memory.write(value, to: key, if: precondition)
        if case .written = answer.outcome { hub.signal() }
        return answer
    }

    func delete(_ key: EntryKey, if precondition: Precondition) async throws(BackendError) -> Answer<WriteOutcome> {
        let answer = try await memory.delete(key, if: precondition)
        hub.signal()
        return answer
    }

    func signals() -> AsyncStream<Void> { hub.subscribe() }
}

/// Two objects on one store, each with a cache that the other does not invalidate.
final class CachesForItself: OneFault {
    let memory: MemoryBackend
    private let cache = Mutex<[EntryKey: Entry]>([:])

    init(_ memory: MemoryBackend = MemoryBackend()) {
        self.memory = memory
    }

    var capabilities: Capabilities {
        var capabilities = memory.capabilities
        capabilities.sharedBetweenProcesses = true
        return capabilities
    }

    func read(_ key: EntryKey, unless known: EntryVersion?) async throws(BackendError) -> Answer<ReadOutcome> {
        if let entry = cache.withLock({ $0[key] }) {
            return Answer(entry.version == known ? .unchanged : .found(entry))
        }
        return try await memory.read(key, unless: known)
    }

    func write(_ value: [UInt8], to key: EntryKey, if precondition: Precondition) async throws(BackendError)
        -> Answer<WriteOutcome>
    {
        let answer = try await memory.write(value, to: key, if: precondition)
        cache.withLock { cache in
            if case .written(let version) = answer.outcome { cache[key] = Entry(value: value, version: version) }
        }
        return answer
    }

    func delete(_ key: EntryKey, if precondition: Precondition) async throws(BackendError) -> Answer<WriteOutcome> {
        let answer = try await memory.delete(key, if: precondition)
        cache.withLock { $0[key] = nil }
        return answer
    }
}
