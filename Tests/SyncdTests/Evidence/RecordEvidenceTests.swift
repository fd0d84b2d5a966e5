import Entitlements
import EvidenceTestSupport
import Foundation
import TestSupport
import Testing

@Suite("Evidence that a device records")
struct RecordEvidenceTests {
    private let sandbox: Sandbox
    private let mint: EvidenceMint

    init() throws {
        sandbox = try Sandbox()
        mint = try EvidenceMint(sandbox)
    }

    private static let apple = "--bundle com.example --evidence-root roots.pem"
    private static let play = "--play-package com.example.owl --play-key play.key"

    private func record(_ file: String, _ kind: String, _ rest: String) throws -> Sandbox.Outcome {
        try sandbox.run("record evidence \(file) --kind \(kind) \(rest)")
    }

    @Test("A signed transaction is recorded once, and counts")
    func transaction() throws {
        try mint.writeTransaction("night.jws", "2001")
        #expect(
            try record("night.jws", "app-store-transaction", Self.apple)
                == .done("recorded for anonymous: 1 new purchase of 1 in app-store-transaction"))
        #expect(try sandbox.run("check night-owl").exitCode == 0)
        let tree = try sandbox.tree()
        #expect(
            try record("night.jws", "app-store-transaction", Self.apple)
                == .done("already recorded for anonymous: 0 new purchases of 1 in app-store-transaction"))
        #expect(try sandbox.tree() == tree)
        #expect(
            try record("night.jws", "app-store-transaction", "\(Self.apple) --json").output.contains(#""waiting": 1"#))
    }

    @Test("A receipt in DER or in base64 is recorded with all its purchases")
    func receipt() throws {
        let purchases = [
            MintedPurchase("11", Owls.night, at: "2024-01-01T00:00:00Z"),
            MintedPurchase("12", Owls.threeMonths, at: "2024-02-01T00:00:00Z"),
        ]
        try mint.writeReceipt("receipt.der", purchases)
        try sandbox.write(
            Data(try sandbox.bytes(of: "receipt.der")).base64EncodedString(options: .lineLength64Characters),
            to: "receipt.txt")
        #expect(
            try record("receipt.der", "app-store-receipt", Self.apple)
                == .done("recorded for anonymous: 2 new purchases of 2 in app-store-receipt"))
        #expect(
            try record("receipt.txt", "app-store-receipt", Self.apple)
                == .done("already recorded for anonymous: 0 new purchases of 2 in app-store-receipt"))
        #expect(try sandbox.run("check night-owl").exitCode == 0)
    }

    @Test("A signed purchase of Google Play is recorded")
    func googlePlay() throws {
        try mint.writePlayPurchase("play.json")
        #expect(
            try record("play.json", "google-play", Self.play)
                == .done("recorded for anonymous: 1 new purchase of 1 in google-play"))
        #expect(try sandbox.run("check night-owl").exitCode == 0)
    }

    @Test("Evidence is read from standard input, and that of the sandbox is recorded for it only")
    func standardInput() throws {
        try mint.writeTransaction("sandbox.jws", "2001", environment: "Sandbox")
        let command = "record evidence - --kind app-store-transaction \(Self.apple) --environment sandbox"
        let outcome = try sandbox.run(after: "exec < sandbox.jws", command)
        #expect(outcome == .done("recorded for anonymous: 1 new purchase of 1 in app-store-transaction"))
        #expect(try sandbox.run("check night-owl").exitCode == 10)
        #expect(try sandbox.run("check night-owl --environment sandbox").exitCode == 0)
    }

    private func expectNothingChanges(_ expected: Sandbox.Outcome, _ command: String) throws {
        let tree = try sandbox.tree()
        #expect(try sandbox.run(command) == expected, "\(command)")
        #expect(try sandbox.tree() == tree, "\(command)")
    }

    @Test("Refused evidence exits with 4, names the failed check, and records nothing")
    func refusals() throws {
        try mint.writeTransaction("night.jws", "2001")
        try mint.writeTransaction("sandbox.jws", "2001", environment: "Sandbox")
        try mint.writeTransaction("forged.jws", "2001") { $0.changeSignature = { $0.map { $0 ^ 1 } } }
        try mint.writePlayPurchase("pending.json", state: 4)
        try mint.writePlayPurchase("play.json", package: "com.example.cat")
        try sandbox.write("", to: "empty")
        try sandbox.write(String(repeating: "a", count: 16 << 10 + 1), to: "long.jws")
        try sandbox.write([UInt8](repeating: 0x30, count: 8 << 20 + 1), to: "huge")
        try sandbox.write("[1]", to: "list.json")
        let transaction = "--kind app-store-transaction \(Self.apple)"
        let refused: [(String, String)] = [
            ("night.jws --kind app-store-transaction --bundle com.other --evidence-root roots.pem", "app: "),
            ("sandbox.jws \(transaction)", "environment: "), ("forged.jws \(transaction)", "signature: "),
            ("night.jws --kind app-store-transaction --bundle com.example", "certificates: "),
            ("empty \(transaction)", "format: empty is empty"), ("long.jws \(transaction)", "size: "),
            ("huge --kind app-store-receipt \(Self.apple)", "size: huge has 8388609 bytes; evidence has at most "),
            (
                "night.jws --kind app-store-receipt \(Self.apple)",
                "kind: this is not an app receipt in base64, but a transaction"
            ),
            ("pending.json --kind google-play \(Self.play)", "state: "),
            ("play.json --kind google-play \(Self.play)", "app: "),
            ("list.json --kind google-play \(Self.play)", "format: list.json must be a JSON object with the texts "),
            ("play.json --kind google-play \(Self.play) --environment sandbox", "app: "),
        ]
        let tree = try sandbox.tree()
        for (command, reason) in refused {
            let outcome = try sandbox.run("record evidence \(command)")
            #expect(outcome.exitCode == 4 && outcome.output.isEmpty, "\(command): \(outcome)")
            #expect(outcome.error.hasPrefix("syncd: \(reason)"), "\(command): \(outcome)")
            #expect(try sandbox.tree() == tree, "\(command)")
        }
    }

    @Test("Wrong options are refused, and record nothing")
    func options() throws {
        try mint.writeTransaction("night.jws", "2001")
        try expectNothingChanges(
            .refused(
                2, "--kind must be one of app-store-transaction, app-store-receipt, google-play, not \"stripe\""),
            "record evidence night.jws --kind stripe")
        try expectNothingChanges(
            .refused(2, "the kind app-store-transaction needs --bundle, the app's bundle identifier"),
            "record evidence night.jws --kind app-store-transaction")
        try expectNothingChanges(
            .refused(2, "the kind google-play needs --play-package and --play-key"),
            "record evidence night.jws --kind google-play --play-package com.example.owl")
        try expectNothingChanges(
            .refused(2, "--play-package and --play-key do not apply to the kind app-store-receipt"),
            "record evidence night.jws --kind app-store-receipt \(Self.play)")
        try expectNothingChanges(
            .refused(2, "--bundle and --evidence-root do not apply to the kind google-play"),
            "record evidence night.jws --kind google-play \(Self.play) --bundle com.example")
        try expectNothingChanges(
            .refused(3, "none.jws: no such file"),
            "record evidence none.jws --kind app-store-transaction \(Self.apple)")
        try expectNothingChanges(
            .refused(1, ". must be a file, not a folder"),
            "record evidence . --kind app-store-receipt \(Self.apple)")
    }

    @Test("A later signature of the same transaction replaces the earlier one")
    func laterSignature() throws {
        try mint.writeTransaction("night.jws", "2001")
        let later = AppStoreFoundry.purchaseDate + 86_400_000
        try mint.writeTransaction(
            "refunded.jws", "2001", ["revocationDate": .number(later), "signedDate": .number(later)])
        #expect(
            try record("refunded.jws", "app-store-transaction", Self.apple)
                == .done("recorded for anonymous: 1 new purchase of 1 in app-store-transaction"))
        #expect(try sandbox.run("check night-owl").exitCode == 10)
        #expect(try record("night.jws", "app-store-transaction", Self.apple).exitCode == 0)
        #expect(try sandbox.run("check night-owl").exitCode == 10)
    }
}
