import FileStorage
import SyncCore
import Synchronization

/// A deliberately broken backend that acknowledges writes in memory and flushes to disk only with every eighth change.
final class ForgetfulBackend: KeyValueBackend {
    let label = "forgetful:"
    private let memory = MemoryBackend()
    private let disk: FileBackend
    private let pending = Mutex<[EntryKey]>([])

    init(folder: String) {
        disk = FileBackend(folder: folder)
    }

    /// The capabilities of the disk store, which this backend does not honour.
    var capabilities: Capabilities { disk.capabilities }

    func read(_ key: EntryKey, unless known: EntryVersion?) async throws(BackendError) -> Answer<ReadOutcome> {
        try await memory.read(key, unless: known)
    }

    func write(_ value: [UInt8], to key: EntryKey, if precondition: Precondition) async throws(BackendError)
        -> Answer<WriteOutcome>
    {
        let answer = try await memory.write(value, to: key, if: precondition)
        try await note(key)
        return answer
    }

    func delete(_ key: EntryKey, if precondition: Precondition) async throws(BackendError) -> Answer<WriteOutcome> {
        let answer = try await memory.delete(key, if: precondition)
        try await note(key)
        return answer
    }

    func list(prefix: String, after cursor: EntryKey?, limit: Int) async throws(BackendError) -> Answer<KeyPage> {
        try await memory.list(prefix: prefix, after: cursor, limit: limit)
    }

    private func note(_ key: EntryKey) async throws(BackendError) {
        let due = pending.withLock { keys in
            keys.append(key)
            guard keys.count == 8 else { return [EntryKey]() }
            defer { keys = [] }
            return keys
        }
        for key in due {
            if case .found(let entry) = try await memory.read(key).outcome {
                _ = try await disk.write(entry.value, to: key, if: .any)
            } else {
                _ = try await disk.delete(key, if: .any)
            }
        }
    }
}
