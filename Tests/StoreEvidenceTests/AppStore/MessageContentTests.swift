import Entitlements
import EvidenceTestSupport
import StoreEvidence
import Testing

@Suite("Fields of the App Store's messages")
struct MessageContentTests {
    private let foundry: AppStoreFoundry

    init() throws { foundry = try AppStoreFoundry.valid.get() }

    private func expectRefusal(
        _ text: String, sourceLocation: SourceLocation = #_sourceLocation, _ body: () throws -> VerifiedEvidence
    ) {
        AppStoreStage.expectRefusal(.content, text, sourceLocation: sourceLocation, body)
    }

    @Test("An account token, a type, a subtype and an id of a notification that are too long are refused")
    func lengths() throws {
        let (longest, long) = (String(repeating: "A", count: 255), String(repeating: "A", count: 256))
        let transaction = try foundry.transaction(["appAccountToken": .text(longest)])
        #expect(try AppStoreStage.transaction(transaction).accountToken == longest.lowercased())
        expectRefusal("appAccountToken must have at most 255 bytes, not 256") {
            try AppStoreStage.transaction(foundry.transaction(["appAccountToken": .text(long)]))
        }
        #expect(try AppStoreStage.notification(foundry.notification(longest, transaction: [:])).event == longest)
        expectRefusal("notificationType must have") {
            try AppStoreStage.notification(foundry.notification(long, transaction: [:]))
        }
        expectRefusal("subtype must have") {
            try AppStoreStage.notification(foundry.notification("DID_RENEW", long, transaction: [:]))
        }
    }

    @Test(
        "A notification about a purchase must have a transaction",
        arguments: [
            ("SUBSCRIBED", "INITIAL_BUY"), ("OFFER_REDEEMED", nil), ("DID_RENEW", nil),
            ("DID_RENEW", "BILLING_RECOVERY"), ("ONE_TIME_CHARGE", nil), ("DID_CHANGE_RENEWAL_PREF", "UPGRADE"),
            ("RENEWAL_EXTENDED", nil), ("REFUND", nil), ("REVOKE", nil), ("REFUND_REVERSED", nil),
        ] as [(String, String?)])
    func withoutTransaction(_ type: String, _ subtype: String?) throws {
        expectRefusal("must have signedTransactionInfo") {
            try AppStoreStage.notification(foundry.notification(type, subtype, renewal: [:]))
        }
        #expect(try !AppStoreStage.notification(foundry.notification(type, subtype, transaction: [:])).facts.isEmpty)
    }

    @Test(
        "Other notifications need no transaction",
        arguments: [("DID_CHANGE_RENEWAL_PREF", "DOWNGRADE"), ("REFUND_DECLINED", nil), ("SOMETHING_NEW", "UPGRADE")]
            as [(String, String?)])
    func needsNone(_ type: String, _ subtype: String?) throws {
        let evidence = try AppStoreStage.notification(foundry.notification(type, subtype, renewal: [:]))
        #expect(NotificationCase.words(evidence.facts) == ["renews"])
    }

    @Test("A renewal status other than 0 and 1 is refused", arguments: [-1, 2, 1_000])
    func renewalStatus(_ status: Int) throws {
        expectRefusal("autoRenewStatus must be 0 or 1, not \(status)") {
            try AppStoreStage.renewal(foundry.renewal(["autoRenewStatus": .number(Int64(status))]))
        }
    }

    @Test("Another product is pending only while the renewal is on")
    func pendingProduct() throws {
        func pending(_ fields: SignedFields) throws -> [ProductID?] {
            try AppStoreStage.renewal(foundry.renewal(fields)).renewals.map(\.pendingProduct)
        }
        #expect(try pending(["autoRenewProductId": "com.example.weekly"]) == ["com.example.weekly"])
        #expect(try pending(["autoRenewProductId": "com.example.weekly", "autoRenewStatus": 0]) == [nil])
        #expect(try pending([:]) == [nil])
    }

    @Test(
        "Only an auto-renewable subscription ends when the store says",
        arguments: ["Consumable", "Non-Consumable", "Non-Renewing Subscription", "Something New"])
    func expiry(_ type: String) throws {
        func purchase(_ fields: SignedFields) throws -> Purchase {
            try AppStoreStage.transaction(foundry.transaction(fields)).purchase
        }
        let fields: SignedFields = ["type": .text(type), "expiresDate": .minute(80)]
        #expect(try purchase(fields).storeExpiry == nil)
        #expect(try purchase(["expiresDate": .minute(80)]).storeExpiry == .minute(80))
    }
}
