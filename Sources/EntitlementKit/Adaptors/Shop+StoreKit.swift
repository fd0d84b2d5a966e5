#if canImport(StoreKit)
import EntitlementSyncStoreKit
import Entitlements
public import StoreKit

extension Shop {
    /// Records the result of a purchase that was not made with ``buy(_:)``, for example in a view of StoreKit:
    ///
    /// ```swift
    /// StoreView(ids: ids)
    ///     .inAppPurchaseOptions { _ in await shop.purchaseOptions() }
    ///     .onInAppPurchaseCompletion { product, result in
    ///         if case .success(let result) = result { try? await shop.take(result, of: product) }
    ///     }
    /// ```
    ///
    /// An error may be ignored here: the transaction is not finished then, and ``run()`` records it.
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
    public func purchaseOptions() async -> Set<StoreKit.Product.PurchaseOption> {
        guard let token = await tokenForPurchase() else { return [] }
        return [.appAccountToken(token)]
    }
}
#endif
