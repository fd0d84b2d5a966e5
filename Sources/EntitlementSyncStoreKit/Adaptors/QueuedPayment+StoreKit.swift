#if canImport(StoreKit)
import Entitlements
public import StoreKit

extension QueuedPayment {
    /// Reads a transaction of `SKPaymentQueue`.
    @available(iOS, deprecated: 18, message: "use StoreKit 2")
    @available(macOS, deprecated: 15, message: "use StoreKit 2")
    @available(tvOS, deprecated: 18, message: "use StoreKit 2")
    @available(watchOS, deprecated: 11, message: "use StoreKit 2")
    @available(visionOS, deprecated: 2, message: "use StoreKit 2")
    @available(macCatalyst, deprecated: 18, message: "use StoreKit 2")
    public init(_ transaction: SKPaymentTransaction) {
        let state: State =
            switch transaction.transactionState {
            case .purchased: .purchased
            case .restored: .restored
            case .failed: .failed
            case .deferred: .deferred
            default: .purchasing
            }
        // The original transaction is defined only for a restored purchase.
        let original = state == .restored ? transaction.original : nil
        let date = original?.transactionDate ?? transaction.transactionDate
        self.init(
            state, of: ProductID(transaction.payment.productIdentifier),
            transaction: transaction.transactionIdentifier.map { TransactionID($0) },
            original: original?.transactionIdentifier.map { TransactionID($0) },
            date: date.map { Timestamp($0) }, quantity: Int64(transaction.payment.quantity))
    }
}
#endif
