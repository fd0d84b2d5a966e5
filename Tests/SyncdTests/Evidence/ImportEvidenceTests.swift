import EntitlementSync
import EvidenceTestSupport
import Foundation
import TestSupport
import Testing

/// Answers of Apple's `verifyReceipt`.
enum VerifyReceiptText {
    static func answer(
        _ transaction: String, _ product: String, environment: String = "Production", cancelledAt: String? = nil
    ) -> String {
        let cancelled = cancelledAt.map { #","cancellation_date_ms":"\#($0)""# } ?? ""
        return """
            {"status":0,"environment":"\(environment)","receipt":{"receipt_type":"\(environment)",
            "bundle_id":"com.example","in_app":[{"transaction_id":"\(transaction)","product_id":"\(product)",
            "original_transaction_id":"\(transaction)","quantity":"1","purchase_date_ms":"1704067200000"\(cancelled)}]}}
            """
    }
}

@Suite("Imports of receipts")
struct ImportEvidenceTests {
    private let sandbox: Sandbox
    private let mint: EvidenceMint

    init() throws {
        sandbox = try Sandbox()
        mint = try EvidenceMint(sandbox)
    }

    @Test("A receipt is verified and imported as evidence, once")
    func receipt() throws {
        try mint.writeReceipt("receipt.der", [MintedPurchase("11", Owls.night, at: "2024-01-01T00:00:00Z")])
        let command = "import receipt.der --format receipt --bundle com.example --evidence-root roots.pem"
        #expect(
            try sandbox.run(command) == .done("recorded for anonymous: 1 new purchase of 1 in app-store-receipt"))
        #expect(
            try sandbox.run(command)
                == .done("already recorded for anonymous: 0 new purchases of 1 in app-store-receipt"))
        #expect(try sandbox.run("check night-owl").exitCode == 0)
    }

    @Test("An answer of verifyReceipt is imported as this device's statements, once")
    func answer() throws {
        try sandbox.write(VerifyReceiptText.answer("12", Owls.shy), to: "answer.json")
        let command = "import answer.json --format verify-receipt --bundle com.example"
        #expect(
            try sandbox.run(command) == .done("imported for anonymous: 1 new purchase and 0 new refunds of 1 purchase"))
        #expect(
            try sandbox.run(command)
                == .done("imported for anonymous: 0 new purchases and 0 new refunds of 1 purchase"))
        #expect(try sandbox.run("check shy-owl").exitCode == 0)
        try sandbox.write(
            VerifyReceiptText.answer("12", Owls.shy, cancelledAt: "1704153600000"), to: "answer.json")
        #expect(
            try sandbox.run(command) == .done("imported for anonymous: 0 new purchases and 1 new refund of 1 purchase"))
        #expect(try sandbox.run("check shy-owl").exitCode == 10)
    }

    @Test("A renewal state that cannot be matched is left out with a warning, and the rest is imported")
    func warning() throws {
        let answer = VerifyReceiptText.answer("12", Owls.shy)
        let entry = #""pending_renewal_info":[{"auto_renew_product_id":"none","auto_renew_status":"1"}]"#
        try sandbox.write(String(answer.dropLast()) + ",\(entry)}", to: "answer.json")
        let warning =
            "warning: pending_renewal_info[0] is left out: it has no original_transaction_id, and 0 subscriptions have "
            + "the product \"none\""
        #expect(
            try sandbox.run("import answer.json --format verify-receipt --bundle com.example")
                == .done(
                    "imported for anonymous: 1 new purchase and 0 new refunds of 1 purchase\n  " + warning))
        let verified = try sandbox.run("evidence verify answer.json --kind verify-receipt --bundle com.example")
        #expect(verified.exitCode == 0 && verified.output.hasSuffix("\n\(warning)\n"), "\(verified)")
    }

    @Test("A receipt of iOS 6 and a receipt in base64url are refused as what they are")
    func otherForms() throws {
        let old = #"{ "signature" = "AjmC"; "purchase-info" = "ewp9"; "pod" = "100"; }"#
        let command = "--format receipt --bundle com.example --evidence-root roots.pem"
        for text in [old, Data(old.utf8).base64EncodedString()] {
            try sandbox.write(text + "\n", to: "old")
            let outcome = try sandbox.run("import old \(command)")
            #expect(outcome.exitCode == 4 && outcome.error.contains("this is a transaction receipt of iOS 6"))
            #expect(outcome.error.contains("Apple no longer answers for it"), "\(outcome)")
        }
        try mint.writeReceipt("receipt.der", [MintedPurchase("11", Owls.night, at: "2024-01-01T00:00:00Z")])
        let encoded = Data(try sandbox.bytes(of: "receipt.der")).base64EncodedString()
        try sandbox.write(encoded.replacing("+", with: "-").replacing("/", with: "_"), to: "receipt.b64")
        let outcome = try sandbox.run("import receipt.b64 \(command)")
        #expect(outcome.exitCode == 4 && outcome.error.contains("this is an app receipt in base64url"), "\(outcome)")
    }

    @Test("Wrong files and options are refused, and change nothing")
    func refusals() throws {
        try mint.writeReceipt("receipt.der", [MintedPurchase("11", Owls.night, at: "2024-01-01T00:00:00Z")])
        try mint.writeReceipt("sandbox.der", [], environment: "ProductionSandbox")
        try sandbox.write(VerifyReceiptText.answer("12", Owls.shy), to: "answer.json")
        try sandbox.write(VerifyReceiptText.answer("12", Owls.shy, environment: "Sandbox"), to: "sandbox.json")
        try sandbox.write("", to: "empty")
        try sandbox.write([UInt8](repeating: 0x30, count: 1 << 20 + 1), to: "long.der")
        try sandbox.write("{", to: "half.json")
        let roots = "--evidence-root roots.pem"
        let cases: [(Int32, String, String)] = [
            (2, "receipt.der --format receipt", "the format receipt needs --bundle, the app's bundle identifier"),
            (2, "answer.json --format verify-receipt", "the format verify-receipt needs --bundle, the app's "),
            (2, "answer.json --format history --bundle com.example", "--bundle does not apply to the format history"),
            (
                2, "answer.json --format verify-receipt --bundle com.example \(roots)",
                "--evidence-root does not apply to the format verify-receipt"
            ),
            (2, "receipt.der --format pkcs7", "The value 'pkcs7' is invalid for '--format <format>'"),
            (4, "receipt.der --format receipt --bundle com.other \(roots)", "app: "),
            (4, "receipt.der --format receipt --bundle com.example", "certificates: "),
            (4, "sandbox.der --format receipt --bundle com.example \(roots)", "environment: "),
            (4, "long.der --format receipt --bundle com.example \(roots)", "size: "),
            (4, "empty --format receipt --bundle com.example \(roots)", "format: empty is empty"),
            (4, "answer.json --format receipt --bundle com.example \(roots)", "format: "),
            (4, "answer.json --format verify-receipt --bundle com.other", "app: "),
            (4, "sandbox.json --format verify-receipt --bundle com.example", "environment: "),
            (4, "half.json --format verify-receipt --bundle com.example", "format: "),
            (3, "none --format receipt --bundle com.example \(roots)", "none: no such file"),
            (1, ". --format receipt --bundle com.example \(roots)", ". must be a file, not a folder"),
            (3, "receipt.der --format receipt --bundle com.example --evidence-root none.pem", "none.pem: no such file"),
        ]
        let tree = try sandbox.tree()
        for (code, command, reason) in cases {
            let outcome = try sandbox.run("import \(command)")
            #expect(outcome.exitCode == code && outcome.output.isEmpty, "\(command): \(outcome)")
            #expect(outcome.error.hasPrefix("syncd: \(reason)"), "\(command): \(outcome)")
            #expect(try sandbox.tree() == tree, "\(command)")
        }
    }
}
