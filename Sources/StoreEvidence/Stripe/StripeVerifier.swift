#if Evidence
internal import Crypto
package import Entitlements

/// Verifies events of a Stripe webhook.
///
/// - `checkout.session.completed` and `checkout.session.async_payment_succeeded` give a one-time purchase, or the owner
///   of a subscription. The purchase is dated with the event, because a session may be paid days after its creation.
/// - `invoice.paid` gives a purchase of the paid period.
/// - `invoice_payment.paid` gives the PaymentIntent as an alias of the invoice.
/// - `customer.subscription.created`, `….updated` and `….deleted` give the renewal state.
/// - `charge.refunded` gives a revocation after a full refund.
/// - `charge.dispute.created` and `charge.dispute.funds_withdrawn` give a revocation.
/// - `charge.dispute.closed` gives a revocation after a lost dispute, and a reinstatement after a won one. A refund is
///   final: no dispute reinstates the purchase, whichever came first.
///
/// A one-time purchase is the transaction of its PaymentIntent, or of its Checkout session if nothing was paid. A
/// period of a subscription is the transaction of its invoice, in the line of its subscription. Refunds and disputes
/// name the PaymentIntent, which ``VerifiedEvidence/aliases`` lead to the invoice. Facts are stamped with the date of
/// the event. Within one second a revocation outweighs a reinstatement, and the end of a subscription its changes.
///
/// The product comes from the price's metadata `entitlementsync_product`, else from the map of prices, else from the
/// same metadata of the line, the subscription or the Checkout session. So a change of plan is noticed although the
/// metadata of the subscription stays as it was. The account token comes from `client_reference_id`, else from the
/// metadata `entitlementsync_account`.
///
/// ```swift
/// let verifier = StripeVerifier(secrets: [endpointSecret], productsByPrice: ["price_1Owl": "owl.monthly"])
/// let evidence = try verifier.event(body, signature: header, now: now)
/// ```
package struct StripeVerifier: Sendable {
    /// The metadata key of the product.
    package static let productKey = "entitlementsync_product"
    /// The metadata key of the account token.
    package static let accountKey = "entitlementsync_account"
    /// The metadata key of the quantity of a Checkout session, for example for coins.
    package static let quantityKey = "entitlementsync_quantity"

    private let secrets: [SymmetricKey]
    let productsByPrice: [String: ProductID]

    /// Creates a verifier for an endpoint.
    ///
    /// - Parameters:
    ///   - secrets: The endpoint's secrets with the prefix `whsec_`: several during a rotation. Empty ones are ignored,
    ///     and without a secret every event is refused.
    ///   - productsByPrice: The product of each price, for invoices. A one-time Checkout session states no prices to a
    ///     webhook, so its product must be in its metadata.
    package init(secrets: [String], productsByPrice: [String: ProductID] = [:]) {
        self.secrets = secrets.filter { !$0.isEmpty }.map { SymmetricKey(data: Array($0.utf8)) }
        self.productsByPrice = productsByPrice
    }

    /// Verifies an event.
    ///
    /// - Parameters:
    ///   - body: The body of the request, unchanged.
    ///   - signature: The header `Stripe-Signature`.
    ///   - now: The time of this machine.
    /// - Returns: The facts, if any. An event of another type gives none.
    /// - Throws: ``EvidenceError`` that names the failed check.
    package func event(_ body: [UInt8], signature: String, now: Timestamp) throws(EvidenceError) -> VerifiedEvidence {
        try checkSize(body.count, limit: EvidenceLimits.notification, "the event")
        let signature = try StripeSignature(signature)
        try signature.checkDate(now: now)
        guard !secrets.isEmpty else {
            throw EvidenceError(.signature, "no secret is configured; set the secret of the webhook's endpoint")
        }
        guard signature.isValid(for: body, secrets: secrets) else {
            throw EvidenceError(
                .signature, "no v1 signature matches; pass the body unchanged, and check the endpoint's secret")
        }
        return try EvidenceError.authenticated { () throws(EvidenceError) in
            try event(StoreObject(parsing: body), now: now)
        }
    }

    private func event(_ event: StoreObject, now: Timestamp) throws(EvidenceError) -> VerifiedEvidence {
        let type = try event.required("type")
        guard let date = try event.date("created", unit: 1_000) else { throw event.missing("created") }
        try checkNotAhead(date, of: now, "created")
        var evidence = VerifiedEvidence(
            kind: .stripe, facts: [], signedDate: date, event: type, eventID: try event.string("id") ?? "")
        guard Self.types.contains(type) else { return evidence }
        guard let data = try event.object("data") else { throw event.missing("data") }
        guard let object = try data.object("object") else { throw data.missing("object") }
        let environment = try event.requiredBool("livemode") ? EnvironmentID.production : .test
        let reader = StripeReader(
            object: object, environment: environment, date: date, productsByPrice: productsByPrice)
        evidence.accountToken = try reader.accountToken()
        switch type {
        case "checkout.session.completed", "checkout.session.async_payment_succeeded":
            try reader.readCheckout(into: &evidence)
        case "invoice.paid": try reader.readInvoice(into: &evidence)
        case "invoice_payment.paid": try reader.readInvoicePayment(into: &evidence)
        case "charge.refunded": try reader.readRefund(into: &evidence)
        case "charge.dispute.created", "charge.dispute.funds_withdrawn", "charge.dispute.closed":
            try reader.readDispute(isClosed: type == "charge.dispute.closed", into: &evidence)
        default: try reader.readSubscription(type, into: &evidence)
        }
        return evidence
    }

    /// The types that are read.
    private static let types: Set = [
        "checkout.session.completed", "checkout.session.async_payment_succeeded", "invoice.paid",
        "invoice_payment.paid", "customer.subscription.created", "customer.subscription.updated",
        "customer.subscription.deleted", "charge.refunded", "charge.dispute.created",
        "charge.dispute.funds_withdrawn", "charge.dispute.closed",
    ]
}
#endif
