import EntitlementSync
import Entitlements
import SyncCore

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// The record of who owns a line, which is a purchase with all its renewals. A transaction without a line is a line of
/// one.
///
/// A client that reports a transaction gets a claim. An account that proves the line by verified evidence becomes an
/// owner. The record of a transaction that is part of another line names that line, and the owners of that line decide.
/// A proof always wins: a claim beside one belongs to an account that still has to be refused.
///
/// The functions are pure. They compute a verdict or the next record; ``Owners`` reads and writes.
struct Ownership: Codable, Hashable, Sendable {
    /// An account that claims or owns a line.
    struct Owner: Codable, Hashable, Sendable {
        var account: AccountIdentity
        /// The time of the claim, in milliseconds since 1970 UTC.
        var since: Int64
        /// The attempt to store a ledger that made the claim; `nil` for evidence.
        var attempt: String?
        /// True if another attempt of the account had made the claim, and may still rely on it.
        var isRenewal: Bool?

        func isOf(_ other: Account) -> Bool { account.account == other }
    }

    /// A transfer to the first owner whose ledgers may not be written yet.
    struct Transfer: Codable, Hashable, Sendable {
        var from: [AccountIdentity]
        /// True for an explicit restore and for support; `false` if the former owner's server ledger lacks the line.
        var isRestore: Bool
        /// The person or program that moves the line for support; `nil` for a request of the new owner.
        var actor: String?
        /// The facts that the new owner has presented, as a ledger document.
        var facts: Data
        /// The number of entries that the audit list had before; `nil` in the transfers of earlier versions.
        var auditCount: Int?
    }

    /// The account whose client has reported the transaction.
    var claim: Owner?
    /// The accounts whose clients have reported the transaction, if accounts share purchases; at most
    /// ``reporterCapacity``. A later refund reaches them.
    var reporters: [Owner]?
    /// The accounts that have proved the line; more than one only if lines are shared.
    var owners: [Owner] = []
    /// The time of the last transfer by a restore, in milliseconds since 1970 UTC.
    var transferred: Int64?
    /// The line of which the transaction is a part; `nil` if it is its own line, or its line is not proved.
    var line: LineName?
    /// The transfer that is not finished.
    var transfer: Transfer?

    /// The age from which a claim is free if the account's ledger does not hold the purchase, in milliseconds.
    static let freeAfter: Int64 = 60_000
    /// The number of owners of a shared line.
    static let capacity = 8
    /// The number of accounts that are known to have reported a shared transaction.
    static let reporterCapacity = 64
    /// The age up to which a signed transaction proves a restore, in milliseconds.
    static let restorePeriod: Int64 = 3_600_000
    /// The time between two transfers of one line, in milliseconds.
    static let transferPause: Int64 = 86_400_000

    /// True if nothing is left to store.
    var isEmpty: Bool { claim == nil && reporters == nil && owners.isEmpty && line == nil && transfer == nil }
}

// The claims of clients.
extension Ownership {
    /// The verdict on a client's claim.
    enum ClaimVerdict: Hashable, Sendable {
        /// The account holds the transaction; nothing is to be written.
        case held
        /// Another account holds it: by this claim, or by proof if it is `nil`.
        case refused(by: Owner?)
        /// The account gets the transaction by the next record.
        case claimed(Ownership)
    }

    /// Decides about the claim `new` of a client.
    ///
    /// - Parameters:
    ///   - owners: The living accounts that have proved the line of the transaction.
    ///   - isErased: True if the account of the present claim was erased.
    func claim(_ new: Owner, owners: [Owner], isErased: Bool) -> ClaimVerdict {
        guard let account = new.account.account, owners.isEmpty else {
            return owners.contains { $0.account.account == new.account.account } ? .held : .refused(by: nil)
        }
        if let attempt = claim?.attempt, attempt == new.attempt { return .held }
        var next = self
        next.claim = new
        if let claim, !isErased {
            guard claim.isOf(account) else { return .refused(by: claim) }
            next.claim?.isRenewal = true
        }
        return .claimed(next)
    }

    /// Replaces a claim whose ledger certainly does not hold the transaction; `nil` if the claim is too young.
    func expire(by new: Owner) -> Ownership? {
        guard let claim, new.since - claim.since >= Self.freeAfter else { return nil }
        var next = self
        next.claim = new
        return next
    }

    /// The record with a further reporter.
    func report(by reporter: Owner) -> Ownership {
        let known = reporters ?? []
        guard known.count < Self.reporterCapacity, !known.contains(where: { $0.account == reporter.account }) else {
            return self
        }
        var next = self
        next.reporters = known + [reporter]
        return next
    }

    /// The record without `account`.
    ///
    /// - Parameter isLineFree: True if no other account owns the line that the record names.
    func release(_ account: Account, isLineFree: Bool) -> Ownership {
        var next = self
        if claim?.isOf(account) == true { next.claim = nil }
        next.owners.removeAll { $0.isOf(account) }
        next.reporters?.removeAll { $0.isOf(account) }
        if next.reporters?.isEmpty == true { next.reporters = nil }
        // The date of the last transfer is kept only beside an owner. An erased owner frees the line completely.
        if next.owners.isEmpty { next.transferred = nil }
        if isLineFree { next.line = nil }
        return next
    }
}

