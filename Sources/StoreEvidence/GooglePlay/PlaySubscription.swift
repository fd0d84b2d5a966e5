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
    /// An order that the answer does not name ends at the date of the first answer without it, or earlier, see
    /// ``VerifiedEvidence/ending``. The named order covers the time of all earlier ones.
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
        let isPending = try object.string("acknowledgementState") == PlayIdentity.unacknowledged
        if isPending, state != .expired, case .purchase(let purchase)? = evidence.facts.first {
            evidence.unacknowledged = UnacknowledgedPurchase(
                isSubscription: true, product: purchase.product, purchaseToken: purchaseToken)
        }
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
        var lines: [Line] = []
        for (index, item) in items.enumerated() {
            let product = try ProductID(item.required("productId")).checked("productId")
            // An item without an expiry has not begun, for example the new product or base plan of a deferred change.
            guard let expiry = try item.date("expiryTime") else { continue }
            lines.append(try line(of: item, product, index: index, expiry: expiry))
        }
        for line in lines where !lines.contains(where: line.isSuperseded) { try read(line, start, into: &evidence) }
        evidence.replaced = try replaced(by: items, start: start)
        let token = try PlayIdentity(order: nil, purchaseToken: purchaseToken).name()
        evidence.subscription = token
        guard let statedAt = stamp.signedDate, !lines.isEmpty else { return }
        // Not the aliases of the token: a line has the name of its first order.
        var current: Set<TransactionReference> = []
        for case .purchase(let purchase) in evidence.facts { current.insert(purchase.transaction) }
        evidence.ending = SubscriptionEnding(current: current, endedAt: statedAt, statedAt: statedAt)
    }

    /// An item that has begun.
    private struct Line {
        var item: StoreObject
        var index: Int
        var product: ProductID
        var identity: PlayIdentity
        var line: TransactionReference
        var expiry: Timestamp

        /// Returns `true` if `other` is the same product of the same subscription at a later time. The base plans of a
        /// subscription share their product.
        func isSuperseded(by other: Line) -> Bool {
            line == other.line && (expiry, index) < (other.expiry, other.index)
        }
    }

    private func line(
        of item: StoreObject, _ product: ProductID, index: Int, expiry: Timestamp
    ) throws(EvidenceError) -> Line {
        let paid = try item.id("latestSuccessfulOrderId")
        let order = if let paid { paid } else { try object.id("latestOrderId") }
        let identity = PlayIdentity(order: order, purchaseToken: purchaseToken)
        return Line(
            item: item, index: index, product: product, identity: identity,
            line: try identity.line(of: product, in: environment), expiry: expiry)
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
        _ begun: Line, _ start: Timestamp, into evidence: inout VerifiedEvidence
    ) throws(EvidenceError) {
        let (item, product, expiry) = (begun.item, begun.product, begun.expiry)
        var purchase = try begun.identity.purchase(
            of: product, in: environment, date: start, stamp: stamp, addingAliasesTo: &evidence)
        let phase = try item.object("offerPhase")
        let isTrial = try phase?.object("freeTrial") != nil
        let isIntroductory = try phase?.object("introductoryPrice") != nil
        let isOn = try item.object("autoRenewingPlan")?.bool("autoRenewEnabled") ?? false
        let isLeaving = try item.object("deferredItemRemoval") != nil
        let willRenew = isOn && state.mayRenew && !isLeaving
        let next = try item.object("deferredItemReplacement")?.string("productId").map { ProductID($0) }
        if let next { _ = try next.checked("deferredItemReplacement.productId") }
        (purchase.storeExpiry, purchase.isIntroductory) = (expiry, isTrial || isIntroductory)
        evidence.facts += [
            .purchase(purchase),
            .renewalState(
                RenewalState(
                    line: begun.line, willRenew: willRenew, graceEnd: state == .gracePeriod ? expiry : nil,
                    isInBillingRetry: state == .gracePeriod || state == .onHold,
                    pendingProduct: RenewalState.pendingProduct(next, after: product, willRenew: willRenew),
                    stamp: stamp)),
        ]
    }
}
#endif
