import Entitlements
import Testing

@testable import StoreEvidence

@Suite("Answers of verifyReceipt of 2017")
struct OldVerifyReceiptTests {
    /// An answer with two subscriptions of the product `weekly`, one of `yearly`, and these entries of
    /// `pending_renewal_info`.
    private func evidence(_ entries: String...) throws -> VerifiedEvidence {
        func purchase(_ id: String, _ product: String, of original: String) -> String {
            """
            {"transaction_id":"\(id)","original_transaction_id":"\(original)","product_id":"\(product)","quantity":"1",
             "purchase_date_ms":"1500000000000","expires_date_ms":"1510000000000"}
            """
        }
        let purchases = [
            purchase("1", "weekly", of: "1"), purchase("2", "yearly", of: "2"), purchase("3", "yearly", of: "2"),
            purchase("4", "weekly", of: "4"),
        ]
        let answer = """
            {"status":0,"environment":"Production",
             "receipt":{"receipt_type":"Production","bundle_id":"com.example.owl","in_app":[]},
             "latest_receipt_info":[\(purchases.joined(separator: ","))],
             "pending_renewal_info":[\(entries.joined(separator: ","))]}
            """
        return try VerifyReceiptAnswer.evidence(Array(answer.utf8), bundleIDs: ["com.example.owl"])
    }

    private static let yearly = #"{"product_id":"yearly","auto_renew_product_id":"monthly","auto_renew_status":"1"}"#

    @Test("A renewal state without its first transaction belongs to the only subscription with its product")
    func matched() throws {
        for entry in [Self.yearly, #"{"auto_renew_product_id":"yearly","auto_renew_status":"1"}"#] {
            let evidence = try evidence(entry)
            #expect(evidence.purchases.map(\.transaction.id) == ["1", "2", "3", "4"])
            #expect(evidence.renewals.map(\.line.id) == ["2"])
            #expect(evidence.renewals.map(\.willRenew) == [true])
            #expect(evidence.warnings == [])
        }
        #expect(try evidence(Self.yearly).renewals.first?.pendingProduct == "monthly")
    }

    @Test("One that cannot be matched is left out with a warning, and the rest is read")
    func unmatched() throws {
        let evidence = try evidence(
            #"{"product_id":"weekly","auto_renew_status":"1"}"#, #"{"product_id":"daily","auto_renew_status":"1"}"#,
            #"{"auto_renew_status":"1"}"#, #"{"original_transaction_id":"1","product_id":"weekly"}"#, Self.yearly,
            #"{"original_transaction_id":"4","product_id":"weekly","auto_renew_status":"0"}"#)
        #expect(evidence.purchases.count == 4)
        #expect(evidence.renewals.map(\.line.id) == ["2", "4"])
        #expect(evidence.renewals.map(\.willRenew) == [true, false])
        #expect(
            evidence.warnings == [
                "pending_renewal_info[0] is left out: it has no original_transaction_id, and 2 subscriptions have the "
                    + "product \"weekly\"",
                "pending_renewal_info[1] is left out: it has no original_transaction_id, and 0 subscriptions have the "
                    + "product \"daily\"",
                "pending_renewal_info[2] is left out: it has no original_transaction_id and no product_id",
                "pending_renewal_info[3] is left out: it has no auto_renew_status",
            ])
    }

    @Test("An entry with its first transaction counts before one that is matched by its product")
    func explicitFirst() throws {
        let explicit = #"{"original_transaction_id":"2","product_id":"yearly","auto_renew_status":"0"}"#
        for entries in [[Self.yearly, explicit], [explicit, Self.yearly]] {
            let evidence = try evidence(entries[0], entries[1])
            #expect(evidence.renewals.map(\.willRenew) == [false])
            #expect(evidence.warnings.count == 1)
            #expect(evidence.warnings[0].hasSuffix("another entry states the same subscription differently"))
        }
    }

    @Test("A wrong value is refused, also where a missing one is left out")
    func wrongValues() {
        let wrong = [
            #"{"product_id":"yearly","auto_renew_status":"2"}"#, #"{"product_id":7.5,"auto_renew_status":"1"}"#,
            #"{"product_id":"","auto_renew_status":"1"}"#, "7",
        ]
        for entry in wrong {
            ReceiptStage.expectRefusal(.content, "pending_renewal_info[0]") { try evidence(entry) }
        }
    }
}
