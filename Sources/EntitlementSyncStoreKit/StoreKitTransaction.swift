import EntitlementSync
public import Entitlements

/// A transaction of the App Store, as StoreKit reports it on this device.
public struct StoreKitTransaction: Hashable, Sendable, Identifiable {
    /// The types of products.
    public enum ProductType: Hashable, Sendable {
        /// Units that are used up.
        case consumable
        /// A permanent unlock.
        case nonConsumable
        /// Time that the App Store does not renew.
        case nonRenewing
        /// A subscription that the App Store renews.
        case autoRenewable
    }

    /// The transaction's ID.
    public var id: UInt64
    /// The first transaction of the subscription; the transaction itself for other products.
    public var originalID: UInt64
    /// The product's ID in the App Store.
    public var product: ProductID
    /// The type of the product.
    public var productType: ProductType
    /// The date of the purchase.
    public var purchaseDate: Timestamp
    /// The end of the period of a subscription that the App Store renews.
    public var expirationDate: Timestamp?
    /// The date of a refund, or of the end of family sharing; `nil` if the purchase is valid.
    public var revocationDate: Timestamp?
    /// The number of items, 1 to 10,000.
    public var quantity: Int64
    /// True if an introductory offer applied.
    public var isIntroductory: Bool
    /// The App Store's id of a period of a subscription, which is the same on all devices; `nil` for other products.
    public var webOrderLineItemID: String?
    /// True if an upgrade has replaced this period of a subscription.
    public var isUpgraded = false
    /// The environment: `production`, `sandbox` or `xcode`.
    public var environment: EnvironmentID
    /// The date at which Apple signed the transaction for this device.
    public var signedDate: Timestamp
    /// The signed transaction, which a server can verify.
    public var jws: String
    /// The reason why StoreKit does not accept the signature; `nil` if StoreKit has verified it.
    public var verificationFailure: String?

    /// Creates a transaction. An omitted `originalID` is that of the transaction itself.
    public init(
        id: UInt64, originalID: UInt64? = nil, product: ProductID, productType: ProductType, purchaseDate: Timestamp,
        expirationDate: Timestamp? = nil, revocationDate: Timestamp? = nil, quantity: Int64 = 1,
        isIntroductory: Bool = false, environment: EnvironmentID = .production, signedDate: Timestamp, jws: String,
        verificationFailure: String? = nil
    ) {
        (self.id, self.originalID, self.product, self.productType) = (id, originalID ?? id, product, productType)
        (self.purchaseDate, self.expirationDate) = (purchaseDate, expirationDate)
        (self.revocationDate, self.quantity, self.isIntroductory) = (revocationDate, quantity, isIntroductory)
        (self.environment, self.signedDate, self.jws) = (environment, signedDate, jws)
        self.verificationFailure = verificationFailure
    }

    /// The transaction's name in ledgers.
    package var reference: TransactionReference { TransactionReference(appStore: id, environment) }
}

extension StoreKitTransaction {
    /// The first transaction of the subscription; the transaction itself for other products.
    var line: TransactionReference { TransactionReference(appStore: originalID, environment) }

    /// The purchase, and its revocation or the absence of one.
    var facts: [Fact] {
        let stamp = Stamp.signed(at: signedDate)
        let purchase = Purchase(
            transaction: reference, product: product, terms: nil, date: purchaseDate, quantity: quantity,
            originalID: originalID == id ? nil : TransactionID("\(originalID)"),
            storeExpiry: productType == .autoRenewable ? expirationDate : nil, isIntroductory: isIntroductory,
            lineItemID: webOrderLineItemID.flatMap { ["", "0"].contains($0) ? nil : TransactionID($0) },
            isNonConsumable: productType == .nonConsumable, stamp: stamp)
        return [
            .purchase(purchase),
            .revocation(
                Revocation(
                    transaction: reference, revokedAt: revocationDate, upgradedAt: isUpgraded ? signedDate : nil,
                    stamp: stamp)),
        ]
    }

    /// The evidence to record. It is kept for the server, which verifies the signature again.
    var evidence: [Evidence] {
        // The signatures of Xcode prove nothing to a server.
        guard environment != .xcode else { return statements }
        let data = JSON.object([("kind", .string("app-store-transaction")), ("jws", .string(jws))]).text()
        return [
            .verified(
                VerifiedStatement(
                    kind: "app-store-transaction", subject: "\(environment)/\(id)", data: Array(data.utf8),
                    facts: facts, signedDate: signedDate))
        ]
    }

    /// The same statements without the signed text, which no server would accept.
    private var statements: [Evidence] {
        let purchase = Evidence.reported(
            product, transaction: reference.id, date: purchaseDate, quantity: quantity,
            expires: productType == .autoRenewable ? expirationDate : nil,
            original: originalID == id ? nil : TransactionID("\(originalID)"), isIntroductory: isIntroductory,
            store: .appStore, environment: environment, signedAt: signedDate)
        guard let revocationDate else { return [purchase] }
        return [purchase, .refunded(reference, at: revocationDate, signedAt: signedDate)]
    }
}

extension TransactionReference {
    /// The transaction of the App Store with the number `id`.
    init(appStore id: UInt64, _ environment: EnvironmentID) {
        self.init(store: .appStore, environment: environment, id: TransactionID("\(id)"))
    }
}
