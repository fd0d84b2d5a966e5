import Entitlements
import Testing

@testable import StoreEvidence

@Suite("Answers of verifyReceipt")
struct VerifyReceiptTests {
    /// An answer with three purchases, one of which is in both lists.
    static let answer = """
        {"status": 0, "environment": "Production", "latest_receipt": "MII=",
         "receipt": {"receipt_type": "Production", "bundle_id": "com.example.owl", "in_app": [
           {"transaction_id": "1", "original_transaction_id": "1", "product_id": "owl", "quantity": "1",
            "purchase_date_ms": "1700000000000", "is_trial_period": "false"},
           {"transaction_id": "2", "original_transaction_id": "2", "product_id": "weekly", "quantity": "1",
            "purchase_date_ms": "1710000000000", "expires_date_ms": "1710600000000", "is_trial_period": "true"}]},
         "latest_receipt_info": [
           {"transaction_id": "3", "original_transaction_id": "2", "product_id": "weekly", "quantity": "1",
            "purchase_date_ms": "1710600000000", "expires_date_ms": "1711200000000",
            "cancellation_date_ms": "1710700000000", "is_in_intro_offer_period": "true",
            "in_app_ownership_type": "PURCHASED", "app_account_token": "AB-CD"},
           {"transaction_id": "2", "original_transaction_id": "2", "product_id": "weekly", "quantity": "1",
            "purchase_date_ms": "1710000000000", "expires_date_ms": "1710600000001", "is_trial_period": "true"}],
         "pending_renewal_info": [
           {"original_transaction_id": "2", "product_id": "weekly", "auto_renew_product_id": "yearly",
            "auto_renew_status": "1", "is_in_billing_retry_period": "1",
            "grace_period_expires_date_ms": "1711300000000"}]}
        """

