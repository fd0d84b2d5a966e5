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
            try readOneTimePurchase(into: &evidence)
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

    private func readOneTimePurchase(into evidence: inout VerifiedEvidence) throws(EvidenceError) {
        let lines = try object.object("line_items")?.objects("data") ?? []
        var product = try product(of: nil)
        for line in lines { product = try self.product(of: line) ?? product }
        guard let product else {
            evidence.unknownProduct =
                "the product of the Checkout session is unknown, because Stripe does not send its prices; set "
                + "metadata \(StripeVerifier.productKey) of the session when you create it"
            return
        }
        guard lines.count <= 1 else {
            throw EvidenceError(.content, "the Checkout session sells \(lines.count) products; sell one per session")
        }
        // The buyer may have changed the number of units, each of which stands for the stated quantity.
        let unit = try object.object("metadata")?.quantity(StripeVerifier.quantityKey) ?? 1
        let chosen = try lines.first?.quantity()
        let stated: Int64? = if let chosen { chosen } else { try unitCount() }
        if stated == nil {
            evidence.warnings.append(
                "the event does not say how many units were bought, so one is recorded, of the quantity \(unit); if "
                    + "the buyer can adjust the quantity, set metadata \(StripeVerifier.unitAmountKey) of the session "
                    + "to the price of one unit")
        }
        let count = stated ?? 1
        try checkQuantity(unit * count, "\(count) times \(StripeVerifier.quantityKey) \(unit)")
        let payment = try object.reference("payment_intent")
        let id = if let payment { payment } else { try object.requiredID("id") }
        evidence.facts = [
            .purchase(
                Purchase(
                    transaction: try reference(id, "payment_intent"), product: product, terms: nil, date: date,
                    quantity: unit * count, stamp: stamp()))
        ]
    }

    /// The number of units of a session without line items: its subtotal, which precedes discounts and taxes, divided
    /// by the price of a unit in the metadata. `nil` without that price.
    private func unitCount() throws(EvidenceError) -> Int64? {
        let key = StripeVerifier.unitAmountKey
        guard let price = try object.object("metadata")?.integer(key) else { return nil }
        guard price > 0 else { throw EvidenceError(.content, "\(key) must be positive, not \(price)") }
        // If the buyer pays in another currency, the session also states the amount in the currency of the price.
        let converted = try object.object("currency_conversion")?.integer("amount_subtotal")
        let stated = if let converted { converted } else { try object.integer("amount_subtotal") }
        guard let amount = stated else { throw object.missing("amount_subtotal") }
        guard amount.isMultiple(of: price) else {
            throw EvidenceError(
                .content, "amount_subtotal must be a multiple of \(key), which is \(price), and not \(amount)")
        }
        try checkQuantity(amount / price, "amount_subtotal \(amount) divided by \(key) \(price)")
        return amount / price
    }

    /// Reads a paid invoice. One that belongs to no subscription gives no facts: its Checkout session is the purchase.
    func readInvoice(into evidence: inout VerifiedEvidence) throws(EvidenceError) {
        let details = try object.object("parent")?.object("subscription_details")
        let former = try object.reference("subscription")
        guard let subscription = try details?.reference("subscription") ?? former else { return }
        let invoice = try reference(object.requiredID("id"), "id")
        let line = try reference(subscription, "subscription")
        var charges: [StoreObject] = []
        for line in try object.object("lines")?.objects("data") ?? [] where try line.integer("amount") ?? 0 >= 0 {
            charges.append(line)
        }
        // Credits pay for nothing. A subscription that is cancelled with a proration has an invoice of credits only.
        guard !charges.isEmpty else { return }
        let periods = try paidPeriods(charges)
        guard !periods.isEmpty else {
            evidence.unknownProduct = try unknownProduct(prices: charges)
            return
        }
        (evidence.line, evidence.subscription) = (line, line)
        for period in periods {
            let isOnly = periods.count == 1
            let transaction = isOnly ? invoice : try reference("\(invoice.id)/\(period.product)", "id")
            if !isOnly { evidence.aliases[invoice, default: []].insert(transaction) }
            evidence.facts.append(
                .purchase(
                    Purchase(
                        transaction: transaction, product: period.product, terms: nil, date: period.start,
                        originalID: line.id, storeExpiry: period.end, stamp: stamp())))
        }
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

    /// Returns the period of each product that the invoice pays, in ascending order of the products.
    ///
    /// Regular lines take precedence over prorations, and each of their products counts with its latest end and start.
    /// Of prorations, only the products of the latest period count: after several changes of plan, those of the last.
    private func paidPeriods(_ charges: [StoreObject]) throws(EvidenceError) -> [PaidPeriod] {
        var periods: [PaidPeriod] = []
        for line in charges {
            if let period = try period(of: line) { periods.append(period) }
        }
        if periods.contains(where: { !$0.isProration }) {
            periods.removeAll(where: \.isProration)
        } else if let last = periods.max(by: { ($0.end, $0.start) < ($1.end, $1.start) }) {
            periods.removeAll { ($0.end, $0.start) != (last.end, last.start) }
        }
        var latest: [ProductID: PaidPeriod] = [:]
        for period in periods {
            if let known = latest[period.product], (known.end, known.start) >= (period.end, period.start) { continue }
            latest[period.product] = period
        }
        return latest.values.sorted { $0.product < $1.product }
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
        (evidence.line, evidence.subscription) = (line, line)
        if let end = try object.date("ended_at", unit: 1_000) {
            evidence.ending = SubscriptionEnding(endedAt: end, statedAt: date)
        }
        evidence.unknownProduct = try unknownItems()
        evidence.facts = [
            .renewalState(
                RenewalState(
                    line: line, willRenew: !isDeleted && isRunning && !endsAtPeriodEnd,
                    isInBillingRetry: !isDeleted && status == "past_due", stamp: stamp(rank: rank)))
        ]
    }

    /// The reason why all products of the subscription are unknown; empty if one is known or none is stated.
    private func unknownItems() throws(EvidenceError) -> String {
        let items = try object.object("items")?.objects("data") ?? []
        for item in items {
            guard try priceID(of: item) != nil, try product(of: item) == nil else { return "" }
        }
        return items.isEmpty ? "" : try unknownProduct(prices: items)
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
