#if Evidence
import Entitlements

/// The body of a signed transaction (`JWSTransactionDecodedPayload`).
struct SignedTransaction {
    let bundleID: String
    let environment: EnvironmentID
    let purchase: Purchase
    let revocation: Revocation
    let accountToken: String?

    var stamp: Stamp { purchase.stamp }
    /// The purchase and its status.
    var facts: [Fact] { [.purchase(purchase), .revocation(revocation)] }

    init(_ message: SignedMessage) throws(EvidenceError) {
        let body = message.body
        try EvidenceForm.transaction.check(body)
        let id = try body.requiredID("transactionId")
        bundleID = try body.required("bundleId")
        environment = try EnvironmentID(appStore: try body.required("environment"))
        accountToken = try body.short("appAccountToken")?.lowercased()
        let transaction = TransactionReference(
            store: .appStore, environment: environment, id: try TransactionID(id).checked("transactionId"))
        let original = try TransactionID(try body.id("originalTransactionId") ?? id)
            .checked("originalTransactionId")
        guard let date = try body.milliseconds("purchaseDate") else { throw body.missing("purchaseDate") }
        // Only the end of an auto-renewable subscription is up to the store. The catalogue decides about the others.
        let type = try body.string("type")
        let renews = type == "Auto-Renewable Subscription"
        let expires = try body.milliseconds("expiresDate")
        guard expires != nil || !renews else { throw body.missing("expiresDate") }
        let quantity = try body.quantity() ?? 1
        let stamp = Stamp.signed(at: message.signedDate)
        purchase = Purchase(
            transaction: transaction, product: try ProductID(try body.required("productId")).checked("productId"),
            terms: nil, date: date, quantity: quantity, originalID: original == transaction.id ? nil : original,
            storeExpiry: renews ? expires : nil,
            isIntroductory: try body.integer("offerType") == Self.introductoryOffer,
            lineItemID: try Self.lineItem(in: body), isNonConsumable: type == "Non-Consumable", stamp: stamp)
        revocation = Revocation(
            transaction: transaction, revokedAt: try body.milliseconds("revocationDate"),
            reason: try Self.reason(in: body),
            upgradedAt: try body.bool("isUpgraded") ? message.signedDate : nil, stamp: stamp)
    }

    /// The id of a period of a subscription on all devices. Xcode states 0 for every transaction.
    private static func lineItem(in body: StoreObject) throws(EvidenceError) -> TransactionID? {
        guard let id = try body.id("webOrderLineItemId"), id != "0" else { return nil }
        return try TransactionID(id).checked("webOrderLineItemId")
    }

    /// The value of `offerType` for an introductory offer.
    private static let introductoryOffer: Int64 = 1

    /// The kind of a revocation, and the refunded part of the price; empty if the store states neither.
    private static func reason(in body: StoreObject) throws(EvidenceError) -> String {
        guard body.contains("revocationDate") else { return "" }
        var parts: [String] = []
        if let type = try body.string("revocationType") { parts.append(String(type.singleLine.prefix(100))) }
        // In thousandths of a percent.
        if let share = try body.integer("revocationPercentage") { parts.append("\(Double(share) / 1_000) %") }
        if parts.isEmpty, let reason = try body.integer("revocationReason") {
            parts.append(reason == 1 ? "a problem with the app" : "another reason")
        }
        return parts.joined(separator: ", ")
    }
}

/// The body of a signed renewal info (`JWSRenewalInfoDecodedPayload`).
struct SignedRenewal {
    let environment: EnvironmentID
    let state: RenewalState

