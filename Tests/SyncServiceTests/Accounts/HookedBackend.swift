import SyncCore
import Synchronization

/// A store that lets a test do something before each write and delete, or fail it.
final class HookedBackend: KeyValueBackend {
    typealias Hook = @Sendable (EntryKey, Bool) async throws(BackendError) -> Void

    private let wrapped = MemoryBackend()
    private let hook = Mutex<Hook?>(nil)
    private let readHook = Mutex<(@Sendable () async throws(BackendError) -> Void)?>(nil)

    var capabilities: Capabilities { wrapped.capabilities }
    var label: String { wrapped.label }

    /// From now on `body` is called before each change, with the key and whether it is a delete.
    func before(_ body: Hook?) { hook.withLock { $0 = body } }

    /// From now on `body` is called after several entries were read or listed.
    func afterReading(_ body: (@Sendable () async throws(BackendError) -> Void)?) { readHook.withLock { $0 = body } }

    /// All keys.
    func keys() async throws -> [String] {
        try await wrapped.list(prefix: "", after: nil, limit: 10_000).outcome.items.map(\.key.text)
    }

    func read(_ key: EntryKey, unless knownVersion: EntryVersion?) async throws(BackendError) -> Answer<ReadOutcome> {
        try await wrapped.read(key, unless: knownVersion)
    }

    func read(_ requests: [ReadRequest]) async throws(BackendError) -> Answer<[Result<ReadOutcome, BackendError>]> {
        let answer = try await wrapped.read(requests)
        try await readHook.withLock { $0 }?()
        return answer
    }

    func write(
        _ value: [UInt8], to key: EntryKey, if precondition: Precondition
    ) async throws(BackendError) -> Answer<WriteOutcome> {
        try await hook.withLock { $0 }?(key, false)
        return try await wrapped.write(value, to: key, if: precondition)
    }

    func delete(_ key: EntryKey, if precondition: Precondition) async throws(BackendError) -> Answer<WriteOutcome> {
        try await hook.withLock { $0 }?(key, true)
        return try await wrapped.delete(key, if: precondition)
    }

    func list(prefix: String, after cursor: EntryKey?, limit: Int) async throws(BackendError) -> Answer<KeyPage> {
        let answer = try await wrapped.list(prefix: prefix, after: cursor, limit: limit)
        try await readHook.withLock { $0 }?()
        return answer
    }

    func changes(since cursor: ChangeCursor?, limit: Int) async throws(BackendError) -> Answer<ChangePage> {
        try await wrapped.changes(since: cursor, limit: limit)
    }

    func signals() -> AsyncStream<Void> { wrapped.signals() }
}

/// Something that happens once, and that others wait for.
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
