import Entitlements
import EvidenceTestSupport
import Foundation
import SwiftASN1
import Testing
import X509

@testable import StoreEvidence

@Suite("App receipts")
struct ReceiptTests {
    private static let vectors = URL(filePath: "/work/shared/vectors")

    @Test("All purchases become facts with the receipt's date as stamp")
    func facts() throws {
        let receipt = MintedReceipt([
            MintedPurchase("12", "coins", at: "2025-02-01T00:00:00Z") { $0.quantity = 3 },
            MintedPurchase(
                "11", "weekly", at: "2025-01-08T00:00:00Z", original: "10", expiry: "2025-01-15T00:00:00Z"),
            MintedPurchase("10", "weekly", at: "2025-01-01T00:00:00Z", expiry: "2025-01-08T00:00:00Z") {
                $0.isTrial = true
            },
        ])
        let evidence = try ReceiptStage.verify(receipt)
        let created = try Timestamp("2025-06-01T12:00:00Z")
        #expect(evidence.kind == .appStoreReceipt)
        #expect(evidence.signedDate == created)
        #expect(evidence.accountToken == nil)
        let purchases = ReceiptStage.purchases(evidence)
        #expect(purchases.count == evidence.facts.count)
        #expect(purchases.map(\.transaction.id) == ["10", "11", "12"])
        #expect(purchases.allSatisfy { $0.stamp == .signed(at: created) && $0.terms == nil })
        #expect(purchases.allSatisfy { $0.transaction.store == .appStore && $0.transaction.environment == .production })
        #expect(purchases.map(\.quantity) == [1, 1, 3])
        #expect(purchases.map(\.originalID) == [nil, "10", nil])
        #expect(purchases.map(\.isIntroductory) == [true, false, false])
        #expect(
            purchases.map(\.storeExpiry) == [
                try Timestamp("2025-01-08T00:00:00Z"), try Timestamp("2025-01-15T00:00:00Z"), nil,
            ])
        #expect(purchases[2].date == (try Timestamp("2025-02-01T00:00:00Z")))
    }

    @Test("The introductory mark is read as well as the trial mark")
    func introductory() throws {
        let purchase = MintedPurchase("1", "weekly", at: "2025-01-01T00:00:00Z") { $0.isIntroductory = true }
        #expect(
            ReceiptStage.purchases(try ReceiptStage.verify(MintedReceipt([purchase]))).map(\.isIntroductory) == [true])
    }

    @Test("Only a cancellation date yields a revocation, and nothing reinstates")
    func revocation() throws {
        let evidence = try ReceiptStage.verify(
            MintedReceipt([
                MintedPurchase("1", "owl", at: "2025-01-01T00:00:00Z"),
                MintedPurchase("2", "owl", at: "2025-01-02T00:00:00Z") { $0.cancelledAt = "2025-01-05T00:00:00Z" },
            ]))
        let revocations = ReceiptStage.revocations(evidence)
        #expect(evidence.facts.count == 3)
        #expect(revocations.map(\.transaction.id) == ["2"])
        #expect(revocations.map(\.revokedAt) == [try Timestamp("2025-01-05T00:00:00Z")])
        #expect(revocations.map(\.stamp) == [.signed(at: try Timestamp("2025-06-01T12:00:00Z"))])
    }

    @Test(
        "The environment follows from the receipt's type",
        arguments: [
            ("Production", EnvironmentID.production), ("ProductionVPP", .production), ("ProductionSandbox", .sandbox),
            ("ProductionVPPSandbox", .sandbox),
        ])
    func environment(type: String, environment: EnvironmentID) throws {
        let receipt = MintedReceipt([MintedPurchase("1", "owl", at: "2025-01-01T00:00:00Z")]) { $0.environment = type }
        let purchases = ReceiptStage.purchases(try ReceiptStage.verify(receipt))
        #expect(purchases.map(\.transaction.environment) == [environment])
    }

    @Test("The signature algorithm may name the digest", arguments: [MintedReceipt.Digest.sha256, .sha1])
    func namedAlgorithm(digest: MintedReceipt.Digest) throws {
        let receipt = MintedReceipt([MintedPurchase("1", "owl", at: "2020-01-01T00:00:00Z")]) {
            $0.digest = digest
            $0.namesPlainRSA = false
            $0.created = "2020-06-01T00:00:00Z"
        }
        #expect(try ReceiptStage.verify(receipt).facts.count == 1)
    }

    @Test("Invalid purchases are refused with their attribute")
    func invalidPurchases() throws {
        let cases: [(String, (inout MintedPurchase) -> Void)] = [
            ("attribute 1703 of purchase 2 is missing", { $0.transaction = "" }),
            ("attribute 1702 of purchase 2 is missing", { $0.product = "" }),
            ("attribute 1704 of purchase 2", { $0.date = "" }),
            ("attribute 1704 of purchase 2", { $0.date = "2025-13-01T00:00:00Z" }),
            ("attribute 1708 of purchase 2", { $0.expiry = "never" }),
            ("attribute 1712 of purchase 2", { $0.cancelledAt = "never" }),
            ("attribute 1701 of purchase 2, the quantity, must be 1 to 10,000, not 0", { $0.quantity = 0 }),
            ("attribute 1702 of purchase 2", { $0.product = String(repeating: "x", count: 256) }),
            ("twice, differently", { $0.transaction = "1" }),
        ]
        for (reason, change) in cases {
            let receipt = MintedReceipt([
                MintedPurchase("1", "owl", at: "2025-01-01T00:00:00Z"),
                MintedPurchase("2", "owl", at: "2025-01-02T00:00:00Z", change),
            ])
            ReceiptStage.expectRefusal(.content, reason) { try ReceiptStage.verify(receipt) }
        }
    }

    @Test("Purchases of three months with an early renewal and a gap replay to the expected ends")
    func replay() throws {
        let group: GroupID = "random"
        let catalog = try Catalog(
            products: [
                Product(
                    id: "three-months", kind: .nonRenewing(group: group, duration: CalendarDuration(months: 3)))
            ],
            entitlements: [Entitlement(id: "random-owls", grantedBy: [.group(group)])], policy: Policy())
        let receipt = MintedReceipt([
            MintedPurchase("3", "three-months", at: "2025-08-15T00:00:00Z"),
            MintedPurchase("1", "three-months", at: "2025-01-01T00:00:00Z"),
            MintedPurchase("2", "three-months", at: "2025-03-01T00:00:00Z"),
        ]) { $0.created = "2025-09-01T00:00:00Z" }
        let facts = try ReceiptStage.verify(receipt).facts
        let replay = Replay(Facts(account: Ledger(facts.map(\.record))), catalog: catalog)
        let chains = try #require(replay.timelines[group]).chains
        #expect(
            chains.map(\.start) == [try Timestamp("2025-01-01"), try Timestamp("2025-08-15")], "\(chains)")
        #expect(chains.map(\.end) == [try Timestamp("2025-07-01"), try Timestamp("2025-11-15")], "\(chains)")
    }

    @Test(
        "A real receipt of the sandbox verifies against Apple's root",
        .enabled(if: FileManager.default.fileExists(atPath: vectors.path())))
    func realReceipt() throws {
        let folder = Self.vectors.appending(path: "receipts")
        let text = try String(contentsOf: folder.appending(path: "receipt-sandbox-g5.b64"), encoding: .utf8)
        let bytes = try #require(Data(base64Encoded: text, options: .ignoreUnknownCharacters)).map(\.self)
        let root = try Certificate(
            derEncoded: Array(Data(contentsOf: folder.appending(path: "AppleIncRootCertificate.cer"))))
        func verify(_ bundleID: String) throws -> VerifiedEvidence {
            try AppStoreVerifier(
                bundleIDs: [bundleID], environments: [.sandbox], roots: EvidenceRoots(certificates: [root])
            ).receipt(bytes, now: Timestamp("2025-12-27T00:00:00Z"))
        }
        let evidence = try verify("dev.bonzer.weeka.app")
        let purchases = ReceiptStage.purchases(evidence)
        #expect(evidence.signedDate == (try Timestamp("2025-12-26T18:39:47Z")))
        #expect(evidence.facts.count == 2)
        #expect(purchases.count == 2)
        #expect(purchases.allSatisfy { $0.transaction.environment == .sandbox && $0.storeExpiry != nil })
        #expect(purchases.contains { $0.transaction.id == "2000001092134138" && $0.originalID == nil })
        ReceiptStage.expectRefusal(.app, "dev.bonzer.weeka.app") { try verify("com.example.owl") }
        ReceiptStage.expectRefusal(.certificates, "pinned root") { try ReceiptStage.verify(bytes) }
    }

    @Test(
        "Receipts of Xcode are refused because they are not DER",
        .enabled(if: FileManager.default.fileExists(atPath: vectors.path())),
        arguments: ["xcode-app-receipt-empty", "xcode-app-receipt-with-transaction"])
    func xcodeReceipts(name: String) throws {
        let file = Self.vectors.appending(path: "app-store/xcode/\(name)")
        let text = try String(contentsOf: file, encoding: .utf8)
        let bytes = try #require(Data(base64Encoded: text, options: .ignoreUnknownCharacters)).map(\.self)
        ReceiptStage.expectRefusal(.format, "indefinite length") {
            try ReceiptStage.verify(bytes, environments: ["xcode"])
        }
    }
}
