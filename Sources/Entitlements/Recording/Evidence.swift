/// A statement that something was bought, refunded, renewed or granted.
///
/// Pass it to `EntitlementStore.record`. Evidence signed by a store takes precedence over what an app
/// reports. More kinds of evidence may be added.
public struct Evidence: Sendable {
    package enum Content: Sendable {
        case reported(ReportedPurchase)
        case deferred(ProductID)
        case withdrawn(ProductID)
        case revocation(TransactionReference, at: Timestamp?, isReinstated: Bool, reason: String, signedAt: Timestamp?)
        case renewalState(RenewalState)
        case assertion(AssertedExpiry)
        case flag(ProductID, isSet: Bool)
        case verified(VerifiedStatement)
    }

    package let content: Content

    /// True for a statement that can grant or prolong access, false for one that takes away or only waits.
    package var mayGrant: Bool {
        switch content {
        case .reported, .renewalState, .assertion, .verified: true
        case .revocation(_, _, let isReinstated, _, _): isReinstated
        case .flag(_, let isSet): isSet
        case .deferred, .withdrawn: false
        }
    }

    /// A purchase, reported by the app or verified by the caller with the store that sold it.
    ///
    /// - Parameters:
    ///   - product: A product of the catalogue. A product sold by a store may be unknown to this catalogue; the
    ///     purchase is then kept, and counts as soon as a catalogue contains the product.
    ///   - transaction: The store's transaction id. It ensures that a purchase seen by two devices counts once. The
    ///     default is a new random id.
    ///   - date: The date of the purchase. The default is the time of recording.
    ///   - quantity: The number of items, 1 to 10,000.
    ///   - expires: The end of the period as given by the store, for a subscription that the store renews.
    ///   - original: The first transaction of the subscription that this one renews. The default is this transaction
    ///     itself.
    ///   - isIntroductory: `true` if the introductory offer applied.
    ///   - store: The store that issued the transaction id.
    ///   - environment: The environment of the purchase. The default is that of the `EntitlementStore`.
    ///   - signedAt: The date of the store's signature, if the caller has verified one. Signed evidence takes
    ///     precedence over unsigned evidence, and a later signature over an earlier one.
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

    /// A revocation of a purchase. The purchase need not be known yet.
    ///
    /// - Parameters:
    ///   - transaction: The revoked purchase.
    ///   - date: The date from which the purchase no longer counts. The default is the time of recording.
    ///   - reason: The reason in the store's words, at most 1,000 bytes.
    ///   - signedAt: The date of the store's signature, if the caller has verified one.
    public static func refunded(
        _ transaction: TransactionReference, at date: Timestamp? = nil, reason: String = "", signedAt: Timestamp? = nil
    ) -> Evidence {
        Evidence(
            content: .revocation(
                transaction, at: date, isReinstated: false, reason: reason, signedAt: signedAt))
    }

    /// The reversal of a refund: the purchase counts again, as if it had never been revoked.
    ///
    /// - Parameters:
    ///   - transaction: The reinstated purchase.
    ///   - reason: The reason in the store's words, at most 1,000 bytes.
    ///   - signedAt: The date of the store's signature, if the caller has verified one.
    public static func reinstated(
        _ transaction: TransactionReference, reason: String = "", signedAt: Timestamp? = nil
    ) -> Evidence {
        Evidence(
            content: .revocation(transaction, at: nil, isReinstated: true, reason: reason, signedAt: signedAt))
    }

    /// The renewal state of a subscription that its store renews. Replaces the previous state.
    ///
    /// - Parameters:
    ///   - line: The first transaction of the subscription.
    ///   - willRenew: `true` if the store will renew the subscription.
    ///   - graceEnd: The end of the grace period, during which access continues although a payment failed.
    ///   - isInBillingRetry: `true` if a payment failed and the store keeps retrying it.
    ///   - pendingProduct: The product to which the subscription renews, if it is a different one.
    ///   - signedAt: The date of the store's signature, if the caller has verified one.
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

    /// An expiry date from a system that keeps no purchases, such as the stored date of an earlier app version, or a
    /// promotion.
    ///
    /// It adds the time from the end of the group so far to `until`, never more.
    ///
    /// - Parameters:
    ///   - group: A group of the catalogue.
    ///   - until: The expiry date.
    ///   - source: The name of the system: `parse`, `userdefaults`, `promotion`, …
    ///   - assertedAt: The date of the source's statement. The default is the time of recording. If the ledger holds a
    ///     later purchase, the date of that purchase is used instead, so that an expiry derived from this ledger adds
    ///     nothing when it is imported again.
    ///   - environment: The environment in which the date counts. The default is that of the `EntitlementStore`.
    public static func asserted(
        _ group: GroupID, until: Timestamp, source: SourceID, assertedAt: Timestamp? = nil,
        environment: EnvironmentID? = nil
    ) -> Evidence {
        Evidence(
            content: .assertion(
                AssertedExpiry(
                    group: group, until: until, source: source, assertedAt: assertedAt, environment: environment)))
    }

    /// The ownership flag of a non-consumable, without a transaction.
    package static func flag(_ product: ProductID, isSet: Bool) -> Evidence {
        Evidence(content: .flag(product, isSet: isSet))
    }

    /// A purchase that awaits approval ("Ask to Buy").
    ///
    /// It is pending until a purchase of the product is recorded or the request is ``withdrawn(_:)``. Pending purchases
    /// stay on this device.
    public static func deferred(_ product: ProductID) -> Evidence { Evidence(content: .deferred(product)) }

    /// A request for approval that was declined or cancelled.
    public static func withdrawn(_ product: ProductID) -> Evidence { Evidence(content: .withdrawn(product)) }
}

/// The parameters of reported evidence of a purchase.
package struct ReportedPurchase: Sendable {
    package var product: ProductID
    package var transaction: TransactionID?
    package var date: Timestamp?
    package var quantity: Int64
    package var expires: Timestamp?
    package var original: TransactionID?
    package var isIntroductory: Bool
    package var store: StoreID
    package var environment: EnvironmentID?
    package var signedAt: Timestamp?
}

/// The parameters of an expiry date that another system keeps.
package struct AssertedExpiry: Sendable {
    package var group: GroupID
    package var until: Timestamp
    package var source: SourceID
    package var assertedAt: Timestamp?
    package var environment: EnvironmentID?
}
