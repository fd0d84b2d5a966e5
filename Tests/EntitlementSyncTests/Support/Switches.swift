import SyncCore
import SyncCoreTesting
import Synchronization
import Testing

/// A flag that a test sets while other tasks read it.
final class Switch: Sendable {
    private let state = Atomic(false)

    var isSet: Bool { state.load(ordering: .sequentiallyConsistent) }
    func set(_ isSet: Bool = true) { state.store(isSet, ordering: .sequentiallyConsistent) }
}

/// A thread-safe counter that starts at 0.
final class Counter: Sendable {
    private let state = Atomic(0)

    var value: Int { state.load(ordering: .sequentiallyConsistent) }
    /// Increments the count and returns its previous value.
    @discardableResult
    func next() -> Int { state.wrappingAdd(1, ordering: .sequentiallyConsistent).oldValue }
}

/// A backend without compare-and-swap that is always empty and rejects writes.
struct WithoutPreconditions: KeyValueBackend {
    let capabilities = Capabilities(
        compareAndSwap: false, durability: .process, changes: false, signals: .polled, sharedBetweenProcesses: false)
    let label = "none:"

    func read(_ key: EntryKey, unless knownVersion: EntryVersion?) async throws(BackendError) -> Answer<ReadOutcome> {
        Answer(.absent)
    }

    func write(_ value: [UInt8], to key: EntryKey, if precondition: Precondition) async throws(BackendError)
        -> Answer<WriteOutcome>
    {
        throw BackendError(.unsupported, operation: .write, key: key, message: "no writes")
    }

    func delete(_ key: EntryKey, if precondition: Precondition) async throws(BackendError) -> Answer<WriteOutcome> {
        throw BackendError(.unsupported, operation: .delete, key: key, message: "no deletes")
    }

    func list(prefix: String, after cursor: EntryKey?, limit: Int) async throws(BackendError) -> Answer<KeyPage> {
        Answer(KeyPage(items: [], next: nil))
    }
}

/// An action that a fault plan runs once, in the middle of a call.
final class OneTimeAction: Sendable {
    private let action = Mutex<(@Sendable () async throws -> Void)?>(nil)

    func arm(_ action: @escaping @Sendable () async throws -> Void) {
        self.action.withLock { $0 = action }
    }

    func run() async {
        let action = action.withLock { action in
            defer { action = nil }
            return action
        }
        do { try await action?() } catch { Issue.record(error) }
    }

    /// A wrapper of `backend` that runs the action before it answers a read, of `key` if that is not `nil`.
    func duringRead(of key: EntryKey? = nil, in backend: any KeyValueBackend) -> FaultyBackend {
        FaultyBackend(backend) { call in
            if call.operation == .read, key == nil || call.key == key { await self.run() }
            return nil
        }
    }
}
