#if Evidence
package import Entitlements

/// The state of a subscription in an answer of `purchases.subscriptionsv2`.
private enum PlayState: String {
    case active = "SUBSCRIPTION_STATE_ACTIVE"
    case gracePeriod = "SUBSCRIPTION_STATE_IN_GRACE_PERIOD"
    case onHold = "SUBSCRIPTION_STATE_ON_HOLD"
    case paused = "SUBSCRIPTION_STATE_PAUSED"
    case canceled = "SUBSCRIPTION_STATE_CANCELED"
    case expired = "SUBSCRIPTION_STATE_EXPIRED"
    case pending = "SUBSCRIPTION_STATE_PENDING"
    case pendingCanceled = "SUBSCRIPTION_STATE_PENDING_PURCHASE_CANCELED"

    var isPaid: Bool { self != .pending && self != .pendingCanceled }

    var mayRenew: Bool { isPaid && self != .canceled && self != .expired }
}

extension GooglePlayVerifier {
    /// Decodes the JSON answer of `purchases.subscriptionsv2.get`, which is unsigned.
    ///
    /// Each line item gives a purchase by its latest paid order, and the state of its renewal. The answer states the
    /// start of the subscription, but not of its latest period, so each renewal is dated with the start. During a grace
    /// period the stated expiry is the end of the grace.
    ///
    /// A subscription that awaits its payment gives no facts, and neither does an item that has not begun. One with a
    /// `linkedPurchaseToken` replaces the subscription with that token, see ``VerifiedEvidence/replaced``.
    /// ``VerifiedEvidence/event`` is the state of the subscription.
    ///
    /// - Parameters:
    ///   - json: The answer.
    ///   - purchaseToken: The token that was looked up.
    ///   - statedAt: The date of the answer if it came from Google directly; the facts are stamped with it. `nil` for
    ///     an answer of unknown origin: the facts are then unsigned.
    /// - Throws: ``EvidenceError`` that names the failed check.
    package func subscription(
        _ json: [UInt8], purchaseToken: String, statedAt: Timestamp?
    ) throws(EvidenceError) -> VerifiedEvidence {
        try checkSize(json.count, limit: EvidenceLimits.notification, "the subscription")
        let object = try StoreObject(parsing: json)
        let stateName = try object.required("subscriptionState")
        guard let state = PlayState(rawValue: stateName) else {
            throw EvidenceError(.state, "the state \"\(stateName.singleLine)\" is unknown; update this program")
        }
        let environment = try object.object("testPurchase") == nil ? EnvironmentID.production : .test
        let reader = SubscriptionReader(
            object: object, state: state, environment: environment, purchaseToken: purchaseToken,
            stamp: statedAt.map(Stamp.signed) ?? Stamp(logicalTime: .zero))
        var evidence = VerifiedEvidence(
            kind: .googlePlaySubscription, facts: [], signedDate: statedAt, event: stateName)
        try reader.read(into: &evidence)
        let identifiers = try object.object("externalAccountIdentifiers")
        evidence.accountToken = try identifiers?.string("obfuscatedExternalAccountId")?.lowercased()
        return evidence
    }
}

/// Turns the line items of a subscription into facts.
private struct SubscriptionReader {
    let object: StoreObject
    let state: PlayState
    let environment: EnvironmentID
    let purchaseToken: String
    let stamp: Stamp

    func read(into evidence: inout VerifiedEvidence) throws(EvidenceError) {
        guard state.isPaid else { return }
        guard let start = try object.date("startTime") else { throw object.missing("startTime") }
        let items = try object.objects("lineItems")
        guard !items.isEmpty else { throw object.missing("lineItems") }
        var products: Set<ProductID> = []
        for item in items { products.insert(ProductID(try item.required("productId"))) }
        guard products.count == items.count else {
            throw EvidenceError(.content, "lineItems: a product is repeated")
        }
        // An item without an expiry has not begun, for example the new product of a deferred change.
        for item in items {
            guard let expiry = try item.date("expiryTime") else { continue }
            try read(item, start: start, expiry: expiry, into: &evidence)
        }
        evidence.replaced = try replaced(by: items, start: start)
    }

    /// Returns the subscription that this one replaces. During a deferred change it has not ended.
    private func replaced(
        by items: [StoreObject], start: Timestamp
    ) throws(EvidenceError) -> ReplacedSubscription? {
        guard let token = try object.string("linkedPurchaseToken") else { return nil }
        var isDeferred = false
        for item in items {
            let hasBegun = try item.date("expiryTime") != nil
            let isLeaving = try item.object("deferredItemReplacement") != nil
            if !hasBegun || isLeaving { isDeferred = true }
        }
        return ReplacedSubscription(
            name: try PlayIdentity(order: nil, purchaseToken: token).name(), endedAt: isDeferred ? nil : start)
    }

    private func read(
        _ item: StoreObject, start: Timestamp, expiry: Timestamp, into evidence: inout VerifiedEvidence
    ) throws(EvidenceError) {
        let product = try ProductID(item.required("productId")).checked("productId")
        let paid = try item.id("latestSuccessfulOrderId")
        let order = if let paid { paid } else { try object.id("latestOrderId") }
        let identity = PlayIdentity(order: order, purchaseToken: purchaseToken)
        let transaction = try identity.transaction(of: product, in: environment)
        let line = try identity.line(of: product, in: environment)
        try identity.addAliases(of: product, in: environment, to: &evidence.aliases)
        let phase = try item.object("offerPhase")
        let isTrial = try phase?.object("freeTrial") != nil
        let isIntroductory = try phase?.object("introductoryPrice") != nil
        let isOn = try item.object("autoRenewingPlan")?.bool("autoRenewEnabled") ?? false
        let willRenew = isOn && state.mayRenew
        let next = try item.object("deferredItemReplacement")?.string("productId").map { ProductID($0) }
        if let next { _ = try next.checked("deferredItemReplacement.productId") }
        evidence.facts += [
            .purchase(
                Purchase(
                    transaction: transaction, product: product, terms: nil, date: start,
                    originalID: line == transaction ? nil : line.id, storeExpiry: expiry,
                    isIntroductory: isTrial || isIntroductory, stamp: stamp)),
            .renewalState(
                RenewalState(
                    line: line, willRenew: willRenew, graceEnd: state == .gracePeriod ? expiry : nil,
                    isInBillingRetry: state == .gracePeriod || state == .onHold,
                    pendingProduct: RenewalState.pendingProduct(next, after: product, willRenew: willRenew),
                    stamp: stamp)),
        ]
    }
}
#endif
