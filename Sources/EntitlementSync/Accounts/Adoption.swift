import Entitlements
import SyncCore

/// Moves the anonymous ledger into the account that adopts it.
///
/// The claim is written first, by compare-and-swap. From then on the contents of the anonymous ledger belong to the
/// claiming account, and every reader and writer respects that. The move can be interrupted at any step and is
/// continued by the next caller that finds the claim: every step is idempotent, and a ledger is emptied only after its
/// contents are durable in the account's own ledgers.
struct Adoption: Sendable {
    private let entries: LedgerEntries
    private let host: HostServices

    init(backend: any KeyValueBackend, host: HostServices) {
        entries = LedgerEntries(backend: backend)
        self.host = host
    }

    /// Claims the contents of the anonymous ledgers for `account`, and moves them.
    ///
    /// Contents with an earlier claim go to the account that claimed them.
    ///
    /// - Returns: `true` if there was anything to adopt.
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

    /// Completes the adoption that `account` has claimed. Does nothing if there is no claim or another account made it.
    func settle(claimOf account: Account) async throws(EntitlementError) {
        let held = try await entries.read(try Self.keys(of: .anonymous).ledger)
        guard let claim = held.ledger.claim, claim.account == account.name, claim.incarnation == account.incarnation
        else { return }
        try await settle()
    }

    /// Completes the adoption that was claimed. Does nothing if there is no claim.
    func settle() async throws(EntitlementError) {
        let keys = try Self.keys(of: .anonymous)
        for _ in 0..<LedgerEntries.maximumAttempts {
            let held = try await entries.read(keys.ledger)
            guard let claim = held.ledger.claim else { return }
            let owner = try Self.keys(of: Account(claim.account, incarnation: claim.incarnation))
            if try await entries.read(owner.ledger).ledger.isErased {
                // The claiming account has been erased, so the contents become anonymous again.
                _ = try await entries.write(
                    LedgerDocument(ledger: held.ledger.withoutClaim), to: keys.ledger, if: held.precondition)
                continue
            }
            // The device ledger's contents belong to the claimant only if they were read while the claim was in place.
            // Otherwise they may have been recorded after another process had completed the adoption.
            let device = try await entries.read(keys.device)
            guard try await entries.read(keys.ledger).version == held.version else { continue }
            // The device ledger is moved first: while the claim is in place, no other account can adopt it. An empty
            // one is written too, so that a concurrent adopter that read it before the claim gets a conflict.
            if !device.ledger.isEmpty { try await join(device.ledger, into: owner.device) }
            guard case .happened = try await entries.write(LedgerDocument(), to: keys.device, if: device.precondition)
            else { continue }
            try await join(held.ledger.withoutClaim, into: owner.ledger)
            try await renewReplica(keys.replica)
            // A record added after the claim has changed the version. The write then conflicts, and the loop moves the
            // record too.
            _ = try await entries.write(LedgerDocument(), to: keys.ledger, if: held.precondition)
        }
        throw entries.busy(keys.ledger, isUnknown: false)
    }

    /// Adds what this device knows of the purchases of `account` to the anonymous ledgers.
    ///
    /// Purchases that only the server has recorded become statements of this device.
    func copyToAnonymous(_ account: Account) async throws(EntitlementError) {
        try await settle()
        let (own, anonymous) = (try Self.keys(of: account), try Self.keys(of: .anonymous))
        let held = try await entries.read(own.ledger).ledger
        guard !held.isErased else { return }
        let device = try await entries.read(own.device).ledger
        if !device.isErased, !device.isEmpty { try await join(device, into: anonymous.device) }
        let server = try await entries.read(own.knownServerLedger).ledger
        let known = server.isErased ? [] : server.records.filter { held[$0.key] == nil && Fact($0).isOfPurchase }
        let all = held.joined(with: Ledger(known))
        if !all.isEmpty { try await join(all, into: anonymous.ledger) }
    }

    /// Moves the ledgers of `account` to the anonymous ones, and marks them as erased. Nothing that another task or
    /// process records meanwhile is lost: it is moved too, or its writer finds the mark.
    func moveToAnonymous(_ account: Account) async throws(EntitlementError) {
        let (own, anonymous) = (try Self.keys(of: account), try Self.keys(of: .anonymous))
        for (source, target) in [(own.device, anonymous.device), (own.ledger, anonymous.ledger)] {
            try await entries.replace(source) { (held) async throws(EntitlementError) in
                if !held.isErased, !held.isEmpty { try await join(held, into: target) }
                return .erased
            }
        }
    }

    /// Replaces the replica id. To renew it once more than needed is harmless.
    private func renewReplica(_ key: EntryKey) async throws(EntitlementError) {
        var generator = host.generator
        try await entries.backend.update(key) { (_) throws(EntitlementError) in
            ReplicaID.random(using: &generator).bytes
        }
    }

    private func join(_ ledger: Ledger, into key: EntryKey) async throws(EntitlementError) {
        try await entries.replace(key) { $0.joined(with: ledger) }
    }

    private static func keys(of account: Account) throws(EntitlementError) -> LedgerKeys {
        try ofLocalStore(LedgerKeys(account))
    }
}

extension Ledger {
    /// The records that move to the account: all except the claim.
    fileprivate var withoutClaim: Ledger {
        Ledger(records.filter { $0.key != Claim.recordKey })
    }
}

extension Fact {
    /// True for a purchase, and for the refund of one.
    fileprivate var isOfPurchase: Bool {
        switch self {
        case .purchase, .revocation: true
        default: false
        }
    }
}
