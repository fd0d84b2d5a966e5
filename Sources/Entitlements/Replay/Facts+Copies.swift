// Statements about one transaction of a purchase hold for all its transactions.
extension Facts {
    /// Returns all transactions under which `purchase` is known, in ascending order.
    package func transactions(of purchase: Purchase) -> [TransactionReference] {
        copies[purchase.transaction]?.transactions ?? [purchase.transaction]
    }

    /// Returns the decision of the account's server about `purchase`; `nil` if there is none.
    package func acceptance(of purchase: Purchase) -> Acceptance? {
        if let copies = copies[purchase.transaction] { copies.decision } else { acceptances[purchase.transaction] }
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
            if isVerified != isOtherVerified { return isOtherVerified }
            if left.stamp != right.stamp { return left.stamp < right.stamp }
            if (left.revokedAt == nil) != (right.revokedAt == nil) { return left.revokedAt == nil }
            return right.transaction < left.transaction
        }
    }

    /// The transactions that are revoked, whether their purchases are known or not.
    package var revokedTransactions: [TransactionReference] {
        let others = revocations.filter { copies[$0.key] == nil && $0.value.revokedAt != nil }.map(\.key)
        return others + copies.keys.filter { self[$0].flatMap(status)?.revokedAt != nil }
    }
}
