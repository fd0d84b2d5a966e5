#if canImport(StoreKit)
public import Entitlements
import Foundation
public import StoreKit
import Synchronization

/// The App Store on this device, by StoreKit 2.
public final class StoreKitSource: TransactionSource {
    /// The transactions that StoreKit has delivered and the app has not finished.
    private let delivered = Mutex<[UInt64: StoreKit.Transaction]>([:])

    /// Creates a source.
    public init() {}

    /// Calls `Product.products(for:)`.
    public func offers(of products: [ProductID]) async throws -> [StoreKitOffer] {
        try await StoreKit.Product.products(for: products.map(\.rawValue)).map { product in
            StoreKitOffer(
                id: ProductID(product.id), type: StoreKitTransaction.ProductType(product.type),
                name: product.displayName, price: product.displayPrice)
        }
    }

    /// Calls `Product.purchase(options:)` with the option `appAccountToken`.
    ///
    /// visionOS needs a scene for the purchase sheet. Buy there with SwiftUI's `purchase` action, and pass the result
    /// to ``StoreKitFeed/take(_:of:)``.
    public func purchase(_ product: ProductID, accountToken: String?) async throws -> StoreKitFeed.Outcome {
        #if os(visionOS)
        throw StoreKitFeedError.appStore(NeedsScene())
        #else
        guard let offer = try await StoreKit.Product.products(for: [product.rawValue]).first else {
            throw StoreKitFeedError.notOffered(product)
        }
        var options: Set<StoreKit.Product.PurchaseOption> = []
        if let token = accountToken.flatMap(UUID.init(uuidString:)) { options.insert(.appAccountToken(token)) }
        let result: StoreKit.Product.PurchaseResult
        do { result = try await offer.purchase(options: options) } catch StoreKitError.userCancelled {
            return .cancelled
        }
        if case .success(let result) = result { remember(result) }
        return StoreKitFeed.Outcome(result)
        #endif
    }

    /// Reads `AppTransaction.shared`.
    public func environment() async -> EnvironmentID? {
        do {
            return EnvironmentID(try await AppTransaction.shared.unsafePayloadValue.environment.rawValue.lowercased())
        } catch {
            // The App Store is not reachable, or no user is signed in to it.
            return nil
        }
    }

    /// Listens to `Transaction.updates`.
    public func updates(_ receive: @Sendable (StoreKitTransaction) async -> Void) async {
        for await result in StoreKit.Transaction.updates { await receive(remember(result)) }
    }

    /// Reads `Transaction.unfinished`.
    public func unfinished() async -> [StoreKitTransaction] {
        await StoreKit.Transaction.unfinished.reduce(into: []) { $0.append(remember($1)) }
    }

    /// Reads `Transaction.all`.
    public func history() async -> [StoreKitTransaction] {
        await StoreKit.Transaction.all.reduce(into: []) { $0.append(StoreKitTransaction($1)) }
    }

    /// Finishes the transaction.
    public func finish(_ transaction: StoreKitTransaction) async {
        if let value = delivered.withLock({ $0.removeValue(forKey: transaction.id) }) { return await value.finish() }
        // A view of StoreKit has made the purchase.
        for await result in StoreKit.Transaction.unfinished where result.unsafePayloadValue.id == transaction.id {
            await result.unsafePayloadValue.finish()
        }
    }

    /// Reads the status of each subscription in `Transaction.currentEntitlements`.
    public func renewals() async -> [StoreKitRenewal] {
        var renewals: [StoreKitRenewal] = []
        for await result in StoreKit.Transaction.currentEntitlements {
            guard let status = await result.unsafePayloadValue.subscriptionStatus else { continue }
            renewals.append(StoreKitRenewal(status.renewalInfo))
        }
        return renewals
    }

    /// Listens to `Product.SubscriptionInfo.Status.updates`.
    public func renewalUpdates(_ receive: @Sendable (StoreKitRenewal) async -> Void) async {
        for await status in StoreKit.Product.SubscriptionInfo.Status.updates {
            await receive(StoreKitRenewal(status.renewalInfo))
        }
    }

    /// Calls `AppStore.sync()`.
    public func refresh() async throws {
        do { try await AppStore.sync() } catch StoreKitError.userCancelled { throw CancellationError() }
    }

    @discardableResult
    private func remember(_ result: VerificationResult<StoreKit.Transaction>) -> StoreKitTransaction {
        let transaction = result.unsafePayloadValue
        delivered.withLock { $0[transaction.id] = transaction }
        return StoreKitTransaction(result)
    }
}

#if os(visionOS)
private struct NeedsScene: Error, CustomStringConvertible {
    var description: String { "on visionOS, buy with SwiftUI's purchase action, and pass the result to the feed" }
}
#endif

extension StoreKitTransaction {
    /// Reads a transaction and the result of its verification.
    public init(_ result: VerificationResult<StoreKit.Transaction>) {
        let transaction = result.unsafePayloadValue
        self.init(
            id: transaction.id, originalID: transaction.originalID, product: ProductID(transaction.productID),
            productType: ProductType(transaction.productType), purchaseDate: Timestamp(transaction.purchaseDate),
            expirationDate: transaction.expirationDate.map { Timestamp($0) },
            revocationDate: transaction.revocationDate.map { Timestamp($0) },
            quantity: Int64(transaction.purchasedQuantity),
            isIntroductory: transaction.offer?.type == .introductory,
            environment: EnvironmentID(transaction.environment.rawValue.lowercased()),
            signedDate: Timestamp(transaction.signedDate), jws: result.jwsRepresentation,
            verificationFailure: result.failure)
        webOrderLineItemID = transaction.webOrderLineItemID
        isUpgraded = transaction.isUpgraded
    }
}

extension StoreKitRenewal {
    /// Reads a renewal state and the result of its verification.
    public init(_ result: VerificationResult<StoreKit.Product.SubscriptionInfo.RenewalInfo>) {
        let info = result.unsafePayloadValue
        let next = info.autoRenewPreference
        self.init(
            originalID: info.originalTransactionID,
            environment: EnvironmentID(info.environment.rawValue.lowercased()), willRenew: info.willAutoRenew,
            graceEnd: info.gracePeriodExpirationDate.map { Timestamp($0) }, isInBillingRetry: info.isInBillingRetry,
            pendingProduct: next == info.currentProductID ? nil : next.map { ProductID($0) },
            signedDate: Timestamp(info.signedDate), verificationFailure: result.failure)
    }
}

extension VerificationResult {
    /// The reason why StoreKit does not accept the signature; `nil` if it does.
    fileprivate var failure: String? {
        if case .unverified(_, let error) = self { "\(error)" } else { nil }
    }
}

extension StoreKitTransaction.ProductType {
    init(_ type: StoreKit.Product.ProductType) {
        self =
            switch type {
            case .consumable: .consumable
            case .nonRenewable: .nonRenewing
            case .autoRenewable: .autoRenewable
            default: .nonConsumable
            }
    }
}

extension StoreKitFeed.Outcome {
    /// Reads the result of `Product.purchase(options:)`.
    public init(_ result: StoreKit.Product.PurchaseResult) {
        switch result {
        case .success(let result): self = .purchased(StoreKitTransaction(result))
        case .pending: self = .pending
        case .userCancelled: self = .cancelled
        @unknown default: self = .cancelled
        }
    }
}
#endif
