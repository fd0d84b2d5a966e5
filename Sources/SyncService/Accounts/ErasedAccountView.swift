import Crypto
import EntitlementSync
import SyncCore

/// The store as the devices of an erased account see it.
///
/// The directory entry of the name states that this incarnation was erased. It does not mention earlier or later
/// incarnations of the same name.
struct ErasedAccountView: ForwardingBackend {
    let base: any KeyValueBackend
    private let key: EntryKey
    private let entry: Entry

    init(_ base: any KeyValueBackend, _ account: Account) throws(BackendError) {
        self.base = base
        key = try LedgerKeys.directoryEntry(of: account.name ?? "")
        let bytes = AccountDirectory.entry(ofErased: account)
        entry = Entry(value: bytes, version: EntryVersion(bytes: Array(SHA256.hash(data: bytes))))
    }

    func read(_ key: EntryKey, unless knownVersion: EntryVersion?) async throws(BackendError) -> Answer<ReadOutcome> {
        guard key == self.key else { return try await base.read(key, unless: knownVersion) }
        return Answer(knownVersion == entry.version ? .unchanged : .found(entry))
    }
}
