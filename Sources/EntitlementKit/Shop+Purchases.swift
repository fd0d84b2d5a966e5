import EntitlementSync
import EntitlementSyncStoreKit
import Entitlements
public import Foundation
import HTTPStorage
import SyncCore

extension Shop {
    /// The result of a purchase.
    public enum Outcome: Hashable, Sendable {
        /// The purchase is complete, and saved on this device.
        case bought
        /// The purchase awaits approval ("Ask to Buy") or a payment. It is not bought yet, and counts as soon as the
        /// App Store reports it.
        case pending
        /// The user cancelled the purchase.
        case cancelled
    }

    /// Buys a product in the App Store. The purchase is durable on this device when this returns.
    ///
    /// An app that buys with StoreKit's own views passes their results to `take(_:of:)`.
    ///
    /// - Throws: ``ShopError``. Its kinds, in the order of the checks:
    ///   - `notRunning`: ``run()`` does not run, so an approval or a refund would be missed.
    ///   - `catalog`: The catalogue lacks the product, or gives it another type than the App Store.
    ///   - `logInNeeded`: The product requires an account.
    ///   - `appStore`: The App Store failed, or does not offer the product. Always on visionOS, where SwiftUI's
    ///     `purchase` action buys.
    ///   - `full` or `storage`: The purchase could not be saved. The App Store delivers it again.
    ///   - `otherEnvironment`: The purchase was saved, and grants nothing.
    public func buy(_ product: String) async throws(ShopError) -> Outcome {
        try await whileOpen { opened in
            let product = ProductID(product)
            guard let feed = opened.feed else {
                throw ShopError(.appStore, "this system has no App Store: use record(_:transaction:date:)")
            }
            guard isRunning else {
                throw ShopError(
                    .notRunning,
                    "run() does not run, so purchases that arrive later would be missed: call it in a task of "
                        + "the app's root view")
            }
            guard let known = opened.store.catalog.products.first(where: { $0.id == product }) else {
                throw ShopError(.catalog, "the catalogue has no product \(product.rawValue.singleLine): add it")
            }
            if known.requiresAccount, account == nil {
                throw ShopError(.logInNeeded, "\(product.rawValue.singleLine) requires an account: log in first")
            }
            if offers[product.rawValue] == nil { try await loadOffers() }
            if let mismatch = mismatch(of: known) { throw mismatch }
            switch try await feed.buy(product, accountToken: tokenForPurchase?.uuidString.lowercased()) {
            case .purchased(let transaction):
                guard transaction.environment == opened.store.environment else {
                    throw ShopError(
                        .otherEnvironment,
                        "the purchase is of the environment \(transaction.environment.rawValue.singleLine), and the "
                            + "shop counts \(opened.store.environment.rawValue): "
                            + (settings.environment == nil ? "restart the app" : "pass no environment to the shop"))
                }
                return .bought
            case .pending: return .pending
            case .cancelled: return .cancelled
            }
        }
    }

    /// Restores purchases after the user has asked for it: from the App Store, and from the server.
    ///
    /// - Returns: The number of purchases that this device did not have.
    /// - Throws: ``ShopError``.
    @discardableResult
    public func restore() async throws(ShopError) -> Int {
        try await whileOpen { opened in
            let known = try await opened.store.facts().purchases.count
            if let feed = opened.feed {
                try await feed.restore()
            } else {
                try await opened.store.restore()
            }
            await opened.model.refresh()
            return try await opened.store.facts().purchases.count - known
        }
    }

    /// Records a purchase that was not made through StoreKit, for example one that the app's own server has confirmed.
    ///
    /// - Parameters:
    ///   - product: A product of the catalogue.
    ///   - transaction: The seller's ID of the purchase, which ensures that it counts once.
    ///   - date: The date of the purchase; by default now.
    /// - Throws: ``ShopError``.
    public func record(
        _ product: String, transaction: String, date: Date? = nil
    ) async throws(ShopError) {
        try await whileOpen { opened in
            try await opened.store.record(
                .reported(ProductID(product), transaction: TransactionID(transaction), date: date.map { Timestamp($0) })
            )
            await opened.model.refresh()
        }
    }

    /// Returns the new end of the group if a non-renewing subscription were bought now. It is in the year 9999 if the
    /// group would never end.
    ///
    /// - Throws: ``ShopError``.
    public func end(afterBuying product: String) async throws(ShopError) -> Date {
        try await whileOpen { Date(try await $0.store.preview(buying: ProductID(product))) }
    }

    /// The `appAccountToken` of the account: the UUID by which the server recognizes it in Apple's notifications.
    /// ``buy(_:)`` passes it to the App Store. An app that buys with StoreKit's own views sets it there.
    ///
    /// - Returns: `nil` if no account is logged in, and the shop does not sync before a log-in.
    /// - Throws: ``ShopError``.
    public func appAccountToken() async throws(ShopError) -> UUID? {
        try await whileOpen { opened in
            let account = opened.store.account
            guard !account.isAnonymous, opened.client != nil else { return nil }
            if let accountToken, accountToken.account == account { return accountToken.token }
            let (client, tokens) = try opened.accounts()
            let text = try await client.accountToken(token: tokens.token(refused:))
            guard let token = UUID(uuidString: text) else {
                throw ShopError(.noServer, "the server named the account by \(text.singleLine), which is not a UUID")
            }
            // Another account may have logged in meanwhile.
            guard account == opened.store.account else { return nil }
            accountToken = (account, token)
            return token
        }
    }

    /// The token for a purchase, if it is known. The purchase does not depend on it: this device sends the transaction
    /// to the server.
    var tokenForPurchase: UUID? {
        guard let accountToken, accountToken.account == opened?.store.account else { return nil }
        return accountToken.token
    }
}
