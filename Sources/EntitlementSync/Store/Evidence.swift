public import Entitlements

/// Why an app believes that something was bought. Hand it to ``EntitlementStore/record(_:)-(Evidence)``.
///
/// What a store signed is stronger than what an app reports; more kinds come without changing the call.
public struct Evidence: Sendable {
    enum Content: Sendable {
        case reported(ReportedPurchase)
        case deferred(ProductID)
        case withdrawn(ProductID)
    }

    let content: Content

    /// The app's own word that something was bought.
    ///
    /// - Parameters:
    ///   - product: a product of the catalogue.
    ///   - transaction: the store's id, so that the same purchase seen by two devices counts once; a new random one
    ///     when there is none.
    ///   - date: when it was bought; now when not given.
    ///   - quantity: how many, 1 to 10,000.
    ///   - expires: the end that the store gave, for a subscription that it renews.
    ///   - store: where the transaction id is from.
    ///   - environment: where it was sold; that of the ``EntitlementStore`` when not given.
    public static func reported(
        _ product: ProductID, transaction: TransactionID? = nil, date: Timestamp? = nil, quantity: Int64 = 1,
        expires: Timestamp? = nil, store: StoreID = .reported, environment: EnvironmentID? = nil
    ) -> Evidence {
        Evidence(
            content: .reported(
                ReportedPurchase(
                    product: product, transaction: transaction, date: date, quantity: quantity, expires: expires,
                    store: store, environment: environment)))
    }

    /// A purchase was asked for and waits for somebody's approval ("Ask to Buy"). Pending until a purchase of the
    /// product is recorded, or the request is ``withdrawn(_:)``. Kept on this device.
    public static func deferred(_ product: ProductID) -> Evidence { Evidence(content: .deferred(product)) }

    /// A request was declined or taken back.
    public static func withdrawn(_ product: ProductID) -> Evidence { Evidence(content: .withdrawn(product)) }
}

/// What an app reports of a purchase.
struct ReportedPurchase: Sendable {
    var product: ProductID
    var transaction: TransactionID?
    var date: Timestamp?
    var quantity: Int64
    var expires: Timestamp?
    var store: StoreID
    var environment: EnvironmentID?
}

/// What recording did.
public struct RecordingReceipt: Hashable, Sendable {
    /// The transactions, in the order of the evidence; none for a deferred or withdrawn request.
    public var transactions: [TransactionReference]
    /// The facts that were new to this store. Recording the same purchase again adds nothing.
    public var newFacts: [Fact]
}
