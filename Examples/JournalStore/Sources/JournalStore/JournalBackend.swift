public import SyncCore
import Synchronization

/// A store in one file that is only ever appended to: each write or delete is a record at its end.
///
/// The records are the store's sequence of changes as well. Which record is the latest of each key is kept in memory;
/// each call takes the file's lock and reads what others appended since the last one. The file only grows: to shrink
/// it, copy what is in it to a new one.
public final class JournalBackend: KeyValueBackend {
    /// What it honours, against all processes of the machine.
    public let capabilities = Capabilities(
        compareAndSwap: true, durability: .powerLoss, changes: true, signals: .polled, sharedBetweenProcesses: true,
        maximumValueByteCount: JournalRecord.maximumValueByteCount)
    /// `journal:` and the path.
    public var label: String { "journal:\(path)" }
    /// The same journal, which must be there.
    public var requiringExisting: any KeyValueBackend { JournalBackend(path: path, mayBeMade: false, host: host) }

    private let path: String
    private let mayBeMade: Bool
    private let host: HostServices
    private let index = Mutex(JournalIndex())

    /// The journal at `path`, in a folder that exists; the first write makes it. Opens nothing yet.
    ///
    /// - Parameters:
    ///   - mayBeMade: false where a missing file is an error of kind `missing`, and not an empty store.
    ///   - host: where versions come from, and the timer of the wait for the lock.
    public init(path: String, mayBeMade: Bool = true, host: HostServices = .system) {
        self.path = path
        self.mayBeMade = mayBeMade
        self.host = host
    }

    /// Reads one key: one record of the file.
    public func read(_ key: EntryKey, unless knownVersion: EntryVersion?) async throws(BackendError)
        -> Answer<ReadOutcome>
    {
        try await perform(.read, key) { (file, index) throws(BackendError) in
            guard let record = index.latest(key), let file else { return .absent }
            return record.version == knownVersion ? .unchanged : .found(try record.entry(in: file))
        }
    }

    /// Appends one record, which is on the disk when this returns.
    public func write(_ value: [UInt8], to key: EntryKey, if precondition: Precondition) async throws(BackendError)
        -> Answer<WriteOutcome>
    {
        guard value.count <= JournalRecord.maximumValueByteCount else {
            throw BackendError(
                .tooLarge, operation: .write, key: key,
                message: "a value has at most \(JournalRecord.maximumValueByteCount) bytes, this has \(value.count)")
        }
        return try await change(.write, key, to: value, if: precondition)
    }

    /// Appends one record, unless there is nothing to delete.
    public func delete(_ key: EntryKey, if precondition: Precondition) async throws(BackendError)
        -> Answer<WriteOutcome>
    {
        try await change(.delete, key, to: nil, if: precondition)
    }

    /// Lists keys; sorts all that begin with `prefix`.
    public func list(prefix: String, after cursor: EntryKey?, limit: Int) async throws(BackendError)
        -> Answer<KeyPage>
    {
        try await perform(.list) { (_, index) in index.page(prefix: prefix, after: cursor, limit: limit) }
    }

    /// What changed after `cursor`; O(changes after it).
    public func changes(since cursor: ChangeCursor?, limit: Int) async throws(BackendError) -> Answer<ChangePage> {
        try await perform(.changes) { (_, index) throws(BackendError) in
            try index.changes(since: cursor, limit: limit)
        }
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

    /// Performs `body` under the file's lock, with an index that knows all records. No file means no record.
    private func perform<Outcome: Sendable>(
        _ operation: BackendError.Operation, _ key: EntryKey? = nil, writing: Bool = false,
        _ body: @Sendable (JournalFile?, inout JournalIndex) throws(BackendError) -> Outcome
    ) async throws(BackendError) -> Answer<Outcome> {
        do throws(BackendError) {
            if Task.isCancelled { throw BackendError(.cancelled, message: "the task was cancelled before it began") }
            if writing, mayBeMade { try JournalFile.make(path, name: host.randomBits()) }
            guard let file = try JournalFile.open(path, writing: writing) else {
                guard mayBeMade else {
                    throw BackendError(.missing, message: "\(path) is not there; is its disk mounted?")
                }
                var nothing = JournalIndex()
                return Answer(try body(nil, &nothing))
            }
            try await lock(file, writing: writing)
            guard try file.isStillNamed() else {
                throw BackendError(.busy, message: "\(path) was replaced while it was waited for; try again")
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

    /// Asks for the lock every millisecond, ten seconds long: waiting inside of the call would block a thread.
    private func lock(_ file: JournalFile, writing: Bool) async throws(BackendError) {
        for _ in 0..<10_000 {
            if try file.tryLock(writing: writing) { return }
            do {
                try await host.sleep(for: .milliseconds(1))
            } catch {
                throw BackendError(.cancelled, message: "the task was cancelled while it waited; nothing was done")
            }
        }
        throw BackendError(.busy, message: "\(path) has been locked for ten seconds; try again")
    }
}
