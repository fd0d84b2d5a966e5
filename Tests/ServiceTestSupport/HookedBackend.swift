package import SyncCore
import Synchronization

/// A backend that runs a test's code before each read, write and delete of one key. The code may throw to make it fail.
package final class HookedBackend: ForwardingBackend {
    package typealias Hook = @Sendable (EntryKey, Bool) async throws(BackendError) -> Void

    package let base: any KeyValueBackend
    private let hook = Mutex<Hook?>(nil)
    private let keyHook = Mutex<(@Sendable (EntryKey) async -> Void)?>(nil)
    private let readHook = Mutex<(@Sendable () async throws(BackendError) -> Void)?>(nil)

    package init(_ base: any KeyValueBackend = MemoryBackend()) { self.base = base }

    /// Calls `body` before each change from now on, with the key and `true` for a delete.
    package func before(_ body: Hook?) { hook.withLock { $0 = body } }

    /// Calls `body` before each read of a single key from now on.
    package func beforeReading(_ body: (@Sendable (EntryKey) async -> Void)?) { keyHook.withLock { $0 = body } }

    /// Calls `body` after each read of several keys, and after each listing, from now on.
    package func afterReading(_ body: (@Sendable () async throws(BackendError) -> Void)?) {
        readHook.withLock { $0 = body }
    }

    /// Makes each change fail from now on whose key and kind (`true` for a delete) meet `condition`.
    package func fail(
        _ kind: BackendError.Kind = .unavailable, _ disposition: BackendError.Disposition? = nil,
        _ message: String = "crashed",
        where condition: @escaping @Sendable (_ key: EntryKey, _ isDelete: Bool) -> Bool = { _, _ in true }
    ) {
        let disposition = disposition ?? (kind == .unavailable ? .transient : .permanent)
        before { key, isDelete throws(BackendError) in
            guard condition(key, isDelete) else { return }
            throw BackendError(kind, operation: .write, key: key, disposition: disposition, message: message)
        }
    }

    /// Makes all changes fail after `count` of them, as those of a process that was killed.
    package func fail(after count: Int) {
        let left = Mutex(count)
        fail { _, _ in
            left.withLock { left in
                left -= 1
                return left < 0
            }
        }
    }

    /// Pauses the next change of a key that meets `condition`, until the gate is opened.
    package func pause(where condition: @escaping @Sendable (EntryKey) -> Bool) -> Gate {
        let gate = Gate()
        gate.close()
        before { key, _ in if condition(key) { await gate.pass() } }
        return gate
    }

    /// All keys.
    package func keys() async throws -> [String] {
        try await base.list(prefix: "", after: nil, limit: 10_000).outcome.items.map(\.key.text)
    }

    /// The number of claims on transactions.
    package func claimCount() async throws -> Int { try await keys().count { $0.hasPrefix("owners/") } }

    package func read(_ key: EntryKey, unless knownVersion: EntryVersion?) async throws(BackendError) -> Answer<
        ReadOutcome
    > {
        await keyHook.withLock { $0 }?(key)
        return try await base.read(key, unless: knownVersion)
    }

    package func read(_ requests: [ReadRequest]) async throws(BackendError) -> Answer<
        [Result<ReadOutcome, BackendError>]
    > {
        let answer = try await base.read(requests)
        try await readHook.withLock { $0 }?()
        return answer
    }

    package func write(
        _ value: [UInt8], to key: EntryKey, if precondition: Precondition
    ) async throws(BackendError) -> Answer<WriteOutcome> {
        try await hook.withLock { $0 }?(key, false)
        return try await base.write(value, to: key, if: precondition)
    }

    package func delete(_ key: EntryKey, if precondition: Precondition) async throws(BackendError) -> Answer<
        WriteOutcome
    > {
        try await hook.withLock { $0 }?(key, true)
        return try await base.delete(key, if: precondition)
    }

    package func list(prefix: String, after cursor: EntryKey?, limit: Int) async throws(BackendError) -> Answer<KeyPage>
    {
        let answer = try await base.list(prefix: prefix, after: cursor, limit: limit)
        try await readHook.withLock { $0 }?()
        return answer
    }
}

/// Pauses the first task that passes after the gate was closed, until the gate is opened.
package final class Gate: Sendable {
    private let isClosed = Mutex(false)
    /// Happens when a task waits at the gate.
    package let reached = Event()
    private let opened = Event()

    package init() {}

    package func close() { isClosed.withLock { $0 = true } }

    package func open() { opened.happen() }

    package func pass() async {
        let isClosed = isClosed.withLock { isClosed in
            defer { isClosed = false }
            return isClosed
        }
        guard isClosed else { return }
        reached.happen()
        await opened.wait()
    }
}

/// Something that happens once.
package final class Once: Sendable {
    private let state = Mutex(false)
    package var hasHappened: Bool { state.withLock { $0 } }

    package init() {}

    /// Returns `true` the first time.
    package func happens() -> Bool {
        state.withLock { state in
            defer { state = true }
            return !state
        }
    }
}

/// A condition that becomes true once, and for which tasks can wait.
package final class Event: Sendable {
    private struct State {
        var hasHappened = false
        var waiting: [CheckedContinuation<Void, Never>] = []
    }

    private let state = Mutex(State())

    package init() {}

    package var hasHappened: Bool { state.withLock { $0.hasHappened } }

    package func happen() {
        let waiting = state.withLock { state in
            state.hasHappened = true
            defer { state.waiting = [] }
            return state.waiting
        }
        for continuation in waiting { continuation.resume() }
    }

    package func wait() async {
        await withCheckedContinuation { continuation in
            let isOver = state.withLock { state in
                if !state.hasHappened { state.waiting.append(continuation) }
                return state.hasHappened
            }
            if isOver { continuation.resume() }
        }
    }
}
