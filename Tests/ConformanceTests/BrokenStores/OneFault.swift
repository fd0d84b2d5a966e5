import SyncCore

/// A store that behaves like `memory` except for the one fault that it adds.
protocol OneFault: KeyValueBackend {
    var memory: MemoryBackend { get }
}

extension OneFault {
    var capabilities: Capabilities { memory.capabilities }
    var label: String { "broken:" }

    func read(_ key: EntryKey, unless known: EntryVersion?) async throws(BackendError) -> Answer<ReadOutcome> {
        try await memory.read(key, unless: known)
    }

    func write(_ value: [UInt8], to key: EntryKey, if precondition: Precondition) async throws(BackendError)
        -> Answer<WriteOutcome>
    {
        try await memory.write(value, to: key, if: precondition)
    }

    func delete(_ key: EntryKey, if precondition: Precondition) async throws(BackendError) -> Answer<WriteOutcome> {
        try await memory.delete(key, if: precondition)
    }

    func list(prefix: String, after cursor: EntryKey?, limit: Int) async throws(BackendError) -> Answer<KeyPage> {
        try await memory.list(prefix: prefix, after: cursor, limit: limit)
    }

    func changes(since cursor: ChangeCursor?, limit: Int) async throws(BackendError) -> Answer<ChangePage> {
        try await memory.changes(since: cursor, limit: limit)
    }

    func signals() -> AsyncStream<Void> { memory.signals() }
}
