#if Evidence
internal import Entitlements

extension StripeReader {
    func readCheckout(into evidence: inout VerifiedEvidence) throws(EvidenceError) {
        switch try object.required("mode") {
        case "subscription":
            // The first invoice is the purchase. Counting the Checkout as well would count it twice.
            guard let subscription = try object.reference("subscription") else { return }
            evidence.line = try reference(subscription, "subscription")
        case "payment" where try isPaid():
            let lines = try object.object("line_items")?.objects("data") ?? []
            evidence.facts = [.purchase(try oneTimePurchase(lines))]
        default: return
        }
    }

    /// True if the session is paid, or has nothing to pay because of a discount.
    private func isPaid() throws(EvidenceError) -> Bool {
        switch try object.required("payment_status") {
        case "paid": return true
        case "no_payment_required": return try object.integer("amount_total") == 0
        default: return false
        }
    }

    private func oneTimePurchase(_ lines: [StoreObject]) throws(EvidenceError) -> Purchase {
        guard lines.count <= 1 else {
            throw EvidenceError(.content, "the Checkout session sells \(lines.count) products; sell one per session")
        }
        guard let product = try product(of: lines.first) else {
            throw EvidenceError(
                .content,
                "the product of the Checkout session is unknown; set metadata \(StripeVerifier.productKey) of the "
                    + "session, because Stripe does not send its prices")
        }
        let stated = try object.object("metadata")?.quantity(StripeVerifier.quantityKey)
        let quantity = if let stated { stated } else { try lines.first?.quantity() ?? 1 }
        let payment = try object.reference("payment_intent")
        let id = if let payment { payment } else { try object.requiredID("id") }
        return Purchase(
            transaction: try reference(id, "payment_intent"), product: product, terms: nil, date: date,
            quantity: quantity, stamp: stamp())
    }

    /// Reads a paid invoice. One that belongs to no subscription gives no facts: its Checkout session is the purchase.
    func readInvoice(into evidence: inout VerifiedEvidence) throws(EvidenceError) {
        let details = try object.object("parent")?.object("subscription_details")
        let former = try object.reference("subscription")
        guard let subscription = try details?.reference("subscription") ?? former else { return }
        let invoice = try reference(object.requiredID("id"), "id")
        let line = try reference(subscription, "subscription")
        let period = try paidPeriod()
        evidence.line = line
        evidence.facts = [
            .purchase(
                Purchase(
                    transaction: invoice, product: period.product, terms: nil, date: period.start,
                    originalID: line.id, storeExpiry: period.end, stamp: stamp()))
        ]
        for payment in try payments() {
            evidence.aliases[try reference(payment, "payment_intent")] = [invoice]
        }
    }

    /// The PaymentIntents of an invoice. A trial or a full discount has none, and "Basil" moved them to `payments`.
    private func payments() throws(EvidenceError) -> [String] {
        var payments: [String] = []
        if let payment = try object.reference("payment_intent") { payments.append(payment) }
        for entry in try object.object("payments")?.objects("data") ?? [] {
            if let payment = try entry.object("payment")?.reference("payment_intent") { payments.append(payment) }
        }
        return payments
    }

    func readInvoicePayment(into evidence: inout VerifiedEvidence) throws(EvidenceError) {
        guard let payment = try object.object("payment")?.reference("payment_intent"),
            let invoice = try object.reference("invoice")
        else { return }
        evidence.aliases[try reference(payment, "payment_intent")] = [try reference(invoice, "invoice")]
    }

    private struct PaidPeriod {
        var product: ProductID
        var start: Timestamp
        var end: Timestamp
        var isProration: Bool
    }

    /// Returns the period that the invoice pays.
    ///
    /// Credits are ignored. A regular line takes precedence over a proration, then the latest end and start. So after
    /// several changes of plan the last plan counts.
    private func paidPeriod() throws(EvidenceError) -> PaidPeriod {
        let lines = try object.object("lines")?.objects("data") ?? []
        var charges: [StoreObject] = []
        var periods: [PaidPeriod] = []
        for line in lines where try line.integer("amount") ?? 0 >= 0 {
            charges.append(line)
            if let period = try period(of: line) { periods.append(period) }
        }
        let latest = periods.max { left, right in
            (left.isProration ? 0 : 1, left.end, left.start) < (right.isProration ? 0 : 1, right.end, right.start)
        }
        guard let latest else { throw try unknownProduct(prices: charges) }
        let rivals = periods.filter { $0.product != latest.product && $0.isProration == latest.isProration }
        guard !rivals.contains(where: { $0.start == latest.start && $0.end == latest.end }) else {
            throw EvidenceError(
                .content, "the invoice pays several products for one period; sell one product per subscription")
        }
        return latest
    }

    /// Returns the period of a line; `nil` if its product is unknown, as that of a fee is.
    private func period(of line: StoreObject) throws(EvidenceError) -> PaidPeriod? {
        guard let product = try product(of: line) else { return nil }
        guard let period = try line.object("period") else { throw line.missing("period") }
        guard let start = try period.date("start", unit: 1_000) else { throw period.missing("start") }
        guard let end = try period.date("end", unit: 1_000) else { throw period.missing("end") }
        let parent = try line.object("parent")
        let details = try [parent?.object("subscription_item_details"), parent?.object("invoice_item_details"), line]
        var isProration = false
        for detail in details { isProration = try detail?.bool("proration") ?? false || isProration }
        return PaidPeriod(product: product, start: start, end: end, isProration: isProration)
    }

    /// Reads the state of a subscription. Stripe often creates and updates one within a second.
    func readSubscription(_ type: String, into evidence: inout VerifiedEvidence) throws(EvidenceError) {
        let isDeleted = type == "customer.subscription.deleted"
        let rank: UInt64 = isDeleted ? 2 : type == "customer.subscription.updated" ? 1 : 0
        let line = try reference(object.requiredID("id"), "id")
        let status = try object.required("status")
        let isRunning = ["active", "trialing", "past_due"].contains(status)
        let endsAtPeriodEnd = try endsAtPeriodEnd()
        evidence.line = line
        evidence.facts = [
            .renewalState(
                RenewalState(
                    line: line, willRenew: !isDeleted && isRunning && !endsAtPeriodEnd,
                    isInBillingRetry: !isDeleted && status == "past_due", stamp: stamp(rank: rank)))
        ]
    }

    /// True if the subscription is to end with its current period. "Basil" moved the period to the items.
    private func endsAtPeriodEnd() throws(EvidenceError) -> Bool {
        if try object.bool("cancel_at_period_end") { return true }
        guard let end = try object.date("cancel_at", unit: 1_000) else { return false }
        var ends: [Timestamp] = []
        if let end = try object.date("current_period_end", unit: 1_000) { ends.append(end) }
        for item in try object.object("items")?.objects("data") ?? [] {
            if let end = try item.date("current_period_end", unit: 1_000) { ends.append(end) }
        }
        return ends.max().map { end <= $0 } ?? true
    }
}
#endif
