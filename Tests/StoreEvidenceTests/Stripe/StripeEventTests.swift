import Crypto
import Entitlements
import Foundation
import StoreEvidence
import Testing

@Suite("Events of Stripe")
struct StripeEventTests {
    private static let secret = "whsec_test"
    private static let now = Timestamp(milliseconds: 1_780_000_000_000)
    private static let seconds: Int64 = 1_780_000_000

    private let verifier = StripeVerifier(secrets: ["whsec_old", StripeEventTests.secret])

    private func signature(
        _ body: String, time: Int64 = seconds, scheme: String = "v1", secret: String = secret
    ) -> String {
        let code = HMAC<SHA256>.authenticationCode(
            for: Data("\(time).\(body)".utf8), using: SymmetricKey(data: Data(secret.utf8)))
        return "t=\(time),\(scheme)=" + code.map { String(format: "%02x", $0) }.joined()
    }

    private func event(_ type: String, _ object: String) -> String {
        "{\"id\":\"evt_1\",\"type\":\"\(type)\",\"created\":\(Self.seconds),\"livemode\":true,"
            + "\"data\":{\"object\":\(object)}}"
    }

    private var checkout: String {
        event(
            "checkout.session.completed",
            """
            {"id":"cs_1","mode":"payment","payment_status":"paid","payment_intent":"pi_1","created":1779999999,
             "client_reference_id":"ABC","metadata":{"entitlementsync_product":"owl"}}
            """)
    }

    private func verify(_ body: String) throws -> VerifiedEvidence {
        try verifier.event(Array(body.utf8), signature: signature(body), now: Self.now)
    }

    private func expectRefusal(_ check: EvidenceError.Check, _ body: String, _ signature: String) {
        let error = #expect(throws: EvidenceError.self) {
            try verifier.event(Array(body.utf8), signature: signature, now: Self.now)
        }
        #expect(error?.check == check, "\(error.map { "\($0)" } ?? "accepted")")
    }

    @Test("A paid Checkout gives a purchase of its PaymentIntent and the account token")
    func checkoutPaid() throws {
        let evidence = try verify(checkout)
        guard case .purchase(let purchase)? = evidence.facts.first else {
            Issue.record("no purchase: \(evidence.facts)")
            return
        }
        #expect(evidence.facts.count == 1)
        #expect(purchase.transaction == TransactionReference(store: .stripe, id: "pi_1"))
        #expect(purchase.product == "owl")
        #expect(evidence.accountToken == "abc")
    }

    @Test("A subscription's Checkout gives only the owner, and its invoice the purchase and the name of its payment")
    func subscription() throws {
        let session = try verify(
            event(
                "checkout.session.completed",
                "{\"id\":\"cs_2\",\"mode\":\"subscription\",\"payment_status\":\"paid\",\"subscription\":\"sub_1\","
                    + "\"client_reference_id\":\"abc\"}"))
        #expect(session.facts.isEmpty)
        #expect(session.line?.id == "sub_1")
        let invoice = try verify(
            event(
                "invoice.paid",
                """
                {"id":"in_1","subscription":"sub_1","payment_intent":"pi_2","lines":{"data":[{"amount":500,
                 "metadata":{"entitlementsync_product":"month"},"period":{"start":1780000000,"end":1782592000}}]}}
                """))
        guard case .purchase(let purchase)? = invoice.facts.first else {
            Issue.record("no purchase: \(invoice.facts)")
            return
        }
        #expect(purchase.transaction.id == "in_1" && purchase.line.id == "sub_1")
        #expect(purchase.storeExpiry == Timestamp(milliseconds: 1_782_592_000_000))
        let payment = TransactionReference(store: .stripe, id: "pi_2")
        #expect(invoice.aliases == [payment: purchase.transaction])
        let refund = try verify(
            event("charge.refunded", "{\"id\":\"ch_1\",\"refunded\":true,\"payment_intent\":\"pi_2\"}"))
        #expect(
            refund.facts.compactMap { if case .revocation(let fact) = $0 { fact.transaction } else { nil } } == [
                payment
            ])
    }

    @Test("A header that was signed more than five minutes ago is refused")
    func old() {
        expectRefusal(.signedDate, checkout, signature(checkout, time: Self.seconds - 301))
    }

    @Test("A signature of the scheme v0 alone is refused")
    func onlyV0() { expectRefusal(.header, checkout, signature(checkout, scheme: "v0")) }

    @Test("A body that was serialised again, and another secret, are refused")
    func changed() {
        expectRefusal(.signature, checkout.replacing(",", with: ", "), signature(checkout))
        expectRefusal(.signature, checkout, signature(checkout, secret: "whsec_other"))
    }

    @Test("Every oversize is refused, and unknown types give no facts")
    func oversize() throws {
        let long = String(repeating: " ", count: EvidenceLimits.notification) + checkout
        expectRefusal(.size, long, signature(long))
        #expect(try verify(event("customer.created", "{\"id\":\"cus_1\"}")).facts.isEmpty)
    }

    @Test("A product that is not named anywhere is refused with the name of the setting")
    func unknownProduct() {
        let body = event(
            "checkout.session.completed",
            "{\"id\":\"cs_1\",\"mode\":\"payment\",\"payment_status\":\"paid\",\"payment_intent\":\"pi_1\"}")
        let error = #expect(throws: EvidenceError.self) { try verify(body) }
        #expect(error?.check == .content)
        #expect(error?.reason.contains("entitlementsync_product") == true)
    }
}
