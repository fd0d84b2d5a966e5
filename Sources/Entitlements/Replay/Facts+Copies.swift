// Statements about one transaction of a purchase hold for all its transactions.
extension Facts {
    /// Returns all transactions under which `purchase` is known, in ascending order.
    package func transactions(of purchase: Purchase) -> [TransactionReference] {
        copies[purchase.transaction]?.transactions ?? [purchase.transaction]
    }

    /// Returns the transaction under which the purchase of `transaction` is listed. It is `transaction` itself if the
    /// purchase has no other.
    package func listed(_ transaction: TransactionReference) -> TransactionReference {
        copies[transaction]?.representative ?? transaction
    }

    /// Returns the start from which the terms of `purchase` give an end.
    func termsStart(of purchase: Purchase) -> Timestamp { copies[purchase.transaction]?.termsStart ?? purchase.date }

    /// Returns the decision of the account's server about `purchase`; `nil` if there is none.
    package func acceptance(of purchase: Purchase) -> Acceptance? {
        if let copies = copies[purchase.transaction] { copies.decision } else { acceptances[purchase.transaction] }
    }

    /// Returns the reason for which the account's server refused this device's evidence of `purchase`; `nil` if it did
    /// not.
    func refusalOfEvidence(about purchase: Purchase) -> String? {
        let refusals = transactions(of: purchase).compactMap { evidenceRefusals[$0] }
        guard case .refused(let reason)? = refusals.max(by: { $0.logicalTime < $1.logicalTime })?.decision else {
            return nil
        }
        return reason
    }

    /// Returns the recordings of `purchase` under any of its transactions, in ascending order of replica. The first
    /// recording by each replica counts.
    package func recordings(of purchase: Purchase) -> [Recording] {
        guard let copies = copies[purchase.transaction] else { return recordings[purchase.transaction] ?? [] }
        var first: [ReplicaID: Recording] = [:]
        for recording in copies.transactions.flatMap({ recordings[$0] ?? [] }) {
            if let known = first[recording.replica], known.logicalTime <= recording.logicalTime { continue }
            first[recording.replica] = recording
        }
        return first.values.sorted { $0.replica < $1.replica }
    }

    /// Returns the strongest revocation or reinstatement of `purchase` under any of its transactions.
    func status(of purchase: Purchase) -> Revocation? {
        guard let copies = copies[purchase.transaction] else { return revocations[purchase.transaction] }
        return copies.transactions.compactMap { revocations[$0] }.max { left, right in
            let (isVerified, isOtherVerified) = (
                verifiedStatuses.contains(left.transaction), verifiedStatuses.contains(right.transaction)
            )
            return isVerified == isOtherVerified ? left.isWeaker(than: right) : isOtherVerified
        }
    }

    /// The transactions that are revoked, whether their purchases are known or not.
    package var revokedTransactions: [TransactionReference] {
        let others = revocations.filter { copies[$0.key] == nil && $0.value.revokedAt != nil }.map(\.key)
        let united = copies.filter { $0.key == $0.value.representative }
        return others
            + united.flatMap { transaction, copies in
                self[transaction].flatMap(status)?.revokedAt == nil ? [] : copies.transactions
            }
    }
}

extension Revocation {
    /// Returns `true` if `other`, a statement about another copy of the purchase, prevails: the later one. Among those
    /// that a store signed at the same time, a revocation prevails.
    fileprivate func isWeaker(than other: Revocation) -> Bool {
        let (isRevoked, isOtherRevoked) = (revokedAt != nil, other.revokedAt != nil)
        if stamp.signedDate != nil, stamp.signedDate == other.stamp.signedDate, isRevoked != isOtherRevoked {
            return isOtherRevoked
        }
        if stamp != other.stamp { return stamp < other.stamp }
        return isRevoked == isOtherRevoked ? other.transaction < transaction : isOtherRevoked
    }
}
