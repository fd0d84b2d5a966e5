import Entitlements
import SyncCore
import Synchronization

/// One version of the server ledger, as it was read from an account's server.
struct FetchedServerLedger: Sendable {
    var ledger: Ledger
    /// The remote and the version that the ledger was read from. Shows whether this device's copy is current.
    var source: [UInt8]

    init(_ ledger: Ledger, version: EntryVersion, remote: String) {
        (self.ledger, source) = (ledger, Self.source(version: version, remote: remote))
    }

    /// Returns the version in decimal digits, a space, and the remote's label.
    static func source(version: EntryVersion, remote: String) -> [UInt8] { Array("\(version) \(remote)".utf8) }
}

extension VersionedLedger {
    /// Makes a server ledger state `policy`, as its server does before a client reads it.
    mutating func state(_ policy: TrustPolicy, at now: Timestamp) {
        var server = ServerLedger(ledger)
        guard server.set(policy, at: now) else { return }
        document = LedgerDocument(ledger: server.ledger, localSection: document.localSection)
    }
}

/// The versions of related entries that remotes have reported in their answers.
final class RelatedVersions: Sendable {
    private let versions = Mutex<[EntryKey: EntryVersion]>([:])

    /// The last reported version of the entry related to `key`; `nil` if none was reported.
    subscript(key: EntryKey) -> EntryVersion? { versions.withLock { $0[key] } }

    /// Records the version that an answer about `key` reported. `nil` changes nothing.
    func remember(_ version: EntryVersion?, of key: EntryKey) {
        guard let version else { return }
        versions.withLock { $0[key] = version }
    }
}

extension EntitlementStore {
    /// Returns the server ledger of the account, if the remote has reported a version that this device does not
    /// have.
    ///
    /// Sends one request in that case, and otherwise none.
    ///
    /// - Throws: ``EntitlementError`` of kind `sync` if the server ledger cannot be read.
    func newServerLedger(for session: AccountSession, beyond known: VersionedLedger) async throws(EntitlementError)
        -> FetchedServerLedger?
    {
        guard let remote, let version = relatedVersions[session.keys.ledger],
            known.document.localSection != FetchedServerLedger.source(version: version, remote: remote.label)
        else { return nil }
        let key = session.keys.serverLedger
        do throws(BackendError) {
            guard case .found(let entry) = try await remote.read(key).outcome else {
                // The server ledger was deleted in the meantime, with the ledger it belongs to. The next sync reports
                // other versions.
                return nil
            }
            do throws(LedgerFormatError) {
                return FetchedServerLedger(
                    try LedgerDocument(decoding: entry.value).ledger, version: entry.version, remote: remote.label)
            } catch {
                throw BackendError(
                    error.kind == .newerFormat ? .newerFormat : .damaged, operation: .read, key: key,
                    message: "the server ledger cannot be read \(error)")
            }
        } catch {
            throw EntitlementError(remote: error)
        }
    }
}
