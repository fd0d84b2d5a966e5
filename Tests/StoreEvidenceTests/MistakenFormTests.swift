import Entitlements
import EvidenceTestSupport
import Foundation
import Testing

@testable import StoreEvidence

@Suite("Evidence of another form is refused as what it is, with the remedy")
struct MistakenFormTests {
    private let foundry: AppStoreFoundry

    init() throws { foundry = try AppStoreFoundry.valid.get() }

    private func reason(_ body: () throws -> Void) -> String {
        let error = #expect(throws: EvidenceError.self) { try body() }
        return error.map { "\($0)" } ?? ""
    }

    private func asTransaction(_ text: String) -> String { reason { _ = try AppStoreStage.transaction(text) } }

    private func asReceipt(_ bytes: [UInt8]) -> String { reason { _ = try ReceiptStage.verify(bytes) } }

    /// The text form of a property list, as `transactionReceipt` has it.
    private static let oldReceipt = """
        {
        \t"signature" = "AjmC8Q==";
        \t"purchase-info" = "ewoJInRyYW5zYWN0aW9uLWlkIiA9ICIxMDAwMDAwMDAxIjsKfQ==";
        \t"environment" = "Sandbox";
        \t"pod" = "100";
        \t"signing-status" = "0";
        }
        """

    @Test("A transaction receipt of iOS 6, as text, in base64, and in each place")
    func oldReceipt() {
        let explanation =
            ": this is a transaction receipt of iOS 6 or earlier (a property list with signature and purchase-info): "
            + "Apple no longer answers for it; send the app receipt, or a transaction of StoreKit 2, instead"
        let encoded = Data(Self.oldReceipt.utf8).base64EncodedString()
        let binary = Array("bplist00".utf8) + [0xD2, 1, 2] + Array("signature".utf8) + Array("purchase-info".utf8)
        for bytes in [Array(Self.oldReceipt.utf8), Array(encoded.utf8), binary] {
            #expect(asReceipt(bytes).hasPrefix("format: ") && asReceipt(bytes).hasSuffix(explanation))
        }
        for text in [Self.oldReceipt, encoded] {
            #expect(asTransaction(text) == "format: the transaction must have 3 segments, not 1" + explanation)
        }
        #expect(reason { _ = try receiptBytes(base64: Self.oldReceipt) }.hasSuffix(explanation))
        #expect(throws: Never.self) { try receiptBytes(base64: encoded) }
    }

