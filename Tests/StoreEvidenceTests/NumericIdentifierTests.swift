import Entitlements
import EvidenceTestSupport
import Foundation
import Testing

@testable import StoreEvidence

@Suite("Transaction ids that are written as numbers")
struct NumericIdentifierTests {
    @Test("A number of a signed transaction and a renewal info is the id that its digits are")
    func appStore() throws {
        let foundry = try AppStoreFoundry.valid.get()
        let expected = try AppStoreStage.transaction(
            foundry.transaction(["transactionId": "2000000000000002", "originalTransactionId": "2000000000000001"]))
        let numbers = try AppStoreStage.transaction(
            foundry.transaction([
                "transactionId": 2_000_000_000_000_002, "originalTransactionId": 2_000_000_000_000_001,
            ]))
        #expect(numbers == expected)
        #expect(numbers.purchases.first?.transaction.id == "2000000000000002")
        let renewal = try AppStoreStage.renewal(foundry.renewal(["originalTransactionId": 2_000_000_000_000_001]))
        #expect(try renewal == AppStoreStage.renewal(foundry.renewal()))
    }

    @Test(
        "A number from which a digit may have been lost is refused with the number",
        arguments: ["9007199254740992", "-1", "20000000000000000001", "2e15", "2000000000000001.0"])
    func inexact(number: String) throws {
        let jws = try AppStoreFoundry.valid.get().transaction(["transactionId": .json(number)])
        AppStoreStage.expectRefusal(
            .content,
            "transactionId: an id is a text, or a whole number below 2^53 that no program rounds, not \(number)"
        ) { try AppStoreStage.transaction(jws) }
    }

    @Test("The largest number that every program keeps is read")
    func largest() throws {
        let jws = try AppStoreFoundry.valid.get().transaction(["transactionId": .json("9007199254740991")])
        #expect(try AppStoreStage.transaction(jws).purchases.first?.transaction.id == "9007199254740991")
    }

    @Test("An answer of verifyReceipt whose ids a server has converted to numbers is read")
    func verifyReceipt() throws {
        let text = VerifyReceiptTests.answer
        func evidence(_ text: String) throws -> VerifiedEvidence {
            try VerifyReceiptAnswer.evidence(Array(text.utf8), bundleIDs: ["com.example.owl"])
        }
        let numbers = text.replacing(#/transaction_id": "(?<id>\d)"/#) { "transaction_id\": \($0.output.id)" }
        #expect(numbers.contains("\"original_transaction_id\": 2,"))
        #expect(try evidence(numbers) == evidence(text))
    }

    @Test("A line item of verifyReceipt is an id like any other, and 0 stands for none")
    func lineItem() throws {
        func lineItem(_ json: String) throws -> TransactionID? {
            let text = VerifyReceiptTests.answer.replacing(
                "\"purchase_date_ms\": \"1710600000000\"",
                with: "\"web_order_line_item_id\": \(json), \"purchase_date_ms\": \"1710600000000\"")
            let evidence = try VerifyReceiptAnswer.evidence(Array(text.utf8), bundleIDs: ["com.example.owl"])
            return evidence.purchases.compactMap(\.lineItemID).first
        }
        #expect(try lineItem("\"7000000000000001\"") == "7000000000000001")
        #expect(try lineItem("7000000000000001") == "7000000000000001")
        for none in ["0", "\"0\"", "\"\""] { #expect(try lineItem(none) == nil) }
        for inexact in ["9007199254740992", "-1"] {
            #expect {
                _ = try lineItem(inexact)
            } throws: { error in
                "\(error)".contains("a whole number below 2^53 that no program rounds, not \(inexact)")
            }
        }
    }

    @Test("A line item of a signed transaction is an id like any other, and 0 stands for none")
    func signedLineItem() throws {
        func lineItem(_ json: String) throws -> TransactionID? {
            let jws = try AppStoreFoundry.valid.get().transaction(["webOrderLineItemId": .json(json)])
            return try AppStoreStage.transaction(jws).purchases.first?.lineItemID
        }
        #expect(try lineItem("\"7000000000000001\"") == "7000000000000001")
        #expect(try lineItem("7000000000000001") == "7000000000000001")
        for none in ["0", "\"0\"", "\"\"", "null"] { #expect(try lineItem(none) == nil, "\(none)") }
        let error = #expect(throws: EvidenceError.self) { try lineItem("9007199254740992") }
        #expect(error?.reason.hasSuffix("no program rounds, not 9007199254740992") == true)
    }

    @Test("Orders of Google Play and objects of Stripe")
    func others() throws {
        let play = try PlayStage.purchase(PlayStage.data(order: "17").replacing("\"17\"", with: "17"))
        #expect(try play.purchase.transaction == PlayStage.reference("17/owl"))
        let item = PlayStage.item(order: "17").replacing("\"17\"", with: "17")
        #expect(try PlayStage.read(PlayStage.subscription("ACTIVE", item)).purchase.transaction.id == "17/month")
        let checkout = StripeStage.checkout().replacing("\"pi_1\"", with: "17")
        let event = StripeStage.event("checkout.session.completed", checkout)
        #expect(try StripeStage.verify(event).purchase.transaction == StripeStage.reference("17"))
    }
}
