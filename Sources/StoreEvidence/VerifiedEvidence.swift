#if Evidence
public import Entitlements

/// The kinds of evidence, named as in requests and on the command line.
public enum EvidenceKind: String, Hashable, Sendable, CaseIterable {
    /// A transaction of StoreKit 2, a JSON web signature (JWS) by Apple.
    case appStoreTransaction = "app-store-transaction"
    /// A renewal info of StoreKit 2, a JWS by Apple.
    case appStoreRenewal = "app-store-renewal"
    /// A server notification of the App Store, version 2, a JWS by Apple.
    case appStoreNotification = "app-store-notification"
    /// An app receipt, a PKCS#7 container signed by Apple.
    case appStoreReceipt = "app-store-receipt"
    /// The JSON answer of Apple's `verifyReceipt` endpoint. Unsigned, for imports only.
    case verifyReceipt = "verify-receipt"
    /// The purchase data of Google Play with its signature by the app's key.
    case googlePlay = "google-play"
    /// A real-time developer notification of Google Play. Unsigned; its sender is authenticated by a token.
    case googlePlayNotification = "google-play-notification"
    /// The JSON answer of Google Play's `purchases.subscriptionsv2`. Unsigned.
    case googlePlaySubscription = "google-play-subscription"
    /// The JSON answer of Google Play's `purchases.productsv2`. Unsigned.
    case googlePlayProduct = "google-play-product"
    /// An event of a Stripe webhook, signed with the endpoint's secret.
    case stripe = "stripe"
    /// A statement of support in the server's name, which no store has signed.
    case support = "support"
}

/// The facts that a piece of evidence proves.
public struct VerifiedEvidence: Hashable, Sendable {
    /// The kind of the evidence.
    public var kind: EvidenceKind
    /// Purchases (without terms), revocations, reinstatements and renewal states.
    ///
    /// The stamp of each fact has the date of its own signature, or none if the evidence is unsigned. Its logical time
    /// is derived from that date, so that the same statement always gives the same record.
    public var facts: [Fact]
    /// The date of the signature of the evidence as a whole; `nil` if it is unsigned.
    public var signedDate: Timestamp?
    /// The account token that the buyer's app passed to the store (`appAccountToken`, `obfuscatedAccountId`,
    /// `client_reference_id`), in lower case; `nil` if there is none.
    public var accountToken: String?
    /// The line that the evidence concerns, if it states one without a fact: a Stripe Checkout of a subscription names
    /// the owner before the first invoice is paid.
    package var line: TransactionReference?
    /// Other names of transactions, learned from the evidence. A Stripe PaymentIntent stands for its invoice, and an
    /// order of Google Play for all its products. A revocation of the key is a revocation of all
    /// its values.
    package var aliases: [TransactionReference: Set<TransactionReference>]
    /// The subscription that the one in the evidence replaces; `nil` if there is none.
    package var replaced: ReplacedSubscription?
    /// The subscription that the evidence concerns: its purchase token at Google Play, or its line at Stripe. `nil` if
    /// the ends of its purchases do not depend on other statements.
    package var subscription: TransactionReference?
    /// The end of all purchases of ``subscription`` but the current ones; `nil` if the evidence states none.
    package var ending: SubscriptionEnding?
    /// The purchase at Google Play that a device has sent; `nil` for other evidence.
    package var playPurchase: PlayPurchase?
    /// The purchase that the server must acknowledge once it is recorded; `nil` if there is none.
    package var unacknowledged: UnacknowledgedPurchase?
    /// The reason why an authentic event is about no known product, with the remedy; empty for other evidence.
    package var unknownProduct = ""
    /// The type of a notification or event, for example `DID_RENEW/BILLING_RECOVERY`; empty for other evidence.
    package var event: String
    /// The store's id of a notification or event; empty for other evidence.
    package var eventID: String
    /// The parts of unsigned evidence that were left out, and what an event of Stripe does not say, one line each.
    package var warnings: [String] = []

    /// Creates a result.
    package init(
        kind: EvidenceKind, facts: [Fact], signedDate: Timestamp?, accountToken: String? = nil,
        line: TransactionReference? = nil, aliases: [TransactionReference: Set<TransactionReference>] = [:],
        event: String = "", eventID: String = ""
    ) {
        self.kind = kind
        self.facts = facts
        self.signedDate = signedDate
        self.accountToken = accountToken
        self.line = line
        self.aliases = aliases
        self.event = event
        self.eventID = eventID
    }
}

/// A subscription at Google Play that another one replaces after a change of product or a new subscription.
///
/// It belongs to the owner of the new subscription, and its purchases must not grant anything after the replacement.
package struct ReplacedSubscription: Hashable, Sendable {
    /// The purchase token, an alias of all purchases of the subscription.
    package var name: TransactionReference
    /// The start of the new subscription, at which the old one ends; `nil` if the old one first runs to the end of its
    /// period.
    package var endedAt: Timestamp?
}

/// A statement about all purchases of a subscription: those that are not current grant nothing after an end.
package struct SubscriptionEnding: Hashable, Sendable {
    /// The purchases that are not affected.
    package var current: Set<TransactionReference>
    /// The latest end of all other purchases.
    package var endedAt: Timestamp
    /// The date of the statement. Of statements that name different current purchases, the latest counts. Of those
    /// that name the same, the first.
    package var statedAt: Timestamp

    /// Creates a statement.
    package init(current: Set<TransactionReference> = [], endedAt: Timestamp, statedAt: Timestamp) {
        (self.current, self.endedAt, self.statedAt) = (current, endedAt, statedAt)
    }
}

/// A purchase at Google Play by which its state can be looked up.
package struct PlayPurchase: Hashable, Sendable {
    /// The package of the app.
    package var packageName: String
    /// The token of the purchase.
    package var purchaseToken: String
    /// True if the purchase was acknowledged when Google Play signed it.
    package var isAcknowledged: Bool
}

/// A purchase at Google Play that is not acknowledged. Google refunds it after three days.
package struct UnacknowledgedPurchase: Hashable, Sendable {
    /// False for a one-time product.
    package var isSubscription: Bool
    /// A product of the purchase.
    package var product: ProductID
    /// The token of the purchase.
    package var purchaseToken: String
    /// The package of the app. The answers of Google do not state it, so the caller adds it.
    package var packageName = ""
}
#endif