    @Test("An app receipt in base64, in the alphabet for URLs, and as a transaction")
    func encodedReceipts() throws {
        let bytes = try MintedReceipt([MintedPurchase("1", "owl", at: "2024-01-01T00:00:00Z")])
            .bytes(by: try ReceiptAuthority.valid.get())
        let encoded = Data(bytes).base64EncodedString()
        #expect(encoded.contains("+") || encoded.contains("/"), "the test needs a digit that differs")
        let forURLs = encoded.replacing("+", with: "-").replacing("/", with: "_").replacing("=", with: "")
        #expect(try receiptBytes(base64: encoded + "\n") == bytes)
        #expect(
            reason { _ = try receiptBytes(base64: forURLs) }
                == "format: the receipt must be base64 with padding: this is an app receipt in base64url: encode it in "
                + "base64 with +, / and padding, and send it as app-store-receipt")
        #expect(
            asReceipt(Array(encoded.utf8)).hasSuffix(
                ": this is an app receipt in base64: send it as app-store-receipt; AppStoreVerifier takes its decoded "
                    + "bytes"))
        #expect(asTransaction(encoded).contains("this is an app receipt in base64: send it as app-store-receipt"))
        #expect(asTransaction(forURLs).contains("this is an app receipt in base64url"))
        // Longer than a transaction may be.
        let long = asTransaction(encoded + String(repeating: "A", count: EvidenceLimits.transaction))
        #expect(long.contains("bytes, more than 16384: this is an app receipt in base64: "), "\(long)")
    }

    @Test("The app transaction, which has no signedDate")
    func appTransaction() throws {
        let jws = try foundry.transaction([
            "transactionId": nil, "originalTransactionId": nil, "productId": nil, "purchaseDate": nil,
            "signedDate": nil, "receiptType": "Production", "receiptCreationDate": .minute(0),
            "applicationVersion": "1", "originalApplicationVersion": "1", "appTransactionId": "7000",
        ])
        let explanation =
            ", but an app transaction: it states that the app was bought, not what was bought in it; send the "
            + "jwsRepresentation of a transaction"
        #expect(asTransaction(jws) == "kind: this is not a transaction" + explanation)
        #expect(reason { _ = try AppStoreStage.renewal(jws) } == "kind: this is not a renewal info" + explanation)
        #expect(asReceipt(Array(jws.utf8)) == "kind: this is not an app receipt" + explanation)
    }

    @Test("A notification as a transaction: its payload, its body, and one that is longer than a transaction may be")
    func notification() throws {
        let advice =
            ", but a notification: its kind is app-store-notification, and Apple sends it to "
            + "/v1/notifications/app-store"
        let payload = try foundry.notification("DID_RENEW", transaction: [:])
        #expect(asTransaction(payload) == "kind: this is not a transaction" + advice)
        let body = String(decoding: AppStoreFoundry.body(of: payload), as: UTF8.self)
        #expect(asTransaction(body) == "kind: this is not a transaction" + advice)
        let long = try foundry.notification(
            "DID_RENEW", transaction: [:],
            data: ["padding": .text(String(repeating: "x", count: EvidenceLimits.transaction))])
        #expect(asTransaction(long) == "kind: this is not a transaction" + advice)
        #expect(asReceipt(Array(payload.utf8)) == "kind: this is not an app receipt" + advice)
        #expect(
            reason { _ = try VerifyReceiptAnswer.evidence(Array(payload.utf8), bundleIDs: ["com.example"]) }
                == "kind: this is not an answer of verifyReceipt" + advice)
    }

    @Test("A transaction as a receipt, its JSON without a signature, and an answer of verifyReceipt as a receipt")
    func others() throws {
        let jws = try foundry.transaction()
        #expect(
            asReceipt(Array(jws.utf8))
                == "kind: this is not an app receipt, but a transaction: send it as app-store-transaction")
        #expect(
            reason { _ = try receiptBytes(base64: jws) }
                == "kind: this is not an app receipt in base64, but a transaction: send it as app-store-transaction")
        #expect(
            asTransaction(#"{"transactionId":"1","productId":"owl"}"#).hasSuffix(
                ": this is the JSON of a transaction without its signature: send its jwsRepresentation"))
        #expect(
            asReceipt(Array(VerifyReceiptTests.answer.utf8)).hasSuffix(
                ": this is an answer of verifyReceipt: it is not signed; import it with --format verify-receipt"))
    }

    @Test("A receipt and a transaction of Xcode's test environment")
    func xcode() throws {
        let explanation =
            "of Xcode's test environment: Apple does not sign it; buy with a sandbox account instead, or record the "
            + "purchase without evidence"
        let other = try ReceiptAuthority(.init { $0.foreignRoot = true })
        let receipt = try MintedReceipt { $0.environment = "Xcode" }.bytes(by: other)
        #expect(asReceipt(receipt).hasPrefix("certificates: "))
        #expect(asReceipt(receipt).hasSuffix(": this is a receipt " + explanation))
        let jws = try foundry.transaction(["environment": "Xcode"]) { $0.certificates = [$0.certificates[0]] }
        #expect(
            asTransaction(jws)
                == "header: the transaction must have 3 certificates (x5c), not 1: this is a message " + explanation)
    }

    @Test("A receipt of Xcode's test environment has indefinite lengths", arguments: [true, false])
    func xcodeLengths(_ hasPurchase: Bool) throws {
        let purchases = hasPurchase ? [MintedPurchase("0", "owl", at: "2024-01-01T00:00:00Z")] : []
        let receipt = MintedReceipt(purchases) { ($0.environment, $0.hasIndefiniteLengths) = ("Xcode", true) }
        let bytes = try receipt.bytes(by: try ReceiptAuthority(.init { $0.foreignRoot = true }))
        #expect(bytes.starts(with: [0x30, 0x80]) && bytes.suffix(2) == [0, 0])
        let explanation =
            "format: the receipt has an indefinite length, which DER does not allow: this is a receipt of Xcode's test "
            + "environment: Apple does not sign it; buy with a sandbox account instead, or record the purchase without "
            + "evidence"
        #expect(asReceipt(bytes) == explanation)
        #expect(asReceipt(try receiptBytes(base64: Data(bytes).base64EncodedString())) == explanation)
        // Without the environment nothing tells it from a receipt that was re-encoded.
        var other = receipt
        other.environment = "Production"
        #expect(
            asReceipt(try other.bytes(by: try ReceiptAuthority.valid.get()))
                == "format: the receipt has an indefinite length, which DER does not allow")
    }

    @Test("Apple's own examples of Xcode's test environment", .enabled(if: AppStoreVectors.exist))
    func xcodeExamples() throws {
        for name in ["xcode-app-receipt-empty", "xcode-app-receipt-with-transaction"] {
            let bytes = try receiptBytes(base64: try AppStoreVectors.text("xcode/\(name)"))
            let reason = asReceipt(bytes)
            #expect(
                reason.hasPrefix("format: the receipt has an indefinite length, which DER does not allow: this is a ")
                    && reason.contains("receipt of Xcode's test environment: Apple does not sign it; buy with a "),
                "\(reason)")
        }
        for name in ["xcode-signed-transaction", "xcode-signed-renewal-info"] {
            let reason = asTransaction(try AppStoreVectors.text("xcode/\(name)"))
            #expect(reason.contains("not 1: this is a message of Xcode's test environment: "), "\(reason)")
        }
        let old = try AppStoreVectors.text("mock_signed_data/legacyTransaction")
        #expect(asReceipt(Array(old.utf8)).contains("of iOS 6 or earlier"))
        #expect(asReceipt(try receiptBytes(base64: old)).contains("of iOS 6 or earlier"))
    }

    @Test("Evidence of the expected form keeps its own reason")
    func expectedForm() throws {
        let jws = try foundry.transaction()
        #expect(asTransaction(String(jws.dropLast(2))).hasPrefix("format: the signature of the transaction must have"))
        let receipt = try MintedReceipt().bytes(by: try ReceiptAuthority.valid.get())
        #expect(
            asReceipt(receipt + [0]) == "format: unexpected bytes after the end of the receipt: 1")
        #expect(asTransaction("a.b").hasSuffix("must have 3 segments, not 2"))
    }
}
