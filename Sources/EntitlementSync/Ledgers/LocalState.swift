import Entitlements
import SyncCore
import Synchronization

/// The documents of one account in the local store at one moment, and their replay.
struct LocalState: Sendable {
    /// The ledger that is synced.
    var account: VersionedLedger
    /// The ledger that stays on this device.
    var device: VersionedLedger
    /// The remote's ledger at the last sync, if a rule depends on it.
    var remote: VersionedLedger?
    /// The server ledger, as far as this device has received it.
    var serverLedger: VersionedLedger
    /// The id under which this store writes facts; `nil` before the first recording. An error concerns only recording.
    var replica: Result<Replica?, EntitlementError>
    /// True if the local facts are the account's facts as far as can be known: there is no remote, the account is
    /// anonymous, or this device has synced with the remote before. An error concerns only access.
    var hasSynced: Result<Bool, EntitlementError>
    /// The grant for this device; `nil` if there is none, or if none is needed. An error concerns only access.
    var grant: Result<HeldGrant?, EntitlementError>
    /// The position of this state among those that the store has read and written.
    var turn: Turn
    /// The claim of the account that adopted this anonymous ledger. From then on the contents belong to that account,
    /// and are shown to no other.
    let claim: Claim?
    let replay: Replay

    /// A replica id in the local store.
    struct Replica: Sendable {
        let id: ReplicaID
        let version: EntryVersion
    }

    var facts: Facts { replay.facts }

    var isKnownToHaveSynced: Bool { (try? hasSynced.get()) ?? false }

    /// The id for checks that write nothing.
    var replicaOrPlaceholder: ReplicaID { (try? replica.get())?.id ?? .placeholder }

    /// Creates a state, and continues the replay of `earlier` with what has changed since.
    ///
    /// - Parameter isAnonymous: True if the ledgers are those of the anonymous account, which others may claim.
    init(
        account: VersionedLedger, device: VersionedLedger, remote: VersionedLedger?, serverLedger: VersionedLedger,
        replica: Result<Replica?, EntitlementError>, hasSynced: Result<Bool, EntitlementError>,
        grant: Result<HeldGrant?, EntitlementError>, turn: Turn, isAnonymous: Bool, after earlier: Replay
    ) {
        (self.account, self.device, self.remote, self.serverLedger) = (account, device, remote, serverLedger)
        (self.replica, self.hasSynced, self.grant, self.turn) = (replica, hasSynced, grant, turn)
        claim = isAnonymous ? account.ledger.claim : nil
        let isReadable = claim == nil
        replay = earlier.advanced(
            account: isReadable ? account.ledger : Ledger(), device: isReadable ? device.ledger : Ledger(),
            server: isReadable ? serverLedger.ledger : Ledger(), remote: remote?.ledger)
    }

    subscript(target: DeviceLedgers.Target) -> VersionedLedger {
        switch target {
        case .account: account
        case .device: device
        }
    }

    /// The ledgers on which recording depends.
    var ledgers: DeviceLedgers {
        DeviceLedgers(account: account.ledger, device: device.ledger, server: serverLedger.ledger, replay: replay)
    }

    /// The evidence that waits for an answer of the account's server.
    var waitingEvidence: [StoredEvidence] { device.ledger.waitingEvidence }

    /// Returns the ledger of `target` with `facts` added; `nil` if it contains all of them already.
    ///
    /// - Throws: ``EntitlementError`` of kind `ledgerFull` if the result would exceed `LedgerLimits.standard`, or
    ///   `accountErased`.
    func ledger(_ target: DeviceLedgers.Target, with facts: [Fact]) throws(EntitlementError) -> Ledger? {
        let held = self[target].ledger
        guard !held.isErased else { throw .erasedHere }
        do { return try held.adding(facts) } catch { throw EntitlementError(error) }
    }
}

/// Numbers the states that one store object reads and writes.
final class StateCounter: Sendable {
    private let last = Atomic<UInt64>(0)

    func next() -> UInt64 { last.add(1, ordering: .sequentiallyConsistent).newValue }
}

/// The position of a state among those that one store object has read and written, as numbers that only grow.
struct Turn: Hashable, Sendable {
    /// Taken before the state was read: the state has every change that was durable then.
    var read: UInt64
    /// Taken after the last write that the state includes; equal to ``read`` if the state was only read.
    var written: UInt64
}

extension EntitlementError {
    static let erasedHere = EntitlementError(
        .accountErased, "the account was erased; nothing can be recorded for it")
}

extension Ledger {
    /// The claim of the account that adopted this anonymous ledger.
    var claim: Claim? {
        guard !isEmpty, let record = self[Claim.recordKey], case .claim(let claim) = Fact(record) else { return nil }
        return claim
    }
}
