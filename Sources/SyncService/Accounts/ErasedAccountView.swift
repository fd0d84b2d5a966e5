import EntitlementSync
import SyncCore

/// The store as the devices of an erased account see it.
///
/// The directory entry of the name states that this incarnation was erased. It does not mention earlier or later
/// incarnations of the same name.
struct ErasedAccountView: KeyValueBackend {
    private let store: any KeyValueBackend
    private let key: EntryKey
    private let entry: Entry

    /// - Parameter digest: Computes the version of the synthetic directory entry from its content.
    init(_ store: any KeyValueBackend, _ account: Account, digest: ([UInt8]) -> [UInt8]) throws(BackendError) {
        self.store = store
        key = try LedgerKeys.directoryEntry(of: account.name ?? "")
        let bytes = AccountDirectory.entry(ofErased: account)
        entry = Entry(value: bytes, version: EntryVersion(bytes: digest(bytes)))
    }

    var capabilities: Capabilities { store.capabilities }
    var label: String { store.label }

    func read(_ key: EntryKey, unless knownVersion: EntryVersion?) async throws(BackendError) -> Answer<ReadOutcome> {
        guard key == self.key else { return try await store.read(key, unless: knownVersion) }
        return Answer(knownVersion == entry.version ? .unchanged : .found(entry))
    }

    func write(
        _ value: [UInt8], to key: EntryKey, if precondition: Precondition
    ) async throws(BackendError) -> Answer<WriteOutcome> {
        try await store.write(value, to: key, if: precondition)
    }

    func delete(_ key: EntryKey, if precondition: Precondition) async throws(BackendError) -> Answer<WriteOutcome> {
        try await store.delete(key, if: precondition)
    }

    func list(prefix: String, after cursor: EntryKey?, limit: Int) async throws(BackendError) -> Answer<KeyPage> {
        try await store.list(prefix: prefix, after: cursor, limit: limit)
    }

    func changes(since cursor: ChangeCursor?, limit: Int) async throws(BackendError) -> Answer<ChangePage> {
        try await store.changes(since: cursor, limit: limit)
    }

    func signals() -> AsyncStream<Void> { store.signals() }
}
