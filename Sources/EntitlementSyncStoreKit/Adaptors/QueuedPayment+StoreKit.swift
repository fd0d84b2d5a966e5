#if canImport(StoreKit)
import Entitlements
public import StoreKit

extension QueuedPayment {
    /// Reads a transaction of `SKPaymentQueue`.
    public init(_ transaction: SKPaymentTransaction) {
        let state: State =
            switch transaction.transactionState {
            case .purchased: .purchased
            case .restored: .restored
            case .failed: .failed
            case .deferred: .deferred
            default: .purchasing
            }
        let date = transaction.original?.transactionDate ?? transaction.transactionDate
        self.init(
            state, of: ProductID(transaction.payment.productIdentifier),
            transaction: transaction.transactionIdentifier.map { TransactionID($0) },
            original: transaction.original?.transactionIdentifier.map { TransactionID($0) },
            date: date.map { Timestamp($0) }, quantity: Int64(transaction.payment.quantity))
    }
}
#endif
