import SyncCore

/// A backend that declares compare-and-swap but ignores preconditions.
struct CarelessBackend: ForwardingBackend {
    let base: any KeyValueBackend

    var label: String { "careless \(base.label)" }

    func write(_ value: [UInt8], to key: EntryKey, if precondition: Precondition) async throws(BackendError)
        -> Answer<WriteOutcome>
    {
        try await base.write(value, to: key, if: .any)
    }

    func delete(_ key: EntryKey, if precondition: Precondition) async throws(BackendError) -> Answer<WriteOutcome> {
        try await base.delete(key, if: .any)
    }
}
