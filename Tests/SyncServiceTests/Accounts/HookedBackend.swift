import SyncCore
import Synchronization

/// A backend that runs a test's code before each read, write and delete of one key. The code may throw to make it fail.
final class HookedBackend: ForwardingBackend {
    typealias Hook = @Sendable (EntryKey, Bool) async throws(BackendError) -> Void

    let base: any KeyValueBackend = MemoryBackend()
    private let hook = Mutex<Hook?>(nil)
    private let keyHook = Mutex<(@Sendable (EntryKey) async -> Void)?>(nil)
    private let readHook = Mutex<(@Sendable () async throws(BackendError) -> Void)?>(nil)

    /// Calls `body` before each change from now on, with the key and `true` for a delete.
    func before(_ body: Hook?) { hook.withLock { $0 = body } }

    /// Calls `body` before each read of a single key from now on.
    func beforeReading(_ body: (@Sendable (EntryKey) async -> Void)?) { keyHook.withLock { $0 = body } }

    /// Calls `body` after each read of several keys, and after each listing, from now on.
    func afterReading(_ body: (@Sendable () async throws(BackendError) -> Void)?) { readHook.withLock { $0 = body } }

    /// All keys.
    func keys() async throws -> [String] {
        try await base.list(prefix: "", after: nil, limit: 10_000).outcome.items.map(\.key.text)
    }

    func read(_ key: EntryKey, unless knownVersion: EntryVersion?) async throws(BackendError) -> Answer<ReadOutcome> {
        await keyHook.withLock { $0 }?(key)
        return try await base.read(key, unless: knownVersion)
    }

    func read(_ requests: [ReadRequest]) async throws(BackendError) -> Answer<[Result<ReadOutcome, BackendError>]> {
        let answer = try await base.read(requests)
        try await readHook.withLock { $0 }?()
        return answer
    }

    func write(
        _ value: [UInt8], to key: EntryKey, if precondition: Precondition
    ) async throws(BackendError) -> Answer<WriteOutcome> {
        try await hook.withLock { $0 }?(key, false)
        return try await base.write(value, to: key, if: precondition)
    }

    func delete(_ key: EntryKey, if precondition: Precondition) async throws(BackendError) -> Answer<WriteOutcome> {
        try await hook.withLock { $0 }?(key, true)
        return try await base.delete(key, if: precondition)
    }

    func list(prefix: String, after cursor: EntryKey?, limit: Int) async throws(BackendError) -> Answer<KeyPage> {
        let answer = try await base.list(prefix: prefix, after: cursor, limit: limit)
        try await readHook.withLock { $0 }?()
        return answer
    }
}

/// Pauses the first task that passes after the gate was closed, until the gate is opened.
final class Gate: Sendable {
    private let isClosed = Mutex(false)
    /// Happens when a task waits at the gate.
    let reached = Event()
    private let opened = Event()

    func close() { isClosed.withLock { $0 = true } }

    func open() { opened.happen() }

    func pass() async {
        let isClosed = isClosed.withLock { isClosed in
            defer { isClosed = false }
            return isClosed
        }
        guard isClosed else { return }
        reached.happen()
        await opened.wait()
    }
}

/// A condition that becomes true once, and for which tasks can wait.
final class Event: Sendable {
    private struct State {
        var hasHappened = false
        var waiting: [CheckedContinuation<Void, Never>] = []
    }

    private let state = Mutex(State())

    var hasHappened: Bool { state.withLock { $0.hasHappened } }

    func happen() {
        let waiting = state.withLock { state in
            state.hasHappened = true
            defer { state.waiting = [] }
            return state.waiting
        }
        for continuation in waiting { continuation.resume() }
    }

    func wait() async {
        await withCheckedContinuation { continuation in
            let isOver = state.withLock { state in
                if !state.hasHappened { state.waiting.append(continuation) }
                return state.hasHappened
            }
            if isOver { continuation.resume() }
        }
    }
}
