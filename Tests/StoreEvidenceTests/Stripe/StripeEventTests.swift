import Entitlements
import StoreEvidence
import Testing

@Suite("Events of Stripe")
struct StripeEventTests {
    private func checkout(
        _ type: String = "checkout.session.completed", _ change: (String) -> String = { $0 }
    ) throws -> VerifiedEvidence {
        try StripeStage.verify(StripeStage.event(type, change(StripeStage.checkout())))
    }

    @Test(
        "A paid Checkout gives a purchase of its PaymentIntent and the account token",
        arguments: ["checkout.session.completed", "checkout.session.async_payment_succeeded"])
    func checkoutPaid(_ type: String) throws {
        let evidence = try checkout(type)
        #expect(evidence.kind == .stripe && evidence.event == type && evidence.eventID == "evt_1")
        #expect(evidence.signedDate == StripeStage.now && evidence.accountToken == "abc")
        #expect(evidence.aliases.isEmpty && evidence.line == nil)
        #expect(
            evidence.facts == [
                .purchase(
                    Purchase(
                        transaction: StripeStage.reference("pi_1"), product: "owl", terms: nil,
                        date: StripeStage.now, quantity: 1, stamp: .signed(at: StripeStage.now)))
            ])
    }

    @Test("A Checkout that is paid days after its creation is dated with its payment, also if the event is repeated")
    func latePayment() throws {
        let created = StripeStage.checkout().replacing("1779999999", with: "\(StripeStage.seconds - 10 * 86_400)")
        let unpaid = created.replacing("\"paid\"", with: "\"unpaid\"")
        #expect(try StripeStage.verify(StripeStage.event("checkout.session.completed", unpaid)).facts.isEmpty)
        let event = StripeStage.event("checkout.session.async_payment_succeeded", after: -60, created)
        for _ in 0..<2 {
            let paidAt = Timestamp(milliseconds: (StripeStage.seconds - 60) * 1_000)
            #expect(try StripeStage.verify(event).purchase.date == paidAt)
        }
    }

    @Test("A Checkout that is not paid yet, or sets up a payment method, gives no facts")
    func unpaid() throws {
        #expect(try checkout { $0.replacing("\"paid\"", with: "\"unpaid\"") }.facts.isEmpty)
        #expect(try checkout { $0.replacing("\"payment\"", with: "\"setup\"") }.facts.isEmpty)
    }

    @Test("A Checkout with nothing to pay is the transaction of its session, and one without an amount is none")
    func discount() throws {
        func free(_ members: String) throws -> VerifiedEvidence {
            try checkout {
                $0.replacing("\"paid\"", with: "\"no_payment_required\"")
                    .replacing("\"payment_intent\":\"pi_1\"", with: "\"payment_intent\":null" + members)
            }
        }
        #expect(try free(",\"amount_total\":0").purchase.transaction == StripeStage.reference("cs_1"))
        #expect(try free("").facts.isEmpty)
    }

    @Test("The quantity of one unit comes from the metadata, and must be in range")
    func quantity() throws {
        func sell(_ quantity: String) -> String {
            StripeStage.checkout().replacing(
                "\"owl\"", with: "\"owl\",\"entitlementsync_quantity\":\"\(quantity)\"")
        }
        let event = StripeStage.event("checkout.session.completed", sell("25"))
        let evidence = try StripeStage.verify(event)
        #expect(try evidence.purchase.quantity == 25)
        // Stripe sends no line items to a webhook, so the buyer may have paid several units.
        #expect(
            evidence.warnings == [
                "the event does not say how many units were bought, so one is recorded, of the quantity 25; if the "
                    + "buyer can adjust the quantity, set metadata entitlementsync_unit_amount of the session to the "
                    + "price of one unit"
            ])
        for quantity in ["0", "-1", "10001", "many"] {
            StripeStage.expectRefusal(.content, StripeStage.event("checkout.session.completed", sell(quantity)))
        }
    }

    @Test("The account token comes from the metadata if the session has no reference")
    func token() throws {
        let evidence = try checkout {
            $0.replacing("\"client_reference_id\":\"ABC\"", with: "\"client_reference_id\":null")
                .replacing("\"owl\"", with: "\"owl\",\"entitlementsync_account\":\"DEF\"")
        }
        #expect(evidence.accountToken == "def")
    }

    @Test("A Checkout without a product in its metadata states no facts, and says what to set")
    func unknownProduct() throws {
        let evidence = try checkout { $0.replacing("entitlementsync_product", with: "product") }
        #expect(evidence.facts.isEmpty)
        #expect(evidence.unknownProduct.contains("metadata entitlementsync_product of the session"))
        #expect(try checkout().unknownProduct.isEmpty)
    }

    @Test("The number of units that the buyer chose multiplies the quantity of a unit")
    func adjustableQuantity() throws {
        func sell(_ count: Int, unit: String) throws -> VerifiedEvidence {
            try checkout {
                $0.replacing("\"owl\"", with: "\"owl\",\"entitlementsync_quantity\":\"\(unit)\"")
                    .replacing("\"mode\"", with: "\"line_items\":{\"data\":[{\"quantity\":\(count)}]},\"mode\"")
            }
        }
        let evidence = try sell(3, unit: "20")
        #expect(try evidence.purchase.quantity == 60 && evidence.warnings.isEmpty)
        let error = #expect(throws: EvidenceError.self) { try sell(3, unit: "5000") }
        #expect(error?.reason == "3 times entitlementsync_quantity 5000 must be 1 to 10,000, not 15000")
    }

    @Test("Without line items the subtotal divided by the price of a unit is the number of units, without a remainder")
    func unitAmount() throws {
        func sell(_ amount: String, unit: String, _ members: String = "") throws -> VerifiedEvidence {
            let metadata = "\"owl\",\"entitlementsync_quantity\":\"20\",\"entitlementsync_unit_amount\":\"\(unit)\""
            return try checkout {
                $0.replacing("\"owl\"", with: metadata)
                    .replacing("\"mode\"", with: "\"amount_subtotal\":\(amount)\(members),\"mode\"")
            }
        }
        let evidence = try sell("1497", unit: "499")
        #expect(try evidence.purchase.quantity == 60 && evidence.warnings.isEmpty)
        #expect(try sell("499", unit: "499").purchase.quantity == 20)
        let converted = ",\"currency_conversion\":{\"amount_subtotal\":998}"
        #expect(try sell("1400", unit: "499", converted).purchase.quantity == 40)
        let lines = ",\"line_items\":{\"data\":[{\"quantity\":2}]}"
        #expect(try sell("1497", unit: "499", lines).purchase.quantity == 40)
        for (amount, unit, reason) in [
            (
                "1500", "499",
                "amount_subtotal must be a multiple of entitlementsync_unit_amount, which is 499, and not 1500"
            ),
            ("1497", "0", "entitlementsync_unit_amount must be positive, not 0"),
            (
                "9000000000000000", "1",
                "amount_subtotal 9000000000000000 divided by entitlementsync_unit_amount 1 must be 1 to 10,000, "
                    + "not 9000000000000000"
            ),
        ] {
            let error = #expect(throws: EvidenceError.self) { try sell(amount, unit: unit) }
            #expect(error?.reason == reason)
        }
        let error = #expect(throws: EvidenceError.self) { try sell("null", unit: "499") }
        #expect(error?.reason.contains("amount_subtotal") == true)
    }

    @Test("A thin event states no facts, whatever its type and date are")
    func thinEvent() throws {
        let body =
            "{\"id\":\"evt_1\",\"object\":\"v2.core.event\",\"type\":\"invoice.paid\",\"livemode\":true,"
            + "\"created\":\"2026-05-28T20:26:40.000Z\",\"related_object\":{\"id\":\"in_1\",\"type\":\"invoice\"}}"
        let evidence = try StripeStage.verify(body)
        #expect(evidence.facts.isEmpty && evidence.event == "invoice.paid" && evidence.eventID == "evt_1")
        #expect(evidence.unknownProduct.hasPrefix("invoice.paid is a thin event"))
    }

    @Test("An error says if the signature of the event was valid")
    func authenticated() {
        for body in ["x", StripeStage.event("charge.refunded", livemode: nil, "{}")] {
            let valid = #expect(throws: EvidenceError.self) { try StripeStage.verify(body) }
            #expect(valid?.isAuthenticated == true)
            let forged = #expect(throws: EvidenceError.self) {
                try StripeStage.verifier.event(
                    Array(body.utf8), signature: StripeStage.signature(body, secret: "whsec_other"),
                    now: StripeStage.now)
            }
            #expect(forged?.isAuthenticated == false)
        }
    }

    @Test("An event of test mode is filed under the environment test, and one without a mode is refused")
    func livemode() throws {
        let body = StripeStage.event("checkout.session.completed", livemode: "false", StripeStage.checkout())
        #expect(try StripeStage.verify(body).purchase.transaction == StripeStage.reference("pi_1", in: .test))
        for mode in [nil, "null", "\"true\"", "1"] {
            StripeStage.expectRefusal(
                .content, because: "livemode",
                StripeStage.event("checkout.session.completed", livemode: mode, StripeStage.checkout()))
        }
    }

    @Test("An unknown type gives no facts")
    func unknownType() throws {
        let evidence = try StripeStage.verify(StripeStage.event("customer.created", "{\"id\":\"cus_1\"}"))
        #expect(evidence.facts.isEmpty && evidence.line == nil && evidence.aliases.isEmpty)
        #expect(evidence.event == "customer.created")
    }

    @Test("Repeated members, other JSON and missing members are refused")
    func malformed() {
        StripeStage.expectRefusal(.format, StripeStage.event("invoice.paid", "{\"id\":\"in_1\",\"id\":\"in_2\"}"))
        StripeStage.expectRefusal(.format, "[]")
        StripeStage.expectRefusal(.content, because: "type", "{}")
        StripeStage.expectRefusal(.content, because: "created", "{\"type\":\"invoice.paid\"}")
        StripeStage.expectRefusal(
            .content, because: "data",
            "{\"type\":\"invoice.paid\",\"created\":\(StripeStage.seconds),\"livemode\":true}")
    }
}
