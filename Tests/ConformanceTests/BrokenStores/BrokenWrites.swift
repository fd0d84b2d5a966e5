import SyncCore
import Synchronization

/// Checks the precondition, and writes a moment later without checking it again.
struct LosesUpdates: OneFault {
    let memory = MemoryBackend()

    func write(_ value: [UInt8], to key: EntryKey, if precondition: Precondition) async throws(BackendError)
        -> Answer<WriteOutcome>
    {
        let outcome = try await memory.read(key).outcome
        let current: EntryVersion? = if case .found(let entry) = outcome { entry.version } else { nil }
        guard precondition.holds(for: current) else {
            return try await memory.write(value, to: key, if: precondition)
        }
        for _ in 0..<10 { await Task.yield() }
        return try await memory.write(value, to: key, if: .any)
    }
}

/// Writes regardless of the precondition.
struct IgnoresPreconditions: OneFault {
    let memory = MemoryBackend()

    func write(_ value: [UInt8], to key: EntryKey, if precondition: Precondition) async throws(BackendError)
        -> Answer<WriteOutcome>
    {
        try await memory.write(value, to: key, if: .any)
    }
}

/// Deletes regardless of the precondition.
struct IgnoresPreconditionsOfDeletes: OneFault {
    let memory = MemoryBackend()

    func delete(_ key: EntryKey, if precondition: Precondition) async throws(BackendError) -> Answer<WriteOutcome> {
        try await memory.delete(key, if: .any)
    }
}

/// Declares that it cannot write conditionally, but accepts preconditions.
struct DropsPreconditions: OneFault {
    let memory = MemoryBackend()

    var capabilities: Capabilities { UnconditionalCapabilities.of(memory) }

    func write(_ value: [UInt8], to key: EntryKey, if precondition: Precondition) async throws(BackendError)
        -> Answer<WriteOutcome>
    {
        try await memory.write(value, to: key, if: .any)
    }
}

/// The capabilities of a store without compare-and-swap.
enum UnconditionalCapabilities {
    static func of(_ backend: some KeyValueBackend) -> Capabilities {
        var capabilities = backend.capabilities
        capabilities.compareAndSwap = false
        return capabilities
    }
}

/// Replaces the first half of an entry, then the second, so that a reader in between sees half of each.
struct TearsWrites: OneFault {
    let memory = MemoryBackend()

    func write(_ value: [UInt8], to key: EntryKey, if precondition: Precondition) async throws(BackendError)
        -> Answer<WriteOutcome>
    {
        let half = value.count / 2
        guard half > 0, precondition == .any, case .found(let old) = try await memory.read(key).outcome else {
            return try await memory.write(value, to: key, if: precondition)
        }
        _ = try await memory.write(Array(value[..<half] + old.value.dropFirst(half)), to: key, if: .any)
        await Task.yield()
        return try await memory.write(value, to: key, if: .any)
    }
}

/// Reports a conflict without the current entry.
struct HidesTheConflictingEntry: OneFault {
    let memory = MemoryBackend()

    func write(_ value: [UInt8], to key: EntryKey, if precondition: Precondition) async throws(BackendError)
        -> Answer<WriteOutcome>
    {
        let answer = try await memory.write(value, to: key, if: precondition)
        return if case .conflict = answer.outcome { Answer(.conflict(nil)) } else { answer }
    }
}

/// Stores equal values once, and treats values of the same length and sum as equal.
final class ConfusesValues: OneFault {
    let memory = MemoryBackend()
    private let values = Mutex<[[Int]: [UInt8]]>([:])

    func write(_ value: [UInt8], to key: EntryKey, if precondition: Precondition) async throws(BackendError)
        -> Answer<WriteOutcome>
    {
        let digest = [value.count, value.reduce(0) { $0 + Int($1) }]
        let kept = values.withLock { values in
            let kept = values[digest] ?? value
            values[digest] = kept
            return kept
        }
        return try await memory.write(kept, to: key, if: precondition)
    }
}

/// Declares a maximum size but accepts larger values.
struct IgnoresItsMaximum: OneFault {
    let memory = MemoryBackend()

    var capabilities: Capabilities {
        var capabilities = memory.capabilities
        capabilities.maximumValueByteCount = 1_000
        return capabilities
    }
}

/// Reports a write as rejected with a transient error, and performs it a little later.
final class WritesAfterAnError: OneFault {
    private struct State {
        var count = 0
        var late: WriteRequest?
    }

    let memory: MemoryBackend
    private let state = Mutex(State())

    init(_ memory: MemoryBackend) {
        self.memory = memory
    }

    func write(_ value: [UInt8], to key: EntryKey, if precondition: Precondition) async throws(BackendError)
        -> Answer<WriteOutcome>
    {
        if let late = state.withLock({ $0.late.take() }) { _ = try await memory.write([late]) }
        let isRefused = state.withLock { state in
            state.count += 1
            guard state.count.isMultiple(of: 5) else { return false }
            state.late = WriteRequest(key, value: value, if: .any)
            return true
        }
        if isRefused { throw BackendError(.busy, operation: .write, key: key, message: "busy, and written later") }
        return try await memory.write(value, to: key, if: precondition)
    }
}

/// Throws `cancelled` and performs the write with the next read.
final class WritesAfterCancelling: OneFault {
    let memory = MemoryBackend()
    private let late = Mutex<WriteRequest?>(nil)

    func read(_ key: EntryKey, unless known: EntryVersion?) async throws(BackendError) -> Answer<ReadOutcome> {
        if let late = late.withLock({ $0.take() }) { _ = try await memory.write([late]) }
        return try await memory.read(key, unless: known)
    }

    func write(_ value: [UInt8], to key: EntryKey, if precondition: Precondition) async throws(BackendError)
        -> Answer<WriteOutcome>
    {
        guard Task.isCancelled else { return try await memory.write(value, to: key, if: precondition) }
        late.withLock { $0 = WriteRequest(key, value: value, if: .any) }
        throw BackendError(.cancelled, operation: .write, key: key, message: "cancelled, and written later")
    }
}

/// Throws `cancelled` for a write that it has performed.
struct WritesAndThenRefuses: OneFault {
    let memory = MemoryBackend()

    func write(_ value: [UInt8], to key: EntryKey, if precondition: Precondition) async throws(BackendError)
        -> Answer<WriteOutcome>
    {
        let answer = try await memory.write(value, to: key, if: precondition)
        for _ in 0..<10 where !Task.isCancelled { await Task.yield() }
        guard !Task.isCancelled else {
            throw BackendError(.cancelled, operation: .write, key: key, message: "cancelled, and written")
        }
        return answer
    }
}
