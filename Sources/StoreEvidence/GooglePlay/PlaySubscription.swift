#if Evidence
public import Entitlements

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
    /// A subscription that awaits its payment gives no facts. ``VerifiedEvidence/event`` is the state of the
    /// subscription, and ``VerifiedEvidence/line`` its line.
    ///
    /// - Parameters:
    ///   - json: The answer.
    ///   - purchaseToken: The token that was looked up.
    ///   - statedAt: The date of the answer if it came from Google directly; the facts are stamped with it. `nil` for
    ///     an answer of unknown origin: the facts are then unsigned.
    /// - Throws: ``EvidenceError`` that names the failed check.
    public func subscription(
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
            kind: .googlePlaySubscription, facts: try reader.facts(), signedDate: statedAt, event: stateName)
        let identifiers = try object.object("externalAccountIdentifiers")
        evidence.accountToken = try identifiers?.string("obfuscatedExternalAccountId")?.lowercased()
        // Several line items have a line each, and the facts state them.
        if state.isPaid, try object.objects("lineItems").count == 1 {
            let identity = reader.identity(order: try reader.order(of: nil))
            evidence.line = try identity.line()
            evidence.aliases = try identity.aliases()
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

    func identity(order: String?) -> PlayIdentity {
        PlayIdentity(environment: environment, order: order, purchaseToken: purchaseToken)
    }

    /// Returns the latest paid order of `item`, or of any item if it is `nil`.
    func order(of item: StoreObject?) throws(EvidenceError) -> String? {
        let items = if let item { [item] } else { try object.objects("lineItems") }
        for item in items {
            if let order = try item.string("latestSuccessfulOrderId") { return order }
        }
        return try object.string("latestOrderId")
    }

    func facts() throws(EvidenceError) -> [Fact] {
        guard state.isPaid else { return [] }
        guard let start = try object.date("startTime") else { throw object.missing("startTime") }
        let items = try object.objects("lineItems")
        guard !items.isEmpty else { throw object.missing("lineItems") }
        var products: Set<ProductID> = []
        for item in items { products.insert(ProductID(try item.required("productId"))) }
        guard products.count == items.count else {
            throw EvidenceError(.content, "lineItems: a product is repeated")
        }
        var facts: [Fact] = []
        // An item without an expiry has not begun, for example the new product of a deferred change.
        for item in items {
            guard let expiry = try item.date("expiryTime") else { continue }
            facts += try self.facts(of: item, isOneOfMany: items.count > 1, start: start, expiry: expiry)
        }
        return facts
    }

    private func facts(
        of item: StoreObject, isOneOfMany: Bool, start: Timestamp, expiry: Timestamp
    ) throws(EvidenceError) -> [Fact] {
        let product = try ProductID(item.required("productId")).checked("productId")
        let identity = identity(order: try order(of: item))
        let transaction = try identity.transaction(of: product, isOneOfMany: isOneOfMany)
        let line = try identity.line(of: product, isOneOfMany: isOneOfMany)
        let phase = try item.object("offerPhase")
        let isTrial = try phase?.object("freeTrial") != nil
        let isIntroductory = try phase?.object("introductoryPrice") != nil
        let renews = try item.object("autoRenewingPlan")?.bool("autoRenewEnabled") ?? false
        let pending = try item.object("deferredItemReplacement")?.string("productId").map { ProductID($0) }
        if let pending { _ = try pending.checked("deferredItemReplacement.productId") }
        return [
            .purchase(
                Purchase(
                    transaction: transaction, product: product, terms: nil, date: start,
                    originalID: line == transaction ? nil : line.id, storeExpiry: expiry,
                    isIntroductory: isTrial || isIntroductory, stamp: stamp)),
            .renewalState(
                RenewalState(
                    line: line, willRenew: renews && state.mayRenew, graceEnd: state == .gracePeriod ? expiry : nil,
                    isInBillingRetry: state == .gracePeriod || state == .onHold, pendingProduct: pending,
                    stamp: stamp)),
        ]
    }
}
#endif
