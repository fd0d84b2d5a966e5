import SyncCore
import Synchronization

/// The connection of one server to the shared store, which a test can cut and delay, and whose calls it can count.
final class StoreLine: ForwardingBackend, SynchronousReading {
    let base: any KeyValueBackend

    private struct State {
        var isCut = false
        var time: Int64?
        var calls: [String: Int] = [:]
        var beforeWriting: (@Sendable (EntryKey) async -> Void)?
        var beforeReading: (@Sendable (EntryKey) async -> Void)?
    }

    private let state = Mutex(State())

    init(_ base: any KeyValueBackend) { self.base = base }

    /// Makes all calls fail, or lets them pass again.
    func cut(_ isCut: Bool) { state.withLock { $0.isCut = isCut } }

    /// The time that the store reports with each read.
    func report(time: Int64?) { state.withLock { $0.time = time } }

    /// Calls `body` before each write.
    func beforeWriting(_ body: (@Sendable (EntryKey) async -> Void)?) { state.withLock { $0.beforeWriting = body } }

    /// Calls `body` before each read.
    func beforeReading(_ body: (@Sendable (EntryKey) async -> Void)?) { state.withLock { $0.beforeReading = body } }

    /// The number of calls with this name: `list`, or `write` and the first two parts of the key.
    func count(_ name: String) -> Int { state.withLock { $0.calls[name] ?? 0 } }

    private func pass(_ name: String) throws(BackendError) {
        let isCut = state.withLock { state in
            state.calls[name, default: 0] += 1
            return state.isCut
        }
        if isCut { throw BackendError(.unavailable, disposition: .transient, message: "the connection is down") }
    }

    private func passWrite(of key: EntryKey) async throws(BackendError) {
        await state.withLock { $0.beforeWriting }?(key)
        try pass("write " + key.text.split(separator: "/").prefix(2).joined(separator: "/"))
    }

    func read(_ key: EntryKey, unless knownVersion: EntryVersion?) async throws(BackendError) -> Answer<ReadOutcome> {
        await state.withLock { $0.beforeReading }?(key)
        try pass("read")
        return try await base.read(key, unless: knownVersion)
    }

    func readSynchronously(_ key: EntryKey, unless knownVersion: EntryVersion?) -> ReadOutcome? {
        (base as? any SynchronousReading)?.readSynchronously(key, unless: knownVersion)
    }

    func write(
        _ value: [UInt8], to key: EntryKey, if precondition: Precondition
    ) async throws(BackendError) -> Answer<WriteOutcome> {
        try await passWrite(of: key)
        return try await base.write(value, to: key, if: precondition)
    }

    func delete(_ key: EntryKey, if precondition: Precondition) async throws(BackendError) -> Answer<WriteOutcome> {
        try await passWrite(of: key)
        return try await base.delete(key, if: precondition)
    }

    func list(prefix: String, after cursor: EntryKey?, limit: Int) async throws(BackendError) -> Answer<KeyPage> {
        try pass("list")
        return try await base.list(prefix: prefix, after: cursor, limit: limit)
    }

    func latestCursor() async throws(BackendError) -> Answer<ChangeCursor?> {
        try pass("changes")
        var answer = try await base.latestCursor()
        answer.serverTime = state.withLock { $0.time }
        return answer
    }

    func changes(since cursor: ChangeCursor?, limit: Int) async throws(BackendError) -> Answer<ChangePage> {
        try pass("changes")
        return try await base.changes(since: cursor, limit: limit)
    }
}

/// A number that is incremented by each call.
final class Counter: Sendable {
    private let value = Mutex(0)

    func next() -> Int {
        value.withLock { value in
            value += 1
            return value
        }
    }
}
