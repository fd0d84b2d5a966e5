extension Record {
    /// True if this is the record of a purchase.
    package var isPurchase: Bool { FactKey.isPurchase(key) }

    /// The purchase, if the record is one that can be read.
    package var purchase: Purchase? { isPurchase ? Fact(self).purchase : nil }
}

extension Fact {
    /// The purchase, if the fact is one.
    package var purchase: Purchase? { if case .purchase(let purchase) = self { purchase } else { nil } }

    /// The transaction or line that the fact concerns; `nil` for facts that stores do not state.
    package var transaction: TransactionReference? {
        switch self {
        case .purchase(let purchase): purchase.transaction
        case .revocation(let revocation): revocation.transaction
        case .renewalState(let state): state.line
        default: nil
        }
    }

    /// The signature and time of a statement about a transaction; `nil` for other facts.
    package var stamp: Stamp? {
        switch self {
        case .purchase(let purchase): purchase.stamp
        case .revocation(let revocation): revocation.stamp
        case .renewalState(let state): state.stamp
        default: nil
        }
    }

    /// The same statement about a transaction with another stamp. Other facts stay as they are.
    package func stamped(_ stamp: Stamp) -> Fact {
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
