import SyncCore

/// A backend that declares compare-and-swap but ignores preconditions.
struct CarelessBackend: KeyValueBackend {
    private let wrapped: any KeyValueBackend

    init(_ wrapped: any KeyValueBackend) {
        self.wrapped = wrapped
    }

    var capabilities: Capabilities { wrapped.capabilities }
    var label: String { "careless \(wrapped.label)" }

    func read(_ key: EntryKey, unless knownVersion: EntryVersion?) async throws(BackendError) -> Answer<ReadOutcome> {
        try await wrapped.read(key, unless: knownVersion)
    }

    func write(_ value: [UInt8], to key: EntryKey, if precondition: Precondition) async throws(BackendError)
        -> Answer<WriteOutcome>
    {
        try await wrapped.write(value, to: key, if: .any)
    }

    func delete(_ key: EntryKey, if precondition: Precondition) async throws(BackendError) -> Answer<WriteOutcome> {
        try await wrapped.delete(key, if: .any)
    }

    func list(prefix: String, after cursor: EntryKey?, limit: Int) async throws(BackendError) -> Answer<KeyPage> {
        try await wrapped.list(prefix: prefix, after: cursor, limit: limit)
    }

    func changes(since cursor: ChangeCursor?, limit: Int) async throws(BackendError) -> Answer<ChangePage> {
        try await wrapped.changes(since: cursor, limit: limit)
    }

    func signals() -> AsyncStream<Void> { wrapped.signals() }
}
