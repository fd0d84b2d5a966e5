package import Entitlements

/// The purchases that differ between an earlier state of an account and its facts now. A purchase is named once,
/// however many transactions it has.
package struct PurchaseChanges {
    /// New purchases that this device made.
    package let bought: [Purchase]
    /// All other new purchases.
    package let restored: [Purchase]
    /// Revoked purchases, including those that are known by their revocation only.
    package let revoked: Set<TransactionReference>
    /// Purchases that were revoked and count again.
    package let reinstated: Set<TransactionReference>

    /// Compares `facts` with an earlier state.
    ///
    /// - Parameters:
    ///   - wasKnown: True for the transactions of purchases that the earlier state had.
    ///   - wasRevoked: True for the transactions that were revoked in the earlier state.
    ///   - isOwn: True for purchases that this device made.
    package init(
        in facts: Facts, wasKnown: (TransactionReference) -> Bool, wasRevoked: (TransactionReference) -> Bool,
        isOwn: (Purchase) -> Bool
    ) {
        let arrived = facts.purchases.filter { !facts.transactions(of: $0).contains(where: wasKnown) }
        bought = arrived.filter(isOwn)
        restored = arrived.filter { !isOwn($0) }
        let now = Set(facts.revokedTransactions.map(facts.listed))
        let all = facts.purchases.flatMap(facts.transactions) + facts.revocations.keys
        let before = Set(all.filter(wasRevoked).map(facts.listed))
        (revoked, reinstated) = (now.subtracting(before), before.subtracting(now))
    }
}