// Verified evidence.
extension Ownership {
    /// A request for a line.
    struct Claim: Sendable {
        var line: TransactionReference
        /// The living account whose token is in the evidence.
        var named: Account?
        /// The account that sent the evidence; `nil` for a store's notification.
        var caller: Account?
        /// The date of a signed transaction that an explicit restore presents; `nil` for any other evidence.
        var restoredAt: Timestamp?
        /// True if support moves the line to the caller, whatever the policy says.
        var isTransfer = false
    }

    /// The verdict on a claim by evidence, before anything is written.
    enum Verdict: Hashable, Sendable {
        /// The line belongs to these accounts; nothing is to be written.
        case owned([Account])
        /// The line has no owner, and the claim names none.
        case unowned
        /// The line belongs to another account, and the policy keeps it there.
        case refused
        /// The account becomes the first owner.
        case claimed(by: Account)
        /// The account becomes a further owner.
        case shared([Account], with: Account)
        /// The line moves: by a restore or by support if `isRestore` is true, or else because the owner's server ledger
        /// lacks the line.
        case moved(to: Account, isRestore: Bool)
    }

    /// Decides about a claim by evidence. The owners of the record must be alive.
    ///
    /// - Parameter isHeld: True if the server ledger of the first owner holds the line.
    func verdict(
        on claim: Claim, policy: ServiceConfiguration.Ownership, now: Int64, isHeld: Bool
    ) -> Verdict {
        let accounts = owners.compactMap(\.account.account)
        guard let first = owners.first, let owner = accounts.first else {
            return (claim.named ?? claim.caller).map { .claimed(by: $0) } ?? .unowned
        }
        guard let caller = claim.caller, !accounts.contains(caller) else { return .owned(accounts) }
        if policy == .share {
            return accounts.count < Self.capacity ? .shared(accounts, with: caller) : .refused
        }
        if !isHeld, now - first.since >= Self.freeAfter {
            let claimant = claim.named ?? caller
            return claimant == owner ? .refused : .moved(to: claimant, isRestore: false)
        }
        if claim.isTransfer, accounts.count == 1 { return .moved(to: caller, isRestore: true) }
        guard policy == .transfer, let signed = claim.restoredAt?.milliseconds, signed > first.since,
            now - signed <= Self.restorePeriod, now - (transferred ?? .min / 2) >= Self.transferPause
        else { return .refused }
        return .moved(to: caller, isRestore: true)
    }

    /// The record after a transfer to `winner`, from all present owners.
    ///
    /// - Parameter auditCount: The number of entries in the audit list.
    func transfer(
        to winner: Account, isRestore: Bool, actor: String?, facts: [Fact], auditCount: Int, now: Int64
    ) -> Ownership {
        var next = self
        next.owners = [Owner(account: AccountIdentity(winner), since: now)]
        if isRestore { next.transferred = now }
        next.transfer = Transfer(
            from: owners.map(\.account), isRestore: isRestore, actor: actor,
            facts: Data(LedgerDocument(ledger: Ledger(facts.map(\.record))).encoded()), auditCount: auditCount)
        return next
    }

    /// The next step of a confirmation.
    enum Confirmation: Hashable, Sendable {
        case done
        /// Write this record, and confirm again.
        case write(Ownership)
        /// Refuse the transaction to this account, write the record, and confirm again.
        case refuse(Account, Ownership)
    }

    /// Confirms that `transaction` is part of `line`, which `account` owns by evidence.
    ///
    /// - Parameter former: The owners of the line that the record names, if it is another one.
    func confirm(
        _ transaction: TransactionReference, in line: TransactionReference, of account: Account, former: [Owner],
        now: Int64
    ) -> Confirmation {
        var next = self
        next.claim = nil
        let isProved = self.line != nil || !owners.isEmpty
        if isProved, let loser = claim?.account.account, loser != account { return .refuse(loser, next) }
        if claim?.isOf(account) == false { next.claim = claim }
        next.line = transaction == line ? nil : LineName(line)
        // Another line had the transaction. Its owner loses it, like a claim.
        if next.line != self.line, let loser = (self.line == nil ? owners : former).first, !loser.isOf(account) {
            next.claim = Owner(account: loser.account, since: now)
        }
        return next == self ? .done : .write(next)
    }
}

extension Ownership.Transfer {
    /// The cause, for the audit list.
    var cause: String {
        if !isRestore { return ", whose claim held nothing" }
        return actor == nil ? " by a restore" : " by support"
    }
}

/// A line, or a transaction, in a record of the server.
struct LineName: Codable, Hashable, Sendable {
    var store: String
    var environment: String
    var id: String

    init(store: String, environment: String, id: String) {
        (self.store, self.environment, self.id) = (store, environment, id)
    }

    init(_ line: TransactionReference) {
        (store, environment, id) = (line.store.rawValue, line.environment.rawValue, line.id.rawValue)
    }

    var reference: TransactionReference {
        TransactionReference(store: StoreID(store), environment: EnvironmentID(environment), id: TransactionID(id))
    }
}

extension TransactionReference {
    /// The levels of a key that names the transaction.
    var path: String {
        [store.rawValue, environment.rawValue, id.rawValue].map(LedgerKeys.escaped).joined(separator: "/")
    }
}