    private func evidence(replacing old: String = "", with new: String = "") throws -> VerifiedEvidence {
        let text = old.isEmpty ? Self.answer : Self.answer.replacing(old, with: new)
        if !old.isEmpty { #expect(text != Self.answer) }
        return try VerifyReceiptAnswer.evidence(Array(text.utf8), bundleIDs: ["com.example.owl"])
    }

    @Test("Both lists are united by transaction, and the latest list counts")
    func union() throws {
        let evidence = try evidence()
        let purchases = ReceiptStage.purchases(evidence)
        #expect(evidence.kind == .verifyReceipt)
        #expect(evidence.signedDate == nil)
        #expect(evidence.accountToken == "ab-cd")
        #expect(evidence.facts.count == 5)
        #expect(purchases.map(\.transaction.id) == ["1", "2", "3"])
        #expect(purchases.map(\.product) == ["owl", "weekly", "weekly"])
        #expect(purchases.map(\.originalID) == [nil, nil, "2"])
        #expect(purchases.map(\.storeExpiry?.milliseconds) == [nil, 1_710_600_000_001, 1_711_200_000_000])
        #expect(purchases.map(\.isIntroductory) == [false, true, true])
        #expect(purchases.allSatisfy { $0.stamp == Stamp(logicalTime: .zero) })
        let revocations = ReceiptStage.revocations(evidence)
        #expect(revocations.map(\.transaction.id) == ["3"])
        #expect(revocations.map(\.revokedAt?.milliseconds) == [1_710_700_000_000])
    }

    @Test("Pending renewal infos become renewal states")
    func renewals() throws {
        let line = TransactionReference(store: .appStore, id: "2")
        var state = RenewalState(
            line: line, willRenew: true, graceEnd: Timestamp(milliseconds: 1_711_300_000_000), isInBillingRetry: true,
            pendingProduct: "yearly", stamp: Stamp(logicalTime: .zero))
        #expect(try evidence().facts.contains(.renewalState(state)))
        state.willRenew = false
        state.pendingProduct = nil
        let ended = try evidence(replacing: "\"auto_renew_status\": \"1\"", with: "\"auto_renew_status\": \"0\"")
        #expect(ended.facts.contains(.renewalState(state)))
    }

    @Test("Numbers and flags that a server converted from strings are read")
    func converted() throws {
        let expected = try evidence()
        #expect(try evidence(replacing: "\"1700000000000\"", with: "1700000000000") == expected)
        #expect(try evidence(replacing: "\"quantity\": \"1\"", with: "\"quantity\": 1") == expected)
        #expect(try evidence(replacing: "\"is_trial_period\": \"true\"", with: "\"is_trial_period\": true") == expected)
        #expect(try evidence(replacing: "\"auto_renew_status\": \"1\"", with: "\"auto_renew_status\": 1") == expected)
    }

    @Test("Purchases of a family member, and those of a kind of ownership that Apple adds, count like own ones")
    func family() throws {
        for ownership in ["FAMILY_SHARED", "LENT"] {
            #expect(try evidence(replacing: "PURCHASED", with: ownership) == evidence(), "\(ownership)")
        }
    }

    @Test("Different account tokens yield none")
    func tokens() throws {
        let evidence = try evidence(
            replacing: "\"expires_date_ms\": \"1710600000001\"",
            with: "\"expires_date_ms\": \"1710600000001\", \"app_account_token\": \"ef\"")
        #expect(evidence.accountToken == nil)
    }

    @Test("An upgrade is no revocation, and ends the purchase at the date of its cancellation")
    func upgrade() throws {
        let evidence = try evidence(
            replacing: "\"is_in_intro_offer_period\": \"true\"", with: "\"is_upgraded\": \"true\"")
        #expect(ReceiptStage.revocations(evidence).map(\.revokedAt) == [nil])
        #expect(ReceiptStage.revocations(evidence).map(\.upgradedAt) == [Timestamp(milliseconds: 1_710_700_000_000)])
        #expect(ReceiptStage.purchases(evidence).count == 3)
    }

    @Test("Status 21006 is a valid receipt, any other status is refused with its meaning")
    func status() throws {
        #expect(try evidence(replacing: "\"status\": 0", with: "\"status\": 21006") == evidence())
        for (status, meaning) in [
            (21003, "not authentic"), (21007, "sandbox.itunes.apple.com"), (21199, "internal"), (7, "unknown"),
        ] {
            ReceiptStage.expectRefusal(.state, "not \(status) (") {
                try evidence(replacing: "\"status\": 0", with: "\"status\": \(status)")
            }
            ReceiptStage.expectRefusal(.state, meaning) {
                try evidence(replacing: "\"status\": 0", with: "\"status\": \(status)")
            }
        }
    }

    @Test("The sandbox is kept apart, and contradicting environments are refused")
    func environment() throws {
        let sandbox = try evidence(replacing: "\"Production\"", with: "\"Sandbox\"")
        #expect(ReceiptStage.purchases(sandbox).allSatisfy { $0.transaction.environment == .sandbox })
        ReceiptStage.expectRefusal(.environment, "receipt.receipt_type") {
            try evidence(replacing: "\"environment\": \"Production\"", with: "\"environment\": \"Sandbox\"")
        }
        ReceiptStage.expectRefusal(.environment, "environment: must be Production or Sandbox, not \"Xcode\"") {
            try evidence(replacing: "\"environment\": \"Production\"", with: "\"environment\": \"Xcode\"")
        }
    }

    @Test("Another app is refused, and so is the older form of an answer")
    func app() {
        ReceiptStage.expectRefusal(.app, "receipt.bundle_id: \"com.example.other\"") {
            try evidence(replacing: "com.example.owl", with: "com.example.other")
        }
        ReceiptStage.expectRefusal(.content, "receipt.bundle_id: this is missing") {
            try evidence(replacing: "bundle_id", with: "bid")
        }
    }

    @Test("Errors name the JSON path")
    func paths() {
        let cases = [
            ("\"transaction_id\": \"3\"", "\"x\": 1", "latest_receipt_info[0].transaction_id: this is missing"),
            ("\"1700000000000\"", "\"soon\"", "receipt.in_app[0].purchase_date_ms: a whole number is expected"),
            ("\"1700000000000\"", "\"-1\"", "receipt.in_app[0].purchase_date_ms: the date must be in the years"),
            ("\"1700000000000\"", "\"253402300800000\"", "receipt.in_app[0].purchase_date_ms: the date must be"),
            (
                "\"owl\", \"quantity\": \"1\"", "\"owl\", \"quantity\": \"0\"",
                "receipt.in_app[0].quantity must be 1 to 10,000, not 0"
            ),
            (
                "\"auto_renew_status\": \"1\"", "\"auto_renew_status\": \"2\"",
                "pending_renewal_info[0].auto_renew_status"
            ),
            ("\"is_trial_period\": \"false\"", "\"is_trial_period\": \"no\"", "receipt.in_app[0].is_trial_period"),
            (
                "\"transaction_id\": \"3\"", "\"transaction_id\": \"2\"",
                "latest_receipt_info[1]: the transaction is stated"
            ),
            ("\"transaction_id\": \"3\"", "\"transaction_id\": \"1\"", "receipt.in_app[0].product_id"),
            (
                "\"product_id\": \"owl\"", "\"product_id\": \"\"",
                "receipt.in_app[0].product_id: an id must not be empty"
            ),
        ]
        for (old, new, reason) in cases {
            ReceiptStage.expectRefusal(.content, reason) { try evidence(replacing: old, with: new) }
        }
    }

    @Test("Invalid JSON, repeated members and oversized answers are refused")
    func syntax() {
        ReceiptStage.expectRefusal(.format, "\"status\" is repeated") {
            try evidence(replacing: "{\"status\": 0,", with: "{\"status\": 0, \"status\": 0,")
        }
        ReceiptStage.expectRefusal(.format, "not valid JSON") {
            try VerifyReceiptAnswer.evidence([], bundleIDs: ["com.example.owl"])
        }
        let large = [UInt8](repeating: 0x20, count: VerifyReceiptAnswer.maximumByteCount + 1)
        ReceiptStage.expectRefusal(.size, "4194305 bytes, more than 4194304") {
            try VerifyReceiptAnswer.evidence(large, bundleIDs: ["com.example.owl"])
        }
    }
}
