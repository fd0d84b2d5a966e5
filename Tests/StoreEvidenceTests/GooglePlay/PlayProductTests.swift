import Entitlements
@testable import StoreEvidence
import Testing

@Suite("One-time products of Google Play")
struct PlayProductTests {
    private static let date = Result { try Timestamp("2026-05-01T10:00:00Z") }

    private static func item(_ product: String = "owl", _ details: String = "\"quantity\":1") -> String {
        "{\"productId\":\"\(product)\",\"productOfferDetails\":{\(details)}}"
    }

    private static func answer(
        _ state: String = "PURCHASED", _ items: String..., order: String? = "GPA.1-2", isPaid: Bool = true,
        members: String = ""
    ) -> String {
        let order = order.map { "\"orderId\":\"\($0)\"," } ?? ""
        let paid = isPaid ? "\"purchaseCompletionTime\":\"2026-05-01T10:00:00Z\"," : ""
        let items = items.isEmpty ? [item()] : items
        return "{\(order)\(paid)\"purchaseStateContext\":{\"purchaseState\":\"\(state)\"},"
            + "\"obfuscatedExternalAccountId\":\"ABC\",\"productLineItem\":[\(items.joined(separator: ","))]\(members)}"
    }

    private func read(_ json: String, statedAt: Timestamp? = PlayStage.now) throws -> VerifiedEvidence {
        try PlayStage.verifier().product(Array(json.utf8), purchaseToken: "token", statedAt: statedAt)
    }

    @Test("A paid purchase counts from its payment, under the names of a purchase that a device sends")
    func paid() throws {
        let evidence = try read(Self.answer())
        #expect(evidence.kind == .googlePlayProduct && evidence.event == "PURCHASED")
        #expect(evidence.accountToken == "abc" && evidence.signedDate == PlayStage.now)
        #expect(
            evidence.facts == [
                .purchase(
                    Purchase(
                        transaction: PlayStage.reference("GPA.1-2/owl"), product: "owl", terms: nil,
                        date: try Self.date.get(), stamp: .signed(at: PlayStage.now)))
            ])
        let sent = try PlayStage.purchase(PlayStage.data(order: "GPA.1-2"))
        #expect(try evidence.aliases == sent.aliases && evidence.purchase.transaction == sent.purchase.transaction)
        let withoutOrder = try read(Self.answer(order: nil)).purchase
        #expect(withoutOrder.transaction == PlayStage.reference("token/owl"))
    }

    @Test("A purchase that awaits its payment, or was cancelled before, gives no facts")
    func unpaid() throws {
        for json in [Self.answer("PENDING", isPaid: false), Self.answer("CANCELLED", isPaid: false)] {
            let evidence = try read(json)
            #expect(evidence.facts.isEmpty && evidence.aliases.isEmpty && evidence.unacknowledged == nil)
        }
    }

    @Test("What was refunded of a quantity does not count, and all of it is a revocation that yields to a dated one")
    func refunds() throws {
        func left(_ count: Int) throws -> VerifiedEvidence {
            try read(Self.answer("PURCHASED", Self.item("owl", "\"quantity\":3,\"refundableQuantity\":\(count)")))
        }
        #expect(try left(3).purchase.quantity == 3 && left(1).purchase.quantity == 1)
        #expect(try left(1).revocations.isEmpty)
        for evidence in [try left(0), try read(Self.answer("CANCELLED", Self.item("owl", "\"quantity\":3")))] {
            #expect(try evidence.purchase.quantity == 3)
            let revocation = try #require(evidence.revocations.first)
            #expect(revocation.transaction == PlayStage.reference("GPA.1-2/owl"))
            #expect(revocation.revokedAt == PlayStage.now)
            #expect(revocation.stamp < .signed(at: try Self.date.get()) && revocation.stamp.signedDate != nil)
        }
        PlayStage.expectRefusal(.content, because: "refundableQuantity must be 0 to 3, the quantity, not 4") {
            try left(4)
        }
    }

    @Test("Each product of an order counts, and lines of one product count together")
    func items() throws {
        let two = Self.item("owl", "\"quantity\":2,\"refundableQuantity\":1")
        let purchases = try read(Self.answer("PURCHASED", two, Self.item("extra"), two)).purchases
        #expect(purchases.map(\.transaction.id) == ["GPA.1-2/extra", "GPA.1-2/owl"])
        #expect(purchases.map(\.quantity) == [1, 2])
    }

    @Test("A purchase of a licence tester is filed under the environment test")
    func tester() throws {
        let evidence = try read(Self.answer(members: ",\"testPurchaseContext\":{\"fopType\":\"TEST\"}"))
        #expect(try evidence.purchase.transaction == PlayStage.reference("GPA.1-2/owl", in: .test))
        #expect(evidence.aliases[PlayStage.reference("GPA.1-2")] == [PlayStage.reference("GPA.1-2/owl", in: .test)])
    }

    @Test("A paid purchase that is not acknowledged is named")
    func acknowledgement() throws {
        let members = ",\"acknowledgementState\":\"ACKNOWLEDGEMENT_STATE_PENDING\""
        let purchase = UnacknowledgedPurchase(isSubscription: false, product: "owl", purchaseToken: "token")
        #expect(try read(Self.answer(members: members)).unacknowledged == purchase)
        #expect(try read(Self.answer("CANCELLED", members: members)).unacknowledged == nil)
        #expect(try read(Self.answer()).unacknowledged == nil)
    }

    @Test("Missing and invalid members, unknown states and every oversize are refused")
    func malformed() {
        for (check, json) in [
            (.content, "{}"), (.content, Self.answer(isPaid: false)),
            (.content, Self.answer().replacing("productLineItem", with: "lineItems")),
            (.content, Self.answer("PURCHASED", Self.item("owl", "\"quantity\":0"))),
            (.content, Self.answer("PURCHASED", Self.item(""))), (.state, Self.answer("SOMETHING_NEW")),
            (.format, "[]"), (.size, String(repeating: " ", count: EvidenceLimits.notification) + "{}"),
        ] as [(EvidenceError.Check, String)] {
            PlayStage.expectRefusal(check) { try read(json) }
        }
    }
}
