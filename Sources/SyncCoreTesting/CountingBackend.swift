public import SyncCore
import Synchronization

/// A wrapper that counts the requests to a backend. A batch counts as one request. Signals and evidence are not
/// counted.
///
/// ```swift
/// let remote = CountingBackend(MemoryBackend())
/// try await engine.sync(key)
/// #expect(remote.takeCounts().total == 1)
/// ```
public final class CountingBackend: ForwardingBackend {
    /// The number of requests of each kind.
    public struct Counts: Hashable, Sendable, CustomStringConvertible {
        /// Reads of one key.
        public var reads = 0
        /// Writes of one key.
        public var writes = 0
        /// Deletes of one key.
        public var deletes = 0
        /// Pages of keys.
        public var lists = 0
        /// Pages of changes.
        public var changes = 0
        /// Batches of reads.
        public var readBatches = 0
        /// Batches of writes and deletes.
        public var writeBatches = 0

        /// Creates counts of zero.
        public init() {}

        /// The number of requests of all kinds.
        public var total: Int { reads + writes + deletes + lists + changes + readBatches + writeBatches }

        /// The kinds with a count above 0: `2 reads, 1 writes`.
        public var description: String {
            let kinds = [
                (reads, "reads"), (writes, "writes"), (deletes, "deletes"), (lists, "lists"), (changes, "changes"),
                (readBatches, "read batches"), (writeBatches, "write batches"),
            ]
            let parts = kinds.filter { $0.0 > 0 }.map { "\($0.0) \($0.1)" }
            return parts.isEmpty ? "no requests" : parts.joined(separator: ", ")
        }
    }

    /// The counters that a backend and its ``requiringExisting`` form share.
    private final class Totals: Sendable {
        let counts = Mutex(Counts())
        let fetched = Atomic(0)
    }

    /// The wrapped backend.
    public let base: any KeyValueBackend
    private let totals: Totals

    /// Creates a wrapper that counts the requests to `base`.
    public convenience init(_ base: any KeyValueBackend) {
        self.init(base, totals: Totals())
    }

    private init(_ base: any KeyValueBackend, totals: Totals) {
        self.base = base
        self.totals = totals
    }

    /// The requests so far.
    public var counts: Counts { totals.counts.withLock { $0 } }

    /// The size in bytes of all values that reads have returned so far.
    public var fetchedByteCount: Int { totals.fetched.load(ordering: .relaxed) }

    /// Returns the requests so far and resets the counters.
    public func takeCounts() -> Counts {
        totals.counts.withLock { counts in
            defer { counts = Counts() }
            return counts
        }
    }

    /// The ``requiringExisting`` form of the wrapped backend, which shares these counters.
    public var requiringExisting: any KeyValueBackend { CountingBackend(base.requiringExisting, totals: totals) }

    /// Performs a call and counts it. The position of the latest change counts as a page of changes.
    public func forward<Outcome: Sendable>(
        _ operation: BackendError.Operation, _ key: EntryKey?,
        _ call: (any KeyValueBackend) async throws(BackendError) -> Answer<Outcome>
    ) async throws(BackendError) -> Answer<Outcome> {
        totals.counts.withLock { counts in
            switch operation {
            case .write: counts.writes += 1
            case .delete: counts.deletes += 1
            case .list: counts.lists += 1
            case .changes: counts.changes += 1
            default: counts.reads += 1
            }
        }
        let answer = try await call(base)
        if let outcome = answer.outcome as? ReadOutcome { addSize(of: outcome) }
        return answer
    }

    private func addSize(of outcome: ReadOutcome) {
        if let entry = outcome.entry { totals.fetched.wrappingAdd(entry.value.count, ordering: .relaxed) }
    }

    /// Reads several keys and counts one request.
    public func read(_ requests: [ReadRequest]) async throws(BackendError)
        -> Answer<[Result<ReadOutcome, BackendError>]>
    {
        totals.counts.withLock { $0.readBatches += 1 }
        let answer = try await base.read(requests)
        for case .success(let outcome) in answer.outcome { addSize(of: outcome) }
        return answer
    }

    /// Writes several keys and counts one request.
    public func write(_ requests: [WriteRequest]) async throws(BackendError)
        -> Answer<[Result<WriteOutcome, BackendError>]>
    {
        totals.counts.withLock { $0.writeBatches += 1 }
        return try await base.write(requests)
    }
}
