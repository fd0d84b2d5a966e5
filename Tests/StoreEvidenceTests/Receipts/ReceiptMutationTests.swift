import Entitlements
import EvidenceTestSupport
import Testing

@testable import StoreEvidence

@Suite("Mutated receipts")
struct ReceiptMutationTests {
    private static let count = Mutator.count
    private static let seed: UInt64 = 27

    @Test("No mutant of a receipt traps or proves other facts")
    func receipts() throws {
        let purchase = MintedPurchase("2", "weekly", at: "2025-05-01T00:00:00Z", expiry: "2025-05-08T00:00:00Z")
        let receipt = MintedReceipt([purchase]) { receipt in
            receipt.certificates = (try? ReceiptAuthority.valid.get()).map { [$0.leaf, $0.intermediate] }
        }
        let bytes = try receipt.bytes(by: ReceiptAuthority.valid.get())
        let facts = try ReceiptStage.verify(bytes)
        var mutator = Mutator(seed: Self.seed)
        var refusals = 0
        for index in 0..<Self.count {
            let mutant = mutator.mutant(of: bytes)
            do {
                let evidence = try ReceiptStage.verify(mutant)
                try #require(evidence == facts, "mutant \(index) of seed \(Self.seed)")
            } catch is EvidenceError {
                refusals += 1
            }
        }
        #expect(refusals > Self.count * 9 / 10)
    }

    @Test("No mutant of a receipt's content traps")
    func contents() throws {
        let purchase = MintedPurchase("2", "weekly", at: "2025-05-01T00:00:00Z", expiry: "2025-05-08T00:00:00Z")
        let bytes = MintedReceipt([purchase]).content
        var mutator = Mutator(seed: Self.seed)
        var refusals = 0
        for _ in 0..<Self.count {
            do {
                let attributes = try ReceiptAttributes(mutator.mutant(of: bytes)[...], "the receipt")
                for value in attributes.purchases {
                    let purchase = try ReceiptPurchase(ReceiptAttributes(value, "purchase"))
                    try #require(!purchase.facts(in: .production, stamp: .signed(at: purchase.date)).isEmpty)
                }
            } catch is EvidenceError {
                refusals += 1
            }
        }
        #expect((Self.count / 10..<Self.count).contains(refusals))
    }

    @Test("No mutant of an answer of verifyReceipt traps")
    func answers() throws {
        let bytes = Array(VerifyReceiptTests.answer.utf8)
        var mutator = Mutator(seed: Self.seed)
        var refusals = 0
        for _ in 0..<Self.count {
            do {
                let evidence = try VerifyReceiptAnswer.evidence(
                    mutator.mutant(of: bytes), bundleIDs: ["com.example.owl"])
                try #require(evidence.signedDate == nil)
                try #require(evidence.facts.allSatisfy { $0.record.key.count > 0 })
            } catch is EvidenceError {
                refusals += 1
            }
        }
        #expect((Self.count / 10..<Self.count).contains(refusals))
    }
}
