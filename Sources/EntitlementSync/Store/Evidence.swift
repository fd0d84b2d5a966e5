public import Entitlements

/// Why an app believes that something was bought. Hand it to ``EntitlementStore/record(_:)-(Evidence)``.
///
/// What a store signed is stronger than what an app reports; more kinds come without changing the call.
public struct Evidence: Sendable {
    enum Content: Sendable {
        case reported(ReportedPurchase)
        case deferred(ProductID)
        case withdrawn(ProductID)
        case revocation(TransactionReference, at: Timestamp?, isReinstated: Bool, reason: String, signedAt: Timestamp?)
        case renewalState(RenewalState)
        case assertion(AssertedExpiry)
    }

    let content: Content

    /// Somebody's word that something was bought: the app's own, or a store's that the caller has verified.
    ///
    /// - Parameters:
    ///   - product: a product of the catalogue. What a store sold may be unknown to it; the purchase is kept then, and
    ///     counts once a catalogue knows the product.
    ///   - transaction: the store's id, so that the same purchase seen by two devices counts once; a new random one
    ///     when there is none.
    ///   - date: when it was bought; now when not given.
    ///   - quantity: how many, 1 to 10,000.
    ///   - expires: the end that the store gave, for a subscription that it renews.
    ///   - original: the first transaction of the subscription that this one renews; itself when not given.
    ///   - isIntroductory: whether it was sold at the introductory offer.
    ///   - store: where the transaction id is from.
    ///   - environment: where it was sold; that of the ``EntitlementStore`` when not given.
    ///   - signedAt: the date of the store's signature, when the caller has verified one. What is signed is stronger
    ///     than what is not, and a later signature than an earlier.
    public static func reported(
        _ product: ProductID, transaction: TransactionID? = nil, date: Timestamp? = nil, quantity: Int64 = 1,
        expires: Timestamp? = nil, original: TransactionID? = nil, isIntroductory: Bool = false,
        store: StoreID = .reported, environment: EnvironmentID? = nil, signedAt: Timestamp? = nil
    ) -> Evidence {
        Evidence(
            content: .reported(
                ReportedPurchase(
                    product: product, transaction: transaction, date: date, quantity: quantity, expires: expires,
                    original: original, isIntroductory: isIntroductory, store: store, environment: environment,
                    signedAt: signedAt)))
    }

    /// A purchase was taken back. The purchase need not be known yet.
    ///
    /// - Parameters:
    ///   - transaction: the purchase.
    ///   - date: from when on it counts nothing; now when not given.
    ///   - reason: in the store's words, at most 1,000 bytes.
    ///   - signedAt: the date of the store's signature, when the caller has verified one.
    public static func refunded(
        _ transaction: TransactionReference, at date: Timestamp? = nil, reason: String = "", signedAt: Timestamp? = nil
    ) -> Evidence {
        Evidence(
            content: .revocation(
                transaction, at: date, isReinstated: false, reason: reason, signedAt: signedAt))
    }

    /// A refund was reversed: the purchase counts again, as if it had never been taken back.
    ///
    /// - Parameters:
    ///   - transaction: the purchase.
    ///   - reason: in the store's words, at most 1,000 bytes.
    ///   - signedAt: the date of the store's signature, when the caller has verified one.
    public static func reinstated(
        _ transaction: TransactionReference, reason: String = "", signedAt: Timestamp? = nil
    ) -> Evidence {
        Evidence(
            content: .revocation(transaction, at: nil, isReinstated: true, reason: reason, signedAt: signedAt))
    }

    /// A store says how a subscription that it renews goes on. Replaces what it said before.
    ///
    /// - Parameters:
    ///   - line: the subscription's first transaction.
    ///   - willRenew: whether the store will renew it.
    ///   - graceEnd: until when access goes on although a payment failed.
    ///   - isInBillingRetry: whether a payment failed and the store keeps trying.
    ///   - pendingProduct: what it renews as, when that is another product.
    ///   - signedAt: the date of the store's signature, when the caller has verified one.
    public static func renewal(
        of line: TransactionReference, willRenew: Bool, graceEnd: Timestamp? = nil, isInBillingRetry: Bool = false,
        pendingProduct: ProductID? = nil, signedAt: Timestamp? = nil
    ) -> Evidence {
        Evidence(
            content: .renewalState(
                RenewalState(
                    line: line, willRenew: willRenew, graceEnd: graceEnd, isInBillingRetry: isInBillingRetry,
                    pendingProduct: pendingProduct, stamp: Stamp(signedDate: signedAt, logicalTime: .zero))))
    }

    /// A system that keeps no purchases says until when a group is paid: the expiry of an app that did it the
    /// tutorials' way, or a promotion. Adds the time from the end so far to `until`, never more.
    ///
    /// - Parameters:
    ///   - group: a group of the catalogue.
    ///   - until: the date.
    ///   - source: names the system: `parse`, `userdefaults`, `promotion`, …
    ///   - assertedAt: as of when the source says so; now when not given. When the ledger holds a later purchase, the
    ///     date of that purchase is taken instead, so that the echo of an expiry of our own adds nothing.
    ///   - environment: where it counts; that of the ``EntitlementStore`` when not given.
    public static func asserted(
        _ group: GroupID, until: Timestamp, source: SourceID, assertedAt: Timestamp? = nil,
        environment: EnvironmentID? = nil
    ) -> Evidence {
        Evidence(
            content: .assertion(
                AssertedExpiry(
                    group: group, until: until, source: source, assertedAt: assertedAt, environment: environment)))
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
    var original: TransactionID?
    var isIntroductory: Bool
    var store: StoreID
    var environment: EnvironmentID?
    var signedAt: Timestamp?
}

/// A bare date that another system keeps.
struct AssertedExpiry: Sendable {
    var group: GroupID
    var until: Timestamp
    var source: SourceID
    var assertedAt: Timestamp?
    var environment: EnvironmentID?
}

/// What recording did.
public struct RecordingReceipt: Hashable, Sendable {
    /// The transactions, in the order of the evidence, those of purchases only.
    public var transactions: [TransactionReference]
    /// The facts that were new to this store. Recording the same purchase again adds nothing.
    public var newFacts: [Fact]
}
