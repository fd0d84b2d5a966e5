import Entitlements
import EvidenceTestSupport
import StoreEvidence
import Testing

@Suite("Purchases of Google Play")
struct GooglePlayPurchaseTests {
    private func expectRefusal(
        _ check: EvidenceError.Check, because text: String = "", _ data: String, _ signature: String? = nil,
        isTransient: Bool = false, sourceLocation: SourceLocation = #_sourceLocation
    ) {
        PlayStage.expectRefusal(check, because: text, isTransient: isTransient, sourceLocation: sourceLocation) {
            try PlayStage.verifier().purchase(
                data: data, signature: signature ?? PlayStage.sign(data), now: PlayStage.now)
        }
    }

    @Test("A signed purchase gives its order, its line and the account token")
    func purchase() throws {
        let evidence = try PlayStage.purchase(PlayStage.data())
        let purchase = try evidence.purchase
        #expect(evidence.facts.count == 1)
        #expect(purchase.transaction == PlayStage.reference("GPA.1-2..3/owl"))
        #expect(purchase.line.id == "GPA.1-2/owl")
        #expect(purchase.product == "owl" && purchase.quantity == 1)
        #expect(purchase.stamp.signedDate == Timestamp(milliseconds: 1_779_999_000_000))
        #expect(evidence.accountToken == "abc")
    }

