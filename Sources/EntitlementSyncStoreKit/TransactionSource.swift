public import Entitlements

/// The App Store on this device. `StoreKitSource` reads them from StoreKit; tests use a fake.
public protocol TransactionSource: Sendable {
    /// Reads the offers of products. A product that the App Store does not offer is missing from the answer, for
    /// example because its ID is wrong, or because Apple has not approved it.
    ///
    /// - Throws: The error of StoreKit, for example because there is no network.
    func offers(of products: [ProductID]) async throws -> [StoreKitOffer]

    /// Asks the user to buy a product.
    ///
    /// - Parameters:
    ///   - product: The product.
    ///   - accountToken: The UUID by which the server knows the account; `nil` for none. Apple signs it with the
    ///     purchase.
    /// - Throws: ``StoreKitFeedError/notOffered(_:)``, or the error of StoreKit.
    func purchase(_ product: ProductID, accountToken: String?) async throws -> StoreKitFeed.Outcome

    /// The environment in which the app runs: `sandbox` in TestFlight and in Apple's review, too. `nil` if the App
    /// Store does not report it, for example at the first start without a network.
    func environment() async -> EnvironmentID?

    /// The renewal states of the user's current subscriptions.
    func renewals() async -> [StoreKitRenewal]

    /// Passes on renewal states that change from now on. Returns when its task is cancelled.
    func renewalUpdates(_ receive: @Sendable (StoreKitRenewal) async -> Void) async

    /// Passes on transactions that change from now on: purchases that were approved later or made on other devices,
    /// renewals, refunds. Returns when its task is cancelled.
    func updates(_ receive: @Sendable (StoreKitTransaction) async -> Void) async

    /// The transactions that the app has not finished yet.
    func unfinished() async -> [StoreKitTransaction]

    /// The user's history: all transactions that StoreKit keeps. It may lack consumables.
    func history() async -> [StoreKitTransaction]

    /// Informs StoreKit that the app has delivered what was bought. Repeating it has no effect.
    func finish(_ transaction: StoreKitTransaction) async

    /// Asks the App Store for the user's transactions, after the user has asked to restore purchases. The user may have
    /// to sign in.
    ///
    /// - Throws: The error of StoreKit, for example because the user cancelled.
    func refresh() async throws
}

/// A product as the App Store offers it to the user.
public struct StoreKitOffer: Hashable, Sendable, Identifiable {
    /// The product's ID.
    public var id: ProductID
    /// The type of the product in App Store Connect.
    public var type: StoreKitTransaction.ProductType
    /// The name in the user's language.
    public var name: String
    /// The price with its currency, as the user reads it.
    public var price: String

    /// Creates an offer.
    public init(id: ProductID, type: StoreKitTransaction.ProductType, name: String, price: String) {
        (self.id, self.type, self.name, self.price) = (id, type, name, price)
    }
}