    init(_ message: SignedMessage) throws(EvidenceError) {
        let body = message.body
        try EvidenceForm.renewal.check(body)
        environment = try EnvironmentID(appStore: try body.required("environment"))
        guard let status = try body.integer("autoRenewStatus") else { throw body.missing("autoRenewStatus") }
        guard status == 0 || status == 1 else {
            throw EvidenceError(.content, "autoRenewStatus must be 0 or 1, not \(status)")
        }
        let product = try body.string("productId").map { ProductID($0) }
        let next = try body.string("autoRenewProductId").map { (id) throws(EvidenceError) in
            try ProductID(id).checked("autoRenewProductId")
        }
        state = RenewalState(
            line: TransactionReference(
                store: .appStore, environment: environment,
                id: try TransactionID(try body.requiredID("originalTransactionId")).checked("originalTransactionId")),
            willRenew: status == 1, graceEnd: try body.milliseconds("gracePeriodExpiresDate"),
            isInBillingRetry: try body.bool("isInBillingRetryPeriod"),
            pendingProduct: RenewalState.pendingProduct(next, after: product, willRenew: status == 1),
            stamp: .signed(at: message.signedDate))
    }
}

/// The body of a server notification (`responseBodyV2DecodedPayload`).
struct SignedNotification {
    /// The type, and the subtype after a slash if there is one.
    let event: String
    let id: String
    /// The content; `nil` for a type of later versions that has none of the known members.
    let content: Content?

    /// The member that states the app, and what else is signed.
    struct Content {
        let bundleID: String
        let appAppleID: Int64?
        let environment: EnvironmentID
        let signedTransaction: String?
        let signedRenewal: String?
    }

    init(_ message: SignedMessage) throws(EvidenceError) {
        let body = message.body
        try EvidenceForm.notification.check(body)
        guard let type = try body.short("notificationType") else { throw body.missing("notificationType") }
        event = try body.short("subtype").map { "\(type)/\($0)" } ?? type
        id = try body.short("notificationUUID") ?? ""
        var found: StoreObject?
        for name in ["data", "summary", "appData", "externalPurchaseToken"] where found == nil {
            found = try body.object(name)
        }
        guard let data = found else {
            guard !Self.knownTypes.contains(type) else { throw body.missing("data") }
            content = nil
            return
        }
        let environment: EnvironmentID
        if let name = try data.string("environment") {
            environment = try EnvironmentID(appStore: name)
        } else {
            // A token for external purchases states its environment by this prefix only.
            let token = try data.required("externalPurchaseId")
            environment = token.hasPrefix("SANDBOX") ? .sandbox : .production
        }
        let content = Content(
            bundleID: try data.required("bundleId"), appAppleID: try data.integer("appAppleId"),
            environment: environment, signedTransaction: try data.string("signedTransactionInfo"),
            signedRenewal: try data.string("signedRenewalInfo"))
        if content.signedTransaction == nil, Self.typesOfTransactions.contains(type) || event == Self.upgrade {
            throw EvidenceError(.content, "a notification \(event.singleLine) must have signedTransactionInfo")
        }
        self.content = content
    }

    /// The types that are about a purchase. Without it a refund would be answered as if it had been recorded.
    private static let typesOfTransactions: Set = [
        "SUBSCRIBED", "OFFER_REDEEMED", "DID_RENEW", "ONE_TIME_CHARGE", "RENEWAL_EXTENDED", "REFUND", "REVOKE",
        "REFUND_REVERSED",
    ]
    /// All types that this version knows.
    private static let knownTypes = typesOfTransactions.union([
        "DID_CHANGE_RENEWAL_PREF", "DID_CHANGE_RENEWAL_STATUS", "DID_FAIL_TO_RENEW", "GRACE_PERIOD_EXPIRED", "EXPIRED",
        "PRICE_INCREASE", "REFUND_DECLINED", "CONSUMPTION_REQUEST", "RENEWAL_EXTENSION", "TEST",
        "EXTERNAL_PURCHASE_TOKEN", "RESCIND_CONSENT",
    ])
    private static let upgrade = "DID_CHANGE_RENEWAL_PREF/UPGRADE"
}

extension Identifier where Subject == SaleEnvironment {
    /// Maps the environment of signed data.
    ///
    /// - Throws: ``EvidenceError`` with the check `environment`.
    fileprivate init(appStore name: String) throws(EvidenceError) {
        switch name {
        case "Production": self = .production
        case "Sandbox": self = .sandbox
        case "Xcode", "LocalTesting": self = EnvironmentID("xcode")
        default: throw EvidenceError(.environment, "the environment \"\(name.singleLine)\" is unknown")
        }
    }
}
#endif
