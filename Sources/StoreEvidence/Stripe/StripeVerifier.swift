#if Evidence
internal import Crypto
package import Entitlements

/// Verifies events of a Stripe webhook.
///
/// - `checkout.session.completed` and `checkout.session.async_payment_succeeded` give a one-time purchase, or the owner
///   of a subscription. The purchase is dated with the event, because a session may be paid days after its creation.
/// - `invoice.paid` gives a purchase of each paid product. One that has credits only gives none.
/// - `invoice_payment.paid` gives the PaymentIntent as an alias of the invoice.
/// - `customer.subscription.created`, `….updated` and `….deleted` give the renewal state, and the end of all periods if
///   the subscription has ended.
/// - `charge.refunded` gives a revocation after a full refund.
/// - `charge.dispute.created` and `charge.dispute.funds_withdrawn` give a revocation.
/// - `charge.dispute.closed` gives a revocation after a lost dispute, and a reinstatement after a won one. A refund is
///   final: no dispute reinstates the purchase, whichever came first.
///
/// A one-time purchase is the transaction of its PaymentIntent, or of its Checkout session if nothing was paid. A
/// period of a subscription is the transaction of its invoice, in the line of its subscription. If an invoice pays
/// several products, they are the transactions `INVOICE/PRODUCT`. Refunds and disputes name the PaymentIntent, which
/// ``VerifiedEvidence/aliases`` lead to the invoice, and from there to its products. Facts are stamped with the date of
/// the event. Within one second a revocation outweighs a reinstatement, and the end of a subscription its changes.
///
/// The product comes from the price's metadata `entitlementsync_product`, else from the map of prices, else from the
/// same metadata of the line, the subscription or the Checkout session. So a change of plan is noticed although the
/// metadata of the subscription stays as it was. One account at Stripe may sell products of other apps: an event
/// without a known product is no error, and ``VerifiedEvidence/unknownProduct`` says how to make the product known. The
/// account token comes from `client_reference_id`, else from the metadata `entitlementsync_account`.
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
    /// The metadata key of the quantity that one unit of a Checkout session stands for, for example 20 coins.
    package static let quantityKey = "entitlementsync_quantity"
    /// The metadata key of the price of one unit of a Checkout session, in the smallest unit of the currency. With it
    /// the number of units that the buyer chose is known.
    package static let unitAmountKey = "entitlementsync_unit_amount"

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
    /// - Returns: The facts, if any. An event of another type gives none, and neither does a thin event.
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
        if try event.string("object") == "v2.core.event" { return try thinEvent(event) }
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
        if !evidence.unknownProduct.isEmpty {
            evidence.unknownProduct +=
                type.hasPrefix("checkout.")
                ? ", and give the buyer this purchase: syncd record purchase PRODUCT --as-server --account NAME"
                : ", and send the event again: stripe events resend \(evidence.eventID.singleLine)"
            evidence.unknownProduct += "; ignore this if another app sells the product"
        }
        return evidence
    }

    /// The result of an event whose object must be fetched from Stripe. Its date is text, and its types are others.
    private func thinEvent(_ event: StoreObject) throws(EvidenceError) -> VerifiedEvidence {
        let type = try event.string("type") ?? ""
        var evidence = VerifiedEvidence(
            kind: .stripe, facts: [], signedDate: nil, event: type, eventID: try event.string("id") ?? "")
        evidence.unknownProduct =
            "\(type.singleLine) is a thin event, which contains no purchase; set the payload style of the event "
            + "destination to snapshot, or remove the type from this destination"
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
