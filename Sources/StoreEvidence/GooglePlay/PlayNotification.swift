#if Evidence
package import Entitlements

/// A real-time developer notification of Google Play.
///
/// Only a full refund is a fact by itself. Most other notifications name a purchase whose state the caller looks up in
/// the Google Play Developer API.
package struct PlayNotification: Hashable, Sendable {
    /// The subject of a notification.
    package enum Subject: String, Hashable, Sendable, CaseIterable {
        /// A subscription changed: look up `purchases.subscriptionsv2`.
        case subscription
        /// A one-time product was bought or a pending purchase was cancelled: look up `purchases.productsv2`.
        case oneTimeProduct = "one-time-product"
        /// A purchase was refunded.
        case voidedPurchase = "voided-purchase"
        /// A test message of the Play Console. Nothing is to be done.
        case test
        /// A subject that this version does not know. Nothing is to be done.
        case other
    }

    /// The facts: one revocation after a full refund, otherwise none.
    ///
    /// The revocation names the order, or the purchase token if there is none, in `production`. The purchases of the
    /// order state this name among their ``VerifiedEvidence/aliases``, whatever their environment and products are.
    package var evidence: VerifiedEvidence
    /// The subject of the notification.
    package var subject: Subject
    /// The package of the app.
    package var packageName: String
    /// The token of the purchase to look up; `nil` for a test and for an unknown subject.
    package var purchaseToken: String?
    /// The product; `nil` if the notification does not name it.
    package var product: ProductID?
    /// The number that Google gives to the event, for example 2 for a renewal of a subscription.
    package var type: Int64?
    /// The date of the event.
    package var date: Timestamp
    /// True if a refund is about a subscription, and not about a one-time product.
    var refundsSubscription = false

    /// The kind of purchase to look up; `nil` if the notification is complete.
    package var lookup: Subject? {
        switch subject {
        case .subscription, .oneTimeProduct: subject
        // The refund of a part does not say which part.
        case .voidedPurchase where evidence.facts.isEmpty: refundsSubscription ? .subscription : .oneTimeProduct
        case .voidedPurchase, .test, .other: nil
        }
    }
}

extension GooglePlayVerifier {
    private static let subscriptionEvents: [Int64: String] = [
        1: "RECOVERED", 2: "RENEWED", 3: "CANCELED", 4: "PURCHASED", 5: "ON_HOLD", 6: "IN_GRACE_PERIOD",
        7: "RESTARTED", 8: "PRICE_CHANGE_CONFIRMED", 9: "DEFERRED", 10: "PAUSED", 11: "PAUSE_SCHEDULE_CHANGED",
        12: "REVOKED", 13: "EXPIRED", 17: "ITEMS_CHANGED", 18: "CANCELLATION_SCHEDULED", 19: "PRICE_CHANGE_UPDATED",
        20: "PENDING_PURCHASE_CANCELED", 22: "PRICE_STEP_UP_CONSENT_UPDATED",
    ]

    /// Decodes the body of a Pub/Sub push message with a real-time developer notification.
    ///
    /// The message is not signed. The caller must have authenticated its sender by the bearer token of the request.
    ///
    /// - Throws: ``EvidenceError`` that names the failed check. An unknown subject is no error.
    package func notification(_ body: [UInt8], now: Timestamp) throws(EvidenceError) -> PlayNotification {
        try checkSize(body.count, limit: EvidenceLimits.notification, "the notification")
        let envelope = try StoreObject(parsing: body)
        guard let message = try envelope.object("message") else { throw envelope.missing("message") }
        guard let data = Base64.standard.decode(try message.required("data").utf8) else {
            throw EvidenceError(.format, "message.data is not base64")
        }
        let object = try StoreObject(parsing: data)
        try checkPackage(object)
        guard let date = try object.date("eventTimeMillis", unit: 1) else { throw object.missing("eventTimeMillis") }
        try checkNotAhead(date, of: now, "eventTimeMillis")
        let evidence = VerifiedEvidence(
            kind: .googlePlayNotification, facts: [], signedDate: date,
            eventID: try message.string("messageId") ?? "")
        var notification = PlayNotification(
            evidence: evidence, subject: .other, packageName: try object.required("packageName"), date: date)
        if let details = try object.object("subscriptionNotification") {
            try notification.read(details, subject: .subscription, product: "subscriptionId")
            notification.name("SUBSCRIPTION", Self.subscriptionEvents)
        } else if let details = try object.object("oneTimeProductNotification") {
            try notification.read(details, subject: .oneTimeProduct, product: "sku")
            notification.name("ONE_TIME_PRODUCT", [1: "PURCHASED", 2: "CANCELED"])
        } else if let details = try object.object("voidedPurchaseNotification") {
            try notification.readVoided(details)
        } else if try object.object("testNotification") != nil {
            notification.subject = .test
            notification.evidence.event = "TEST"
        }
        return notification
    }
}

extension VerifiedEvidence {
    /// Returns the evidence of an entry in Google Play's list of voided purchases: a refund of the whole order.
    ///
    /// The list is not signed. The caller must have read it from Google.
    ///
    /// - Parameters:
    ///   - order: The order ID; `nil` if the entry has none.
    ///   - purchaseToken: The token of the purchase.
    ///   - voidedAt: The date of the refund.
    ///   - now: The current time.
    /// - Throws: ``EvidenceError`` that names the failed check.
    package static func playRefund(
        order: String?, purchaseToken: String, voidedAt: Timestamp, now: Timestamp
    ) throws(EvidenceError) -> VerifiedEvidence {
        try checkNotAhead(voidedAt, of: now, "voidedTimeMillis")
        let identity = PlayIdentity(order: order, purchaseToken: purchaseToken)
        return VerifiedEvidence(
            kind: .googlePlayNotification, facts: [try identity.refund(at: voidedAt)], signedDate: voidedAt,
            event: "VOIDED_PURCHASE")
    }
}

extension PlayIdentity {
    /// The refund of the order, by its name.
    fileprivate func refund(at date: Timestamp) throws(EvidenceError) -> Fact {
        .revocation(
            Revocation(transaction: try name(), revokedAt: date, reason: "refund", stamp: .signed(at: date)))
    }
}

extension PlayNotification {
    fileprivate mutating func read(
        _ details: StoreObject, subject: Subject, product name: String
    ) throws(EvidenceError) {
        self.subject = subject
        purchaseToken = try details.required("purchaseToken")
        type = try details.integer("notificationType")
        product = try details.string(name).map { ProductID($0) }
        if let product { _ = try product.checked(name) }
    }

    fileprivate mutating func name(_ prefix: String, _ names: [Int64: String]) {
        evidence.event = prefix + (type.map { "_" + (names[$0] ?? "\($0)") } ?? "")
    }

    /// Reads a refund. After a partial refund the rest stays valid. Look it up.
    fileprivate mutating func readVoided(_ details: StoreObject) throws(EvidenceError) {
        subject = .voidedPurchase
        let token = try details.required("purchaseToken")
        purchaseToken = token
        type = try details.integer("refundType")
        refundsSubscription = try details.integer("productType") == 1
        evidence.event = type == 1 ? "VOIDED_PURCHASE" : "VOIDED_PURCHASE_IN_PART"
        guard type == 1 else { return }
        let order = PlayIdentity(order: try details.id("orderId"), purchaseToken: token)
        evidence.facts = [try order.refund(at: date)]
    }
}
#endif
