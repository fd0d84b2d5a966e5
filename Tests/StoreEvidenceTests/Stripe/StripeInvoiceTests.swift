import Entitlements
import StoreEvidence
import Testing

@Suite("Invoices and subscriptions of Stripe")
struct StripeInvoiceTests {
    private static let (start, end) = (StripeStage.seconds, StripeStage.seconds + 2_592_000)
    private let invoice = StripeStage.reference("in_1")
    private let payment = StripeStage.reference("pi_2")
    private let payments = ",\"payments\":{\"data\":[{\"payment\":{\"payment_intent\":\"pi_2\"}}]}"

    /// A line of the API version "Basil".
    private static func line(
        _ price: String, amount: Int = 500, from start: Int64 = start, to end: Int64 = end, proration: Bool = false
    ) -> String {
        """
        {"amount":\(amount),"pricing":{"price_details":{"price":"\(price)"}},"period":{"start":\(start),"end":\(end)},
         "parent":{"subscription_item_details":{"proration":\(proration)}}}
        """
    }

    /// An invoice of the API version "Basil".
    private static func invoice(_ lines: String, _ members: String = "") -> String {
        """
        {"id":"in_1","parent":{"subscription_details":{"subscription":"sub_1",
         "metadata":{"entitlementsync_account":"ABC"}}},"lines":{"data":[\(lines)]}\(members)}
        """
    }

    /// The same invoice of an older API version.
    private static let older = """
        {"id":"in_1","subscription":"sub_1","payment_intent":"pi_2",
         "subscription_details":{"metadata":{"entitlementsync_account":"ABC"}},
         "lines":{"data":[{"amount":500,"price":{"id":"price_month"},"proration":false,
          "period":{"start":\(start),"end":\(end)}}]}}
        """

    private func verify(_ type: String, after delay: Int64 = 0, _ object: String) throws -> VerifiedEvidence {
        try StripeStage.verify(StripeStage.event(type, after: delay, object))
    }

    @Test("An invoice of any API version is one purchase of the paid period, in the line of its subscription")
    func shapes() throws {
        let basil = try verify("invoice.paid", Self.invoice(Self.line("price_month"), payments))
        let older = try verify("invoice.paid", Self.older)
        #expect(basil == older)
        let purchase = try basil.purchase
        #expect(purchase.transaction == invoice && purchase.line == StripeStage.reference("sub_1"))
        #expect(purchase.product == "month" && purchase.quantity == 1)
        #expect(purchase.date == Timestamp(milliseconds: Self.start * 1_000))
        #expect(purchase.storeExpiry == Timestamp(milliseconds: Self.end * 1_000))
        #expect(basil.accountToken == "abc" && basil.aliases == [payment: [invoice]])
        let expanded = Self.older.replacing("\"sub_1\"", with: "{\"id\":\"sub_1\"}")
            .replacing("\"pi_2\"", with: "{\"id\":\"pi_2\"}")
        #expect(try verify("invoice.paid", expanded) == older)
        let named = Self.older.replacing("{\"id\":\"price_month\"}", with: "\"price_month\"")
        #expect(try verify("invoice.paid", named) == older)
    }

    @Test("An invoice without a PaymentIntent, as after a full discount or for a trial, is a purchase without aliases")
    func discount() throws {
        let evidence = try verify("invoice.paid", Self.invoice(Self.line("price_month", amount: 0)))
        #expect(try evidence.purchase.transaction == invoice)
        #expect(evidence.aliases.isEmpty)
        let older = Self.older.replacing("\"payment_intent\":\"pi_2\",", with: "\"payment_intent\":null,")
        #expect(try verify("invoice.paid", older).aliases.isEmpty)
    }

