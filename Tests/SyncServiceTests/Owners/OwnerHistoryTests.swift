import StoreEvidence
import TestSupport
import Testing

@testable import SyncService

@Suite("Random histories of owners")
struct OwnerHistoryTests {
    /// The digests of 100 histories each, from the seed 1. The version with two records of owners had the same owners
    /// in all of them. Since then, refunds also reach accounts that only reported a purchase.
    private static let digests = [
        "9891d023679ffa2b", "c2f2660c54c55ab1", "8b5a51b1ec38741f", "1cfe4c550f174628",
        "6265f286ce8532b7", "c20b30bbe48f08ac", "be0f8d69ee6fb2bf", "1e0478cf6d460c48",
        "3e616d96cc3e1a1c", "e8efa6237127cf29", "3934a7f216efdb61", "f77a1d124d853e80",
        "53996805f0ce2192", "ff5d9d0ea70d0521", "0e5d41a77295e790", "2e0fec41e506d658",
        "310c54b82302401d", "caab0f38ced91687", "bb82831d8b2d15ad", "4e85320bdef05eb3",
    ]

    private func expectSame(_ digest: String, from first: UInt64) async throws {
        var histories: [String] = []
        for seed in first..<first + 100 {
            histories.append(hexadecimalDigest(of: try await OwnerHistory.trace(seed: seed).joined(separator: "\n")))
        }
        #expect(hexadecimalDigest(of: histories.joined(separator: "\n")).hasPrefix(digest), "seeds from \(first)")
    }

    @Test("100 histories of claims, proofs, restores and erasures have the same owners as in earlier versions")
    func sameOwners() async throws { try await expectSame(Self.digests[0], from: 1) }

    @Test("2,000 histories have the same owners as in earlier versions", .longForm)
    func sameOwnersLong() async throws {
        for (index, digest) in Self.digests.enumerated() { try await expectSame(digest, from: UInt64(index) * 100 + 1) }
    }
}