    @Test("Refunds may name the order or the purchase token without a product")
    func aliases() throws {
        #expect(
            try PlayStage.purchase(PlayStage.data()).aliases == [
                PlayStage.reference("GPA.1-2..3"): [PlayStage.reference("GPA.1-2..3/owl")],
                PlayStage.reference("token"): [
                    PlayStage.reference("GPA.1-2/owl"), PlayStage.reference("GPA.1-2..3/owl"),
                ],
            ])
    }

    @Test("Each product of an order is a purchase, with the same name as if it were the only one")
    func products() throws {
        let both = try PlayStage.purchase(PlayStage.data(products: "\"productIds\":[\"owl\",\"extra\",\"owl\"]"))
        let one = try PlayStage.purchase(PlayStage.data(products: "\"productIds\":[\"owl\"]"))
        #expect(both.purchases.map(\.transaction.id) == ["GPA.1-2..3/extra", "GPA.1-2..3/owl"])
        #expect(both.purchases.map(\.line.id) == ["GPA.1-2/extra", "GPA.1-2/owl"])
        #expect(both.purchases.last == one.purchases.first)
        #expect(
            both.aliases[PlayStage.reference("GPA.1-2..3")] == [
                PlayStage.reference("GPA.1-2..3/extra"), PlayStage.reference("GPA.1-2..3/owl"),
            ])
    }

    @Test("A purchase without an order is named by its token, and a long name by its digest")
    func token() throws {
        let evidence = try PlayStage.purchase(PlayStage.data(order: nil))
        #expect(try evidence.purchase.transaction.id == "token/owl")
        #expect(evidence.aliases == [PlayStage.reference("token"): [PlayStage.reference("token/owl")]])
        let long = String(repeating: "t", count: 300)
        let named = try PlayStage.purchase(PlayStage.data(order: nil).replacing("\"token\"", with: "\"\(long)\""))
        let id = try named.purchase.transaction.id.rawValue
        #expect(id.hasPrefix("sha256:") && id.utf8.count == 71)
    }

    @Test("Only a number after two dots in an order of Google Play counts renewals")
    func lines() throws {
        for (order, line) in [
            ("GPA.1-2", "GPA.1-2"), ("GPA.1-2..0", "GPA.1-2"), ("GPA.1-2..", "GPA.1-2.."), ("GPA.1-2.3", "GPA.1-2.3"),
            ("X..3", "X..3"), ("GPA.1..2..17", "GPA.1..2"),
        ] {
            let line = TransactionID(line + "/owl")
            #expect(try PlayStage.purchase(PlayStage.data(order: order)).purchase.line.id == line)
        }
    }

    @Test("The quantity must be in range")
    func quantity() throws {
        #expect(try PlayStage.purchase(PlayStage.data(",\"quantity\":3")).purchase.quantity == 3)
        for quantity in ["0", "-1", "10001", "1.5", "true"] {
            expectRefusal(.content, because: "quantity", PlayStage.data(",\"quantity\":\(quantity)"))
        }
    }

    @Test("An edited text is refused")
    func edited() throws {
        let signature = try PlayStage.sign(PlayStage.data())
        expectRefusal(.signature, PlayStage.data(order: "GPA.9-9"), signature)
        expectRefusal(.signature, PlayStage.data() + " ", signature)
    }

    @Test("The signature of another app's key is refused")
    func anotherKey() throws {
        let key = try PlayKey()
        expectRefusal(.signature, PlayStage.data(), try PlayStage.sign(PlayStage.data(), by: key))
    }

    @Test("A purchase that is pending or cancelled is refused")
    func pending() {
        expectRefusal(.state, because: "pending", PlayStage.data(state: 4))
        for state in [1, 2, -1] { expectRefusal(.state, because: "not paid", PlayStage.data(state: state)) }
    }

    @Test("A purchase without a state is bought")
    func noState() throws {
        let data = PlayStage.data().replacing("\"purchaseState\":0,", with: "")
        #expect(!data.contains("purchaseState"))
        #expect(try PlayStage.purchase(data).facts == PlayStage.purchase(PlayStage.data()).facts)
        for value in ["true", "[]"] {
            let wrong = PlayStage.data().replacing("\"purchaseState\":0", with: "\"purchaseState\":\(value)")
            expectRefusal(.content, because: "purchaseState", wrong)
        }
    }

    @Test("A purchase of another package is refused")
    func anotherPackage() {
        expectRefusal(.app, because: "com.example.other", PlayStage.data(package: "com.example.other"))
    }

    @Test("A purchase of the future is refused for now, and accepted within 5 minutes")
    func future() throws {
        let date = Timestamp(milliseconds: 1_779_999_000_000)
        #expect(
            try PlayStage.purchase(PlayStage.data(), now: Timestamp(milliseconds: date.milliseconds - 300_000)).facts
                .count == 1)
        PlayStage.expectRefusal(.signedDate, because: "purchaseTime", isTransient: true) {
            try PlayStage.purchase(PlayStage.data(), now: Timestamp(milliseconds: date.milliseconds - 300_001))
        }
    }

    @Test("Repeated members, a signature with line breaks, and every oversize are refused")
    func malformed() throws {
        let repeated = PlayStage.data(products: "\"productId\":\"owl\",\"productId\":\"gold\"")
        expectRefusal(.format, repeated)
        expectRefusal(.format, because: "base64", PlayStage.data(), try PlayStage.sign(PlayStage.data()) + "\n")
        let long = String(repeating: " ", count: EvidenceLimits.transaction) + PlayStage.data()
        expectRefusal(.size, because: "purchase data", long)
        let code = String(repeating: "A", count: EvidenceLimits.transaction + 4)
        expectRefusal(.size, because: "the signature", PlayStage.data(), code)
        for code in ["", "AAAA"] { expectRefusal(.signature, PlayStage.data(), code) }
    }

    @Test("A key that is not base64, not RSA, or too short is refused")
    func keys() throws {
        let short = "MFwwDQYJKoZIhvcNAQEBBQADSwAwSAJBAMsPZOQ6f8EJKBPBeq8Bll4GYN8c9ufuuXg9NNYbS9Gvqd3vW0j4fSvD"
        for (text, reason) in [("*", "not base64"), ("AAAA", "2048 bits"), (short, "2048 bits"), ("", "2048 bits")] {
            let error = #expect(throws: EvidenceError.self) {
                try GooglePlayVerifier(packageNames: ["com.example.owl"], publicKey: text)
            }
            #expect(error?.check == .format && error?.reason.contains(reason) == true)
        }
    }
}
