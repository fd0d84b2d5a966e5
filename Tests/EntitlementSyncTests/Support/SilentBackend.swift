import SyncCore

/// A backend wrapper that never signals changes.
struct SilentBackend: KeyValueBackend {
    private let wrapped: any KeyValueBackend

    init(_ wrapped: any KeyValueBackend) {
        self.wrapped = wrapped
    }

    var capabilities: Capabilities { wrapped.capabilities }
    var label: String { "silent \(wrapped.label)" }

    func read(_ key: EntryKey, unless knownVersion: EntryVersion?) async throws(BackendError) -> Answer<ReadOutcome> {
        try await wrapped.read(key, unless: knownVersion)
    }

    func write(_ value: [UInt8], to key: EntryKey, if precondition: Precondition) async throws(BackendError)
        -> Answer<WriteOutcome>
    {
        try await wrapped.write(value, to: key, if: precondition)
    }

    func delete(_ key: EntryKey, if precondition: Precondition) async throws(BackendError) -> Answer<WriteOutcome> {
        try await wrapped.delete(key, if: precondition)
    }

    func list(prefix: String, after cursor: EntryKey?, limit: Int) async throws(BackendError) -> Answer<KeyPage> {
        try await wrapped.list(prefix: prefix, after: cursor, limit: limit)
    }
}