    @Test("A payment of an invoice gives the PaymentIntent as its alias, whether before or after the invoice")
    func invoicePayment() throws {
        let object = "{\"id\":\"inpay_1\",\"invoice\":\"in_1\",\"payment\":{\"payment_intent\":\"pi_2\"}}"
        for delay in [-100, 100] as [Int64] {
            let evidence = try verify("invoice_payment.paid", after: delay, object)
            #expect(evidence.facts.isEmpty && evidence.aliases == [payment: [invoice]])
        }
        let charge = object.replacing("\"payment_intent\":\"pi_2\"", with: "\"charge\":\"ch_1\"")
        #expect(try verify("invoice_payment.paid", charge).aliases.isEmpty)
    }

    @Test("A subscription's Checkout and its invoice count once, and so do a one-time Checkout and its invoice")
    func countedOnce() throws {
        let session = try verify(
            "checkout.session.completed",
            "{\"id\":\"cs_2\",\"mode\":\"subscription\",\"payment_status\":\"paid\",\"subscription\":\"sub_1\","
                + "\"client_reference_id\":\"ABC\"}")
        #expect(session.facts.isEmpty && session.line == StripeStage.reference("sub_1"))
        #expect(session.accountToken == "abc")
        let single = "{\"id\":\"in_9\",\"payment_intent\":\"pi_1\",\"lines\":{\"data\":[\(Self.line("price_month"))]}}"
        let evidence = try verify("invoice.paid", single)
        #expect(evidence.facts.isEmpty && evidence.aliases.isEmpty && evidence.line == nil)
    }

    @Test("After a change of plan the new plan counts, and credits do not")
    func planChange() throws {
        let credit = Self.line("price_month", amount: -300, proration: true)
        let rest = Self.line("price_year", amount: 200, from: Self.start + 10, proration: true)
        #expect(try verify("invoice.paid", Self.invoice(credit + "," + rest)).purchase.product == "year")
        let regular = Self.line("price_month", from: Self.end, to: Self.end + 2_592_000)
        let both = try verify("invoice.paid", Self.invoice(rest + "," + regular)).purchase
        #expect(both.product == "month" && both.date == Timestamp(milliseconds: Self.end * 1_000))
    }

    @Test("Each product of an invoice counts for its own period, also beside a fee")
    func products() throws {
        let lines = [
            Self.line("price_year", to: Self.end * 2), Self.line("price_month"), Self.line("price_fee"),
            Self.line("price_month", to: Self.end - 1),
        ]
        let evidence = try verify("invoice.paid", Self.invoice(lines.joined(separator: ","), payments))
        #expect(evidence.purchases.map(\.product) == ["month", "year"])
        #expect(evidence.purchases.map(\.storeExpiry?.milliseconds) == [Self.end * 1_000, Self.end * 2_000])
        let transactions = [StripeStage.reference("in_1/month"), StripeStage.reference("in_1/year")]
        #expect(evidence.purchases.map(\.transaction) == transactions)
        #expect(evidence.purchases.map(\.line) == Array(repeating: StripeStage.reference("sub_1"), count: 2))
        #expect(evidence.aliases == [payment: [invoice], invoice: Set(transactions)])
        let added = [Self.line("price_month", proration: true), Self.line("price_year", proration: true)]
        #expect(try verify("invoice.paid", Self.invoice(added.joined(separator: ","))).purchases.count == 2)
    }

    @Test("An invoice without a known product states no facts, and says what to set")
    func unknownProduct() throws {
        let evidence = try verify("invoice.paid", Self.invoice(Self.line("price_new"), payments))
        #expect(evidence.facts.isEmpty && evidence.line == nil && evidence.aliases.isEmpty)
        #expect(evidence.unknownProduct.contains("of price_new is unknown"))
        #expect(evidence.unknownProduct.contains("--stripe-price price_new=PRODUCT"))
        #expect(evidence.unknownProduct.contains("stripe events resend evt_1"))
        #expect(try verify("invoice.paid", Self.invoice(Self.line("price_month"))).unknownProduct.isEmpty)
    }

    @Test("An invoice of credits only states no facts, as after a cancellation with a proration")
    func credits() throws {
        let credit = Self.line("price_month", amount: -300, proration: true)
        let evidence = try verify("invoice.paid", Self.invoice(credit))
        #expect(evidence.facts.isEmpty && evidence.aliases.isEmpty && evidence.unknownProduct.isEmpty)
    }

