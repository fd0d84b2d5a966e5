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
        /// The lines and transactions that belong to other accounts.
        var refused: [TransactionReference] = []
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
                guard self.lines.policy != .share, try await isProved(transaction, byOtherThan: account) else {
                    continue
                }
                review.refused.append(transaction)
            }
        }
        for line in review.lines {
            let (record, _) = try await self.lines.read(line)
            guard let owners = record?.owners.compactMap(\.account.account), !owners.isEmpty else { continue }
            review.mayClaim = true
            let claim = LineOwners.Claim(line: line, caller: account)
            let now = writer.now()
            let isHeld = try await isHeld(line, record, claim, now)
            let verdict = LineOwners.verdict(
                on: claim, record, policy: self.lines.policy, now: now, isHeld: isHeld)
            if verdict == .refused { review.refused.append(line) }
        }
        return review
    }

    /// Returns `true` if the server ledger of another account holds `transaction`.
    private func isProved(
        _ transaction: TransactionReference, byOtherThan account: Account
    ) async throws(BackendError) -> Bool {
        let key = try TransactionOwners.key(of: transaction)
        guard let owner = try await writer.records.read(key, as: TransactionOwners.Owner.self)?.value,
            owner.isVerified == true, !owner.isOf(account),
            let other = try? Account(owner.account, incarnation: owner.incarnation),
            try await writer.records.isActive(other)
        else { return false }
        return try await writer.read(other).facts.contains { $0.purchase?.transaction == transaction }
    }
}

extension ServerLedger {
    /// The line of a purchase; `nil` if the ledger has no such purchase.
    func line(of transaction: TransactionReference) -> TransactionReference? {
        facts.lazy.compactMap(\.purchase).first { $0.transaction == transaction }?.line
    }
}

extension Fact {
    /// The signature and time of a statement about a transaction; `nil` for other facts.
    var stamp: Stamp? {
        switch self {
        case .purchase(let purchase): purchase.stamp
        case .revocation(let revocation): revocation.stamp
        case .renewalState(let state): state.stamp
        default: nil
        }
    }

    /// Throws if an id in the statement cannot be part of a record.
    func validateIdentifiers() throws(InputError) {
        var ids: [(String, String)] = []
        if let transaction {
            ids += [
                ("store", transaction.store.rawValue), ("environment", transaction.environment.rawValue),
                ("transaction", transaction.id.rawValue),
            ]
        }
        if let original = purchase?.originalID { ids.append(("original", original.rawValue)) }
        if case .renewalState(let state) = self, let product = state.pendingProduct {
            ids.append(("pending", product.rawValue))
        }
        for (path, id) in ids {
            do { try TransactionID(id).validate() } catch { throw InputError(path: path, reason: "\(error)") }
        }
    }

    /// The same statement with another signature and time.
    func stamped(_ stamp: Stamp) -> Fact {
        switch self {
        case .purchase(var purchase):
            purchase.stamp = stamp
            return .purchase(purchase)
        case .revocation(var revocation):
            revocation.stamp = stamp
            return .revocation(revocation)
        case .renewalState(var state):
            state.stamp = stamp
            return .renewalState(state)
        default: return self
        }
    }
}

extension Purchase {
    /// Checks that this statement about a transaction differs from the known one in nothing but its end.
    func checkAgreement(with known: Purchase) throws(SupportError) {
        let difference: String? =
            if product != known.product {
                "product \(known.product)"
            } else if date != known.date {
                "date \(known.date)"
            } else if quantity != known.quantity {
                "quantity \(known.quantity)"
            } else {
                nil
            }
        guard let difference else { return }
        throw SupportError(
            .contradiction,
            "transaction \"\(transaction.id.rawValue.singleLine)\" is already recorded differently: \(difference)")
    }
}
