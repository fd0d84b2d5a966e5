#if canImport(StoreKit)
import EntitlementSyncStoreKit
import Entitlements
public import StoreKit

extension Shop {
    /// Records the result of a purchase that was not made with ``buy(_:)``, for example in a view of StoreKit:
    ///
    /// ```swift
    /// StoreView(ids: ids)
    ///     .inAppPurchaseOptions { _ in shop.purchaseOptions }
    ///     .onInAppPurchaseCompletion { product, result in
    ///         if case .success(let result) = result { try? await shop.take(result, of: product) }
    ///     }
    /// ```
    ///
    /// After an error the transaction is not finished, and the next ``run()`` records it.
    ///
    /// - Throws: ``ShopError``.
    public func take(
        _ result: StoreKit.Product.PurchaseResult, of product: StoreKit.Product
    ) async throws(ShopError) {
        guard let feed = try await open().feed else { return }
        do { try await feed.take(StoreKitFeed.Outcome(result), of: ProductID(product.id)) } catch {
            throw ShopError(error)
        }
    }

    /// The options for a purchase in a view of StoreKit: the account's ``appAccountToken()``, if it is known.
    public var purchaseOptions: Set<StoreKit.Product.PurchaseOption> {
        tokenForPurchase.map { [.appAccountToken($0)] } ?? []
    }
}
#endif
