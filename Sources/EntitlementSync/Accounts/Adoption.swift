import Entitlements
import SyncCore

/// Moves the ledger of nobody to the account that adopts it.
///
/// The claim is written first, by compare-and-swap; from then on what the ledger holds is that account's, and every
/// reader and writer sees so. Moving may be interrupted at any step and is taken up again by whoever meets the claim:
/// each step can be repeated, and nothing is emptied before what it held is durable in the account's own ledgers.
struct Adoption: Sendable {
    private let entries: LedgerEntries
    private let host: HostServices

    init(backend: any KeyValueBackend, host: HostServices) {
        entries = LedgerEntries(backend: backend)
        self.host = host
    }

    /// Claims what nobody's ledger holds for `account`, and moves it. Returns whether there was anything.
    ///
    /// What another account has claimed before goes to that account first.
    func adopt(for account: Account, at now: Timestamp) async throws(EntitlementError) -> Bool {
        guard let name = account.name else { return false }
        let keys = try Self.keys(of: .anonymous)
        var mayHaveClaimed = false
        for _ in 0..<LedgerEntries.maximumAttempts {
            try await settle()
            let device = try await entries.read(keys.device)
            let held = try await entries.read(keys.ledger)
            if held.ledger.claim != nil { continue }
            if held.ledger.isEmpty, device.ledger.isEmpty { return mayHaveClaimed }
            let time = Facts(account: held.ledger, device: device.ledger).latestTime.next(at: now)
            let claim = Fact.claim(
                Claim(account: name, incarnation: account.incarnation, date: now, logicalTime: time))
            let document = LedgerDocument(
                ledger: held.ledger.joined(with: Ledger([claim.record])), localSection: held.document.localSection)
            switch try await entries.write(document, to: keys.ledger, if: held.precondition) {
            case .happened, .unknown: mayHaveClaimed = true
            case .conflicted: break
            }
        }
        throw entries.busy(keys.ledger, isUnknown: false)
    }

    /// Completes what `account` has claimed; does nothing when the claim is another's, or there is none.
    func settle(claimOf account: Account) async throws(EntitlementError) {
        let held = try await entries.read(try Self.keys(of: .anonymous).ledger)
        guard let claim = held.ledger.claim, claim.account == account.name, claim.incarnation == account.incarnation
        else { return }
        try await settle()
    }

    /// Completes what was claimed; does nothing when nothing is.
    func settle() async throws(EntitlementError) {
        let keys = try Self.keys(of: .anonymous)
        for _ in 0..<LedgerEntries.maximumAttempts {
            let held = try await entries.read(keys.ledger)
            guard let claim = held.ledger.claim else { return }
            let owner = try Self.keys(of: Account(claim.account, incarnation: claim.incarnation))
            if try await entries.read(owner.ledger).ledger.isErased {
                // There is nobody to adopt it any more: it is nobody's again.
                _ = try await entries.write(
                    LedgerDocument(ledger: held.ledger.withoutClaim), to: keys.ledger, if: held.precondition)
                continue
            }
            // What the device's part holds is the claimant's if it was read while the claim stood. Else it may be what
            // nobody recorded after somebody else had completed the adoption.
            let device = try await entries.read(keys.device)
            guard try await entries.read(keys.ledger, cached: held).version == held.version else { continue }
            // The device's part first: as long as the claim stands, nobody can take it for anybody else's. It is
            // emptied even where it is empty, so that whoever looked at it before the claim notices.
            if !device.ledger.isEmpty { try await join(device.ledger, into: owner.device) }
            guard case .happened = try await entries.write(LedgerDocument(), to: keys.device, if: device.precondition)
            else { continue }
            try await join(held.ledger.withoutClaim, into: owner.ledger)
            try await ReplicaKey(backend: entries.backend, key: keys.replica, host: host).renew()
            // Whoever recorded something behind the claim has changed the version: then it is moved as well.
            _ = try await entries.write(LedgerDocument(), to: keys.ledger, if: held.precondition)
        }
        throw entries.busy(keys.ledger, isUnknown: false)
    }

    private func join(_ ledger: Ledger, into key: EntryKey) async throws(EntitlementError) {
        try await entries.replace(key) { $0.joined(with: ledger) }
    }

    private static func keys(of account: Account) throws(EntitlementError) -> LedgerKeys {
        do { return try LedgerKeys(account) } catch { throw EntitlementError(error) }
    }
}

extension Ledger {
    /// What goes to the account: everything but the claim itself.
    fileprivate var withoutClaim: Ledger {
        Ledger(records.filter { $0.key != Claim.recordKey })
    }
}
