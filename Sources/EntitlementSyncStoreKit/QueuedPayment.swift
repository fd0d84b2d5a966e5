public import EntitlementSync
public import Entitlements

/// A transaction in StoreKit 1's payment queue, for apps that support systems or code without StoreKit 2.
///
/// StoreKit 1 signs no single transaction; the app receipt is its proof. What it reports is recorded unsigned.
public struct QueuedPayment: Hashable, Sendable {
    /// The states of `SKPaymentTransaction`.
    public enum State: Hashable, Sendable {
        /// The payment is in progress.
        case purchasing
        /// The payment is complete.
        case purchased
        /// A purchase of the past, after the user asked to restore. It is recorded under its original transaction.
        case restored
        /// The payment failed, or the user cancelled it.
        case failed
        /// The payment awaits approval ("Ask to Buy").
        case deferred
    }

    /// The state.
    public var state: State
    /// The product's ID in the App Store.
    public var product: ProductID
    /// The transaction's ID; `nil` while the payment is in progress.
    public var transaction: TransactionID?
    /// The ID of the original transaction of a restored purchase.
    public var original: TransactionID?
    /// The date of the transaction; of the original transaction for a restored purchase.
    public var date: Timestamp?
    /// The number of items, 1 to 10,000.
    public var quantity: Int64

    /// Creates a transaction.
    public init(
        _ state: State, of product: ProductID, transaction: TransactionID? = nil, original: TransactionID? = nil,
        date: Timestamp? = nil, quantity: Int64 = 1
    ) {
        (self.state, self.product, self.transaction) = (state, product, transaction)
        (self.original, self.date, self.quantity) = (original, date, quantity)
    }
}

extension EntitlementStore {
    /// Records a transaction of StoreKit 1's payment queue.
    ///
    /// ```swift
    /// if try await store.record(payment) { queue.finishTransaction(transaction) }
    /// ```
    ///
    /// - Returns: `true` if the app must finish the transaction now, because its content is durable. `false` for a
    ///   payment in progress and for a deferred one, which must not be finished.
    /// - Throws: `EntitlementError` as `record(_:)` of evidence; of kind `invalid` also for a purchase without an
    ///   ID or a date. Do not finish the transaction then: the queue delivers it again at the next start.
    public func record(_ payment: QueuedPayment, in environment: EnvironmentID? = nil) async throws(EntitlementError)
        -> Bool
    {
        switch payment.state {
        case .purchasing: return false
        case .deferred:
            try await record(.deferred(payment.product))
            return false
        case .failed:
            do { try await record(.withdrawn(payment.product)) } catch {
                // A product that the catalogue lacks was never requested.
                guard error.kind == .unknownProduct else { throw error }
            }
            return true
        case .purchased, .restored:
            let id = payment.state == .restored ? payment.original ?? payment.transaction : payment.transaction
            guard let id, let date = payment.date else {
                throw EntitlementError(
                    .invalid, "a payment in the state \(payment.state) must have a transaction ID and a date")
            }
            try await record(
                .reported(
                    payment.product, transaction: id, date: date, quantity: payment.quantity, store: .appStore,
                    environment: environment))
            return true
        }
    }
}