    @Test("A subscription that has ended states the end of all its periods")
    func ended() throws {
        let object = "{\"id\":\"sub_1\",\"status\":\"canceled\",\"ended_at\":\(Self.start)}"
        let evidence = try verify("customer.subscription.deleted", after: 5, object)
        #expect(evidence.subscription == StripeStage.reference("sub_1"))
        #expect(
            evidence.ending
                == SubscriptionEnding(
                    endedAt: StripeStage.now, statedAt: Timestamp(milliseconds: StripeStage.now.milliseconds + 5_000)))
        let running = object.replacing("\(Self.start)", with: "null")
        #expect(try verify("customer.subscription.updated", running).ending == nil)
    }

    @Test("The metadata of the price takes precedence over the map, and the map over the subscription's metadata")
    func precedence() throws {
        let metadata = ",\"metadata\":{\"entitlementsync_product\":\"other\"}"
        #expect(
            try verify("invoice.paid", Self.invoice(Self.line("price_month"), metadata)).purchase.product == "month")
        #expect(try verify("invoice.paid", Self.invoice(Self.line("price_new"), metadata)).purchase.product == "other")
        let own = "\"price_month\",\"metadata\":{\"entitlementsync_product\":\"own\"}"
        let named = Self.older.replacing("\"price_month\"", with: own)
        #expect(try verify("invoice.paid", named).purchase.product == "own")
    }

    // MARK: Subscriptions

    private func subscription(
        _ status: String, _ members: String = "", _ event: String = "updated", after delay: Int64 = 0
    ) throws -> RenewalState {
        let object = "{\"id\":\"sub_1\",\"status\":\"\(status)\"\(members)}"
        let evidence = try verify("customer.subscription.\(event)", after: delay, object)
        #expect(evidence.line == StripeStage.reference("sub_1"))
        return try #require(evidence.renewals.first)
    }

    @Test(
        "Each status of a subscription gives its renewal state",
        arguments: [
            ("active", true, false), ("trialing", true, false), ("past_due", true, true), ("unpaid", false, false),
            ("incomplete", false, false), ("incomplete_expired", false, false), ("canceled", false, false),
            ("paused", false, false), ("something_new", false, false),
        ])
    func statuses(_ status: String, renews: Bool, retries: Bool) throws {
        let state = try subscription(status)
        #expect(state.willRenew == renews && state.isInBillingRetry == retries)
        #expect(state.line == StripeStage.reference("sub_1"))
        let deleted = try subscription(status, "", "deleted")
        #expect(!deleted.willRenew && !deleted.isInBillingRetry)
    }

    @Test("A subscription that is to end does not renew, also with the periods of \"Basil\"")
    func ends() throws {
        #expect(try !subscription("active", ",\"cancel_at_period_end\":true").willRenew)
        let period = ",\"current_period_end\":\(Self.end)"
        let items = ",\"items\":{\"data\":[{\"current_period_end\":\(Self.end)}]}"
        for shape in [period, items] {
            #expect(try !subscription("active", shape + ",\"cancel_at\":\(Self.end)").willRenew)
            #expect(try subscription("active", shape + ",\"cancel_at\":\(Self.end + 1)").willRenew)
        }
        #expect(try !subscription("active", ",\"cancel_at\":\(Self.end)").willRenew)
    }

    @Test("Of a creation, an update and the end within a second, the last counts in every order of arrival")
    func oneSecond() throws {
        let states = [
            try subscription("incomplete", "", "created"), try subscription("active"),
            try subscription("canceled", "", "deleted"),
        ]
        for count in 1...3 {
            for order in permutations(Array(states.prefix(count))) {
                var ledger = Ledger()
                for state in order { ledger = ledger.joined(with: Ledger([Fact.renewalState(state).record])) }
                #expect(ledger.records.map { Fact($0) } == [.renewalState(states[count - 1])])
            }
        }
        #expect(try subscription("active", "", "created", after: 1).stamp > states[2].stamp)
    }
}
