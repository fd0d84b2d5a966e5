import SyncCore
import Synchronization
import Testing

/// Something that a test turns on while others look.
final class Switch: Sendable {
    private let state = Atomic(false)

    var isSet: Bool { state.load(ordering: .sequentiallyConsistent) }
    func set(_ isSet: Bool = true) { state.store(isSet, ordering: .sequentiallyConsistent) }
}

/// Counts from 0.
final class Counter: Sendable {
    private let state = Atomic(0)

    var value: Int { state.load(ordering: .sequentiallyConsistent) }
    /// The count before this call.
    @discardableResult
    func next() -> Int { state.wrappingAdd(1, ordering: .sequentiallyConsistent).oldValue }
}

/// A store that cannot compare and swap, and does nothing at all.
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

/// Lets a fault plan do something once, in the middle of a call.
final class Writer: Sendable {
    private let action = Mutex<(@Sendable () async throws -> Void)?>(nil)

    func arm(_ action: @escaping @Sendable () async throws -> Void) {
        self.action.withLock { $0 = action }
    }

    func write() async {
        let action = action.withLock { action in
            defer { action = nil }
            return action
        }
        do { try await action?() } catch { Issue.record(error) }
    }
}
