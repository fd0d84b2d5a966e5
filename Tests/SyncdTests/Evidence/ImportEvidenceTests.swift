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
