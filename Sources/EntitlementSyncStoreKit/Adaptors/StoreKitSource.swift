#if canImport(StoreKit)
public import Entitlements
import Foundation
public import StoreKit

/// The transactions of StoreKit 2.
public struct StoreKitSource: TransactionSource {
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
        let token = accountToken.flatMap(UUID.init(uuidString:))
        return StoreKitFeed.Outcome(try await offer.purchase(options: Set(token.map { [.appAccountToken($0)] } ?? [])))
        #endif
    }

    /// Listens to `Transaction.updates`.
    public func updates(_ receive: @Sendable (StoreKitTransaction) async -> Void) async {
        for await result in StoreKit.Transaction.updates { await receive(StoreKitTransaction(result)) }
    }

    /// Reads `Transaction.unfinished`.
    public func unfinished() async -> [StoreKitTransaction] {
        await StoreKit.Transaction.unfinished.reduce(into: []) { $0.append(StoreKitTransaction($1)) }
    }

    /// Reads `Transaction.all`.
    public func history() async -> [StoreKitTransaction] {
        await StoreKit.Transaction.all.reduce(into: []) { $0.append(StoreKitTransaction($1)) }
    }

    /// Finishes the transaction, if StoreKit still lists it as unfinished.
    public func finish(_ transaction: StoreKitTransaction) async {
        for await result in StoreKit.Transaction.unfinished {
            let candidate = result.unsafePayloadValue
            if candidate.id == transaction.id { await candidate.finish() }
        }
    }

    /// Calls `AppStore.sync()`.
    public func refresh() async throws { try await AppStore.sync() }
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
        var failure: String?
        if case .unverified(_, let error) = result { failure = "\(error)" }
        self.init(
            id: transaction.id, originalID: transaction.originalID, product: ProductID(transaction.productID),
            productType: ProductType(transaction.productType), purchaseDate: Timestamp(transaction.purchaseDate),
            expirationDate: transaction.expirationDate.map { Timestamp($0) },
            revocationDate: transaction.revocationDate.map { Timestamp($0) },
            quantity: Int64(transaction.purchasedQuantity),
            isIntroductory: transaction.offer?.type == .introductory,
            environment: EnvironmentID(transaction.environment.rawValue.lowercased()),
            signedDate: Timestamp(transaction.signedDate), jws: result.jwsRepresentation, verificationFailure: failure)
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

extension Timestamp {
    /// Rounds to milliseconds, the precision of signed transactions.
    init(_ date: Date) { self.init(milliseconds: Int64((date.timeIntervalSince1970 * 1_000).rounded())) }
}
#endif
