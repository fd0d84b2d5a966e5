import Entitlements
package import StoreEvidence

/// The verifiers of a service, and the limits of what it keeps.
package struct EvidenceConfiguration: Sendable {
    /// Verifies transactions, receipts and notifications of the App Store; `nil` if they are not accepted.
    package var appStore: (any AppStoreVerification)?
    /// Verifies purchases and notifications of Google Play; `nil` if they are not accepted.
    package var googlePlay: (any GooglePlayVerification)?
    /// Verifies events of Stripe; `nil` if they are not accepted.
    package var stripe: (any StripeVerification)?
    /// Verifies the sender of Google Play's notifications; `nil` if they are not accepted.
    package var push: (any PushAuthentication)?
    /// Looks up and acknowledges purchases at Google Play; `nil` if their notifications are only answered.
    package var lookup: (any PlayLookup)?
    /// The largest total size of facts about lines without an owner, in bytes.
    package var parkedByteLimit = 64 << 20

    /// A configuration that accepts no evidence.
    package init() {}
}

/// Verifies the bearer token of a push request of Google Cloud Pub/Sub.
package protocol PushAuthentication: Sendable {
    /// Verifies `token`: signature (RS256), issuer, audience, dates, and the configured service account in `email`
    /// with `email_verified`. Every Google account can obtain tokens for any audience, so the email decides.
    ///
    /// - Parameter now: The time, in milliseconds since 1970 UTC.
    /// - Throws: ``TokenRefusal`` for any other token.
    func verify(_ token: String, now: Int64) async throws(TokenRefusal)
}

/// Looks up the current state of purchases at Google Play, and acknowledges them.
package protocol PlayLookup: Sendable {
    /// The JSON of `purchases.subscriptionsv2.get` for `purchaseToken`.
    ///
    /// - Throws: Any error. The notification is then answered with 503, so that Google sends it again, unless the error
    ///   is a ``PlayLookupError`` that says that the purchase is unknown.
    func subscription(packageName: String, purchaseToken: String) async throws -> [UInt8]

    /// The JSON of `purchases.productsv2.getproductpurchasev2` for `purchaseToken`.
    ///
    /// - Throws: As ``subscription(packageName:purchaseToken:)``.
    func product(packageName: String, purchaseToken: String) async throws -> [UInt8]

    /// Acknowledges a purchase that is recorded. Repeating it has no effect.
    ///
    /// - Parameters:
    ///   - product: A product of the purchase.
    ///   - isSubscription: False for a one-time product.
    /// - Throws: Any error. The notification is then answered with 503, so that Google sends it again, unless the error
    ///   is a ``PlayLookupError`` that says that the purchase is unknown. What was recorded stays recorded.
    func acknowledge(
        packageName: String, product: String, purchaseToken: String, isSubscription: Bool
    ) async throws
}

extension PlayLookup {
    func acknowledge(_ purchase: UnacknowledgedPurchase) async throws {
        try await acknowledge(
            packageName: purchase.packageName, product: purchase.product.rawValue,
            purchaseToken: purchase.purchaseToken, isSubscription: purchase.isSubscription)
    }

    /// Looks up a purchase of either kind and reads the answer.
    ///
    /// A token does not say if it is that of a subscription, so it is tried as that of a one-time product too.
    func state(
        packageName: String, purchaseToken: String, _ verifier: any GooglePlayVerification, statedAt: Timestamp
    ) async throws -> VerifiedEvidence {
        do {
            return try await state(
                of: .subscription, packageName: packageName, purchaseToken: purchaseToken, verifier, statedAt: statedAt)
        } catch let error as any PlayLookupError where error.isNotFound || error.isRejected {
            do {
                return try await state(
                    of: .oneTimeProduct, packageName: packageName, purchaseToken: purchaseToken, verifier,
                    statedAt: statedAt)
            } catch let other as any PlayLookupError {
                throw other.isNotFound ? error : other
            }
        }
    }

    /// Looks up a purchase and reads the answer.
    func state(
        of subject: PlayNotification.Subject, packageName: String, purchaseToken: String,
        _ verifier: any GooglePlayVerification, statedAt: Timestamp
    ) async throws -> VerifiedEvidence {
        var evidence: VerifiedEvidence
        if subject == .subscription {
            let json = try await subscription(packageName: packageName, purchaseToken: purchaseToken)
            evidence = try verifier.subscription(json, purchaseToken: purchaseToken, statedAt: statedAt)
        } else {
            let json = try await product(packageName: packageName, purchaseToken: purchaseToken)
            evidence = try verifier.product(json, purchaseToken: purchaseToken, statedAt: statedAt)
        }
        evidence.unacknowledged?.packageName = packageName
        return evidence
    }
}

