import EntitlementSync
import Entitlements
import StoreEvidence
import SyncCore

// The review of an act before it is written.
extension EvidenceRecorder {
    /// The claim that an act would make.
    struct Review: Sendable {
        /// The facts under the names of the transactions that they concern.
        var facts: [Fact] = []
        /// The lines of the facts.
        var lines: [TransactionReference] = []
        /// The lines and transactions of other accounts, which only a transfer takes.
        var held: [(transaction: TransactionReference, owner: Account)] = []
        /// The lines that several other accounts own, or that have as many owners as a line may have.
        var shared: [(line: TransactionReference, owners: [Account])] = []
        /// False if the facts are only written, and give no line an owner: a refund alone must not keep a line from the
        /// account that proves it later.
        var mayClaim = false
    }

    /// Reviews the claim of `account` on the lines of `evidence`. Writes nothing.
    func review(_ evidence: VerifiedEvidence, for account: Account) async throws(BackendError) -> Review {
        var review = Review()
        var lines: [TransactionReference: TransactionReference] = [:]
        for purchase in evidence.facts.compactMap(\.purchase) { lines[purchase.transaction] = purchase.line }
        for fact in evidence.facts {
            var transactions = fact.transaction.map { [$0] } ?? []
            if case .revocation(let revocation) = fact {
                transactions = try await names.transactions(named: revocation.transaction)
            }
            review.facts += transactions.isEmpty ? [fact] : transactions.map { fact.renamed($0) }
            for transaction in transactions {
                var line = fact.purchase?.line ?? lines[transaction]
                if line == nil { line = try await names.knownLine(of: transaction) }
                let owned = line ?? evidence.line ?? transaction
                if !review.lines.contains(owned) { review.lines.append(owned) }
                guard fact.purchase != nil else { continue }
                review.mayClaim = true
                guard owners.policy != .share, let owner = try await holder(of: transaction, otherThan: account)
                else { continue }
                review.held.append((transaction, owner))
            }
        }
        for line in review.lines {
            let record = try await owners.living(line).record
            let accounts = record.owners.compactMap(\.account.account)
            guard !accounts.isEmpty else { continue }
            review.mayClaim = true
            let claim = Ownership.Claim(line: line, caller: account)
            guard try await verdict(on: claim, record, now: writer.now()) == .refused else { continue }
            if accounts.count > 1 {
                review.shared.append((line, accounts))
            } else {
                review.held.append((line, accounts[0]))
            }
        }
        return review
    }

    /// The other account whose ledger or server ledger holds `transaction`; `nil` if there is none.
    private func holder(
        of transaction: TransactionReference, otherThan account: Account
    ) async throws(BackendError) -> Account? {
        let holders = try await owners.holders(of: transaction)
        guard let other = holders.first, !holders.contains(account) else { return nil }
        if try await writer.read(other).ledger.transactions.contains(transaction) { return other }
        return try await ledger(of: other).transactions.contains(transaction) ? other : nil
    }

    /// The ledger of `account` as it is stored.
    func ledger(of account: Account) async throws(BackendError) -> Ledger {
        let key = try LedgerKeys(account).ledger
        guard case .found(let entry) = try await writer.records.backend.read(key).outcome else { return Ledger() }
        return try LedgerRules.stored(entry, key)
    }
}
