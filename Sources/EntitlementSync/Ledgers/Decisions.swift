import Entitlements
import SyncCore
import Synchronization

/// What an account's server has decided about its purchases, as it stood there under one version.
struct Decisions: Sendable {
    var ledger: Ledger
    /// Whose, and under which version: by this a device knows whether its copy is the newest.
    var source: [UInt8]

    init(_ ledger: Ledger, version: EntryVersion, remote: String) {
        (self.ledger, source) = (ledger, Self.source(version: version, remote: remote))
    }

    /// The version in digits, which end at the first space, and the remote's label.
    static func source(version: EntryVersion, remote: String) -> [UInt8] { Array("\(version) \(remote)".utf8) }
}

/// What remotes said about entries that belong to those they were asked about.
final class RelatedVersions: Sendable {
    private let versions = Mutex<[EntryKey: EntryVersion]>([:])

    /// The version of what was last said to belong to `key`; `nil` where nothing was.
    subscript(key: EntryKey) -> EntryVersion? { versions.withLock { $0[key] } }

    /// An answer about `key` names `version`; one that names none says nothing.
    func note(_ version: EntryVersion?, of key: EntryKey) {
        guard let version else { return }
        versions.withLock { $0[key] = version }
    }
}

extension EntitlementStore {
    /// What the account's server has decided, where it has told of a version that this device does not know.
    ///
    /// One request then; none where the server decided nothing, or nothing new.
    ///
    /// - Throws: ``EntitlementError`` of kind `sync` where it cannot be read.
    func newDecisions(for session: AccountSession, beyond known: VersionedLedger) async throws(EntitlementError)
        -> Decisions?
    {
        guard let remote, let version = relatedVersions[session.keys.ledger],
            known.document.localSection != Decisions.source(version: version, remote: remote.label)
        else { return nil }
        let key = session.keys.decisions
        do throws(BackendError) {
            guard case .found(let entry) = try await remote.read(key).outcome else {
                // Wiped since, together with the ledger that they are about: the next sync hears of other ones.
                return nil
            }
            do throws(LedgerFormatError) {
                return Decisions(
                    try LedgerDocument(decoding: entry.value).ledger, version: entry.version, remote: remote.label)
            } catch {
                throw BackendError(
                    error.kind == .newerFormat ? .newerFormat : .damaged, operation: .read, key: key,
                    message: "what the server decided cannot be read \(error)")
            }
        } catch {
            throw EntitlementError(remote: error)
        }
    }
}
