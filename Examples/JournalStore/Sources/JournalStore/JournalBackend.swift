public import SyncCore
import Synchronization

/// A backend that keeps its store in one append-only file: each write or delete appends a record.
///
/// The records are also the store's sequence of changes. An index of the latest record of each key is kept in memory;
/// each call locks the file and reads the records that other processes have appended since the last call. The file only
/// grows: to shrink it, copy its entries to a new one.
public final class JournalBackend: KeyValueBackend {
    /// The guarantees of the store, which hold between all processes of the machine.
    public let capabilities = Capabilities(
        compareAndSwap: true, durability: .powerLoss, changes: true, signals: .polled, sharedBetweenProcesses: true,
        maximumValueByteCount: JournalRecord.maximumValueByteCount)
    /// `journal:` followed by the path.
    public var label: String { "journal:\(path)" }
    /// The same journal, which must exist.
    public var requiringExisting: any KeyValueBackend { JournalBackend(path: path, createsFile: false, host: host) }

    private let path: String
    private let createsFile: Bool
    private let host: HostServices
    private let index = Mutex(JournalIndex())

    /// Creates a backend for the journal at `path`. Opens nothing yet; the first write creates the file, but not its
    /// folder.
    ///
    /// - Parameters:
    ///   - createsFile: `false` if a missing file is an error of kind `missing` instead of an empty store.
    ///   - host: The source of random versions, and the timer for the wait for the lock.
    public init(path: String, createsFile: Bool = true, host: HostServices = .system) {
        self.path = path
        self.createsFile = createsFile
        self.host = host
    }

    /// Reads one key, which takes one read of the file.
    public func read(_ key: EntryKey, unless knownVersion: EntryVersion?) async throws(BackendError)
        -> Answer<ReadOutcome>
    {
        try await perform(.read, key) { (file, index) throws(BackendError) in
            guard let record = index.latest(key), let file else { return .absent }
            return record.version == knownVersion ? .unchanged : .found(try record.entry(in: file))
        }
    }

    /// Appends a record. It is on the disk when this method returns.
    public func write(_ value: [UInt8], to key: EntryKey, if precondition: Precondition) async throws(BackendError)
        -> Answer<WriteOutcome>
    {
        guard value.count <= JournalRecord.maximumValueByteCount else {
            throw BackendError(
                .tooLarge, operation: .write, key: key,
                message: "a value must have at most \(JournalRecord.maximumValueByteCount) bytes, not \(value.count)")
        }
        return try await change(.write, key, to: value, if: precondition)
    }

    /// Appends a record that deletes the key, unless the key is absent.
    public func delete(_ key: EntryKey, if precondition: Precondition) async throws(BackendError)
        -> Answer<WriteOutcome>
    {
        try await change(.delete, key, to: nil, if: precondition)
    }

    /// Lists keys. Sorts all keys that begin with `prefix` on each call.
    public func list(prefix: String, after cursor: EntryKey?, limit: Int) async throws(BackendError)
        -> Answer<KeyPage>
    {
        try await perform(.list) { (_, index) in index.page(prefix: prefix, after: cursor, limit: limit) }
    }

    /// Lists the changes after `cursor`.
    ///
    /// - Complexity: O(*n*), where *n* is the number of changes after `cursor`.
    public func changes(since cursor: ChangeCursor?, prefix: String, limit: Int) async throws(BackendError)
        -> Answer<ChangePage>
    {
        try await perform(.changes) { (_, index) throws(BackendError) in
            try index.changes(since: cursor, prefix: prefix, limit: limit)
        }
    }

    /// The position of the latest change.
    public func latestCursor() async throws(BackendError) -> Answer<ChangeCursor?> {
        try await perform(.changes) { (_, index) in index.latestCursor }
    }

    private func change(
        _ operation: BackendError.Operation, _ key: EntryKey, to value: [UInt8]?, if precondition: Precondition
    ) async throws(BackendError) -> Answer<WriteOutcome> {
        var generator = host.generator
        let version = EntryVersion.random(using: &generator)
        return try await perform(operation, key, writing: true) { (file, index) throws(BackendError) in
            let current = index.latest(key)
            guard let file, precondition.holds(for: current?.version) else {
                guard let file, let current else { return .conflict(nil) }
                return .conflict(try current.entry(in: file))
            }
            if current == nil, value == nil { return .deleted }
            try file.append(JournalRecord.encode(value, version: version, key: key), at: index.end)
            try index.catchUp(with: file)
            return value == nil ? .deleted : .written(version)
        }
    }

    /// Performs `body` under the file's lock, with an index of all records. A missing file has no records.
    private func perform<Outcome: Sendable>(
        _ operation: BackendError.Operation, _ key: EntryKey? = nil, writing: Bool = false,
        _ body: @Sendable (JournalFile?, inout JournalIndex) throws(BackendError) -> Outcome
    ) async throws(BackendError) -> Answer<Outcome> {
        do throws(BackendError) {
            if Task.isCancelled { throw BackendError(.cancelled, message: "the task was cancelled before it began") }
            if writing, createsFile { try JournalFile.make(path, name: host.randomBits()) }
            guard let file = try JournalFile.open(path, writing: writing) else {
                guard createsFile else {
                    throw BackendError(.missing, message: "\(path) does not exist; is its disk mounted?")
                }
                var nothing = JournalIndex()
                return Answer(try body(nil, &nothing))
            }
            try await lock(file, writing: writing)
            guard try file.isStillNamed() else {
                throw BackendError(.busy, message: "\(path) was replaced during the wait for its lock; try again")
            }
            return Answer(
                try index.withLock { (index) throws(BackendError) in
                    try index.catchUp(with: file)
                    return try body(file, &index)
                })
        } catch {
            throw error.during(operation, key: key)
        }
    }

    /// Tries to lock the file every millisecond for ten seconds. A blocking `flock` would block a thread of the pool.
    private func lock(_ file: JournalFile, writing: Bool) async throws(BackendError) {
        for _ in 0..<10_000 {
            if try file.tryLock(writing: writing) { return }
            do {
                try await host.sleep(for: .milliseconds(1))
            } catch {
                throw BackendError(.cancelled, message: "the task was cancelled before it got the lock")
            }
        }
        throw BackendError(.busy, message: "\(path) has been locked for ten seconds; try again")
    }
}
