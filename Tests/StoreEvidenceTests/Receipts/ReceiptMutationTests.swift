import Entitlements
import EvidenceTestSupport
import Foundation
import Testing

@testable import StoreEvidence

@Suite("Mutated receipts")
struct ReceiptMutationTests {
    /// The number of mutants of each test; the environment variable `EVIDENCE_MUTATIONS` sets another.
    private static let count = ProcessInfo.processInfo.environment["EVIDENCE_MUTATIONS"].flatMap { Int($0) } ?? 20_000
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

/// Changes documents at random places: bits, bytes, lengths, copies of parts, and cuts.
private struct Mutator: RandomNumberGenerator {
    private var state: UInt64

    init(seed: UInt64) { state = seed }

    /// The generator xorshift64*.
    mutating func next() -> UInt64 {
        state ^= state >> 12
        state ^= state << 25
        state ^= state >> 27
        return state &* 0x2545_F491_4F6C_DD1D
    }

    mutating func mutant(of bytes: [UInt8]) -> [UInt8] {
        var mutant = bytes
        repeat {
            for _ in 0..<Int.random(in: 1...3, using: &self) { change(&mutant) }
        } while mutant == bytes
        return mutant
    }

    private mutating func change(_ bytes: inout [UInt8]) {
        guard !bytes.isEmpty else { return bytes.append(0) }
        let place = Int.random(in: 0..<bytes.count, using: &self)
        switch Int.random(in: 0..<6, using: &self) {
        case 0: bytes[place] ^= 1 << UInt8.random(in: 0..<8, using: &self)
        case 1: bytes[place] = UInt8.random(in: 0...255, using: &self)
        case 2: bytes[place] = [0x00, 0x30, 0x31, 0x7F, 0x80, 0x84, 0xFF].randomElement(using: &self) ?? 0
        case 3: bytes.remove(at: place)
        case 4:
            let end = min(bytes.count, place + Int.random(in: 1...40, using: &self))
            bytes.insert(contentsOf: bytes[place..<end], at: Int.random(in: 0...bytes.count, using: &self))
        default: bytes.removeSubrange(place..<min(bytes.count, place + Int.random(in: 1...40, using: &self)))
        }
    }
}