/// An error of a look-up at Google Play.
package protocol PlayLookupError: Error {
    /// True if Google Play does not know the purchase, or no longer keeps it. Another look-up does not help.
    var isNotFound: Bool { get }
    /// True if Google Play rejects the request for another reason, for example an unusable purchase token.
    var isRejected: Bool { get }
    /// True if the same request may succeed later without a change of the configuration: Google Play is unreachable,
    /// fails, or limits the rate of requests.
    var isTransient: Bool { get }
}

/// The error of an acknowledgement at Google Play. The purchase is recorded.
package struct AcknowledgementFailure: Error {
    /// The outcome of the record.
    package let outcome: EvidenceNote.Outcome
    /// The error of the request.
    package let cause: any Error
}

/// The outcome of one piece of evidence, for metrics and the log. It never contains the evidence itself.
package struct EvidenceNote: Hashable, Sendable, CustomStringConvertible {
    /// An outcome.
    package enum Outcome: String, Hashable, Sendable {
        /// Its facts were written.
        case recorded
        /// Its facts wait for the owner of their line.
        case parked
        /// It states no facts, or is of a type that the server does not use.
        case ignored
        /// It is about no known product, perhaps one of another app. Nothing was changed.
        case unknownProduct = "unknown-product"
        /// The line belongs to another account.
        case ownedByAnother = "owned-by-another"
        /// A check failed.
        case refused
        /// The sender of a notification was not authenticated.
        case unauthenticated
        /// The server has no verifier for this kind.
        case notConfigured = "not-configured"
        /// The clocks of the store and the server differ too much. The sender tries again.
        case clockSkew = "clock-skew"
        /// A ledger, or the room for facts without an owner, is full.
        case full
    }

    /// The kind of the evidence.
    package var kind: EvidenceKind
    /// The outcome.
    package var outcome: Outcome
    /// The check that failed; `nil` for other outcomes than a refusal.
    package var check: EvidenceError.Check?
    /// The sender's address.
    package var address: String
    /// The name of the account that sent it; `nil` for a store.
    package var account: String?
    /// The reason of a refusal, without the evidence.
    package var reason: String

    init(
        _ kind: EvidenceKind, _ outcome: Outcome, from address: String, account: String? = nil, _ reason: String = ""
    ) {
        (self.kind, self.outcome, self.address) = (kind, outcome, address)
        (self.account, self.reason) = (account, reason)
    }

    /// A refusal, or an answer that the clocks differ too much.
    init(_ kind: EvidenceKind, _ error: EvidenceError, from address: String, account: String? = nil) {
        self.init(kind, error.isTransient ? .clockSkew : .refused, from: address, account: account, error.reason)
        check = error.isTransient ? nil : error.check
    }

    /// The name of the kind in metrics.
    package var kindName: String { kind.rawValue }

    /// True if an operator may want to know about it.
    package var isNotable: Bool {
        switch outcome {
        // With a warning.
        case .recorded, .parked: !reason.isEmpty
        case .ignored: false
        default: true
        }
    }

    /// One line for the log.
    package var description: String {
        var text = "evidence kind=\(kindName) outcome=\(outcome.rawValue)"
        if let check { text += " check=\(check.rawValue)" }
        text += " address=\(address.singleLine)"
        if let account { text += " account=\(account.singleLine)" }
        // The end of a reason says what to do.
        return reason.isEmpty ? text : text + ": \(reason.singleLine(atMost: 1_000))"
    }
}

/// The error of a configuration that contradicts itself.
package struct ConfigurationError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The contradiction, and how to resolve it.
    package var description: String
}

extension ServiceConfiguration {
    /// Checks that the parts of the configuration fit together.
    ///
    /// - Throws: ``ConfigurationError`` for the policy `verified` with consumables that count on one device only. Such
    ///   units count in the ledger of that device. The server neither sees nor writes it.
    package func check() throws(ConfigurationError) {
        guard policy == .verified, let catalog, catalog.policy.rules.consumables == .deviceLocal,
            catalog.products.contains(where: \.isConsumable)
        else { return }
        throw ConfigurationError(
            description: "the policy verified does not fit \"consumables\": \"deviceLocal\", the default: the server "
                + "cannot verify units that stay on one device; add \"policy\": {\"consumables\": \"shared\"} to the "
                + "catalogue (syncd catalog convert makes one of a .storekit file)")
    }
}

extension Product {
    fileprivate var isConsumable: Bool { if case .consumable = kind { true } else { false } }
}
