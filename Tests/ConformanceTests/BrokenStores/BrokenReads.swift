import SyncCore
import Synchronization

/// Serves every fifth read from a copy that lacks the last write.
final class ReadsAnOldCopy: OneFault {
    private struct State {
        var reads = 0
        var previous: [EntryKey: Entry] = [:]
    }

    let memory = MemoryBackend()
    private let state = Mutex(State())

    func read(_ key: EntryKey, unless known: EntryVersion?) async throws(BackendError) -> Answer<ReadOutcome> {
        let old = state.withLock { state in
            state.reads += 1
            return state.reads.isMultiple(of: 5) ? state.previous[key] : nil
        }
        guard let old, old.version != known else { return try await memory.read(key, unless: known) }
        return Answer(.found(old))
    }

    func write(_ value: [UInt8], to key: EntryKey, if precondition: Precondition) async throws(BackendError)
        -> Answer<WriteOutcome>
    {
        let before = try await memory.read(key).outcome
        let answer = try await memory.write(value, to: key, if: precondition)
        if case .found(let entry) = before, case .written = answer.outcome {
            state.withLock { $0.previous[key] = entry }
        }
        return answer
    }
}

/// Answers `unchanged` to every conditional read.
struct AlwaysUnchanged: OneFault {
    let memory = MemoryBackend()

    func read(_ key: EntryKey, unless known: EntryVersion?) async throws(BackendError) -> Answer<ReadOutcome> {
        let answer = try await memory.read(key, unless: known)
        return known != nil && answer.outcome != .absent ? Answer(.unchanged) : answer
    }
}

/// Reports a failed read as absence.
struct SwallowsErrors: ForwardingBackend {
    let base: any KeyValueBackend

    var label: String { "broken:" }

    func read(_ key: EntryKey, unless known: EntryVersion?) async throws(BackendError) -> Answer<ReadOutcome> {
        do throws(BackendError) {
            return try await base.read(key, unless: known)
        } catch {
            return Answer(.absent)
        }
    }
}

/// Compares keys as a case-folding file system does.
struct FoldsCase: OneFault {
    let memory = MemoryBackend()

    func read(_ key: EntryKey, unless known: EntryVersion?) async throws(BackendError) -> Answer<ReadOutcome> {
        try await memory.read(EntryKey(key.text.lowercased()), unless: known)
    }

    func write(_ value: [UInt8], to key: EntryKey, if precondition: Precondition) async throws(BackendError)
        -> Answer<WriteOutcome>
    {
        try await memory.write(value, to: EntryKey(key.text.lowercased()), if: precondition)
    }
}

/// Compares keys as Swift strings: two spellings of "é" are one key.
final class ComparesTexts: OneFault {
    let memory = MemoryBackend()
    private let spellings = Mutex<[String: EntryKey]>([:])

    func read(_ key: EntryKey, unless known: EntryVersion?) async throws(BackendError) -> Answer<ReadOutcome> {
        try await memory.read(spelling(of: key), unless: known)
    }

    func write(_ value: [UInt8], to key: EntryKey, if precondition: Precondition) async throws(BackendError)
        -> Answer<WriteOutcome>
    {
        try await memory.write(value, to: spelling(of: key), if: precondition)
    }

    private func spelling(of key: EntryKey) -> EntryKey {
        spellings.withLock { spellings in
            let first = spellings[key.text] ?? key
            spellings[key.text] = first
            return first
        }
    }
}
