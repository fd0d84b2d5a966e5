import StoreEvidence
import TestSupport
import Testing

@testable import SyncService

@Suite("Random histories of owners")
struct OwnerHistoryTests {
    /// The digests of 100 histories each, from the seed 1, as the version with two records of owners made them.
    private static let digests = [
        "d2d22b4ff12caea5", "8fb013d05f78caa7", "d94b334daf629c26", "4b80ab9e5c257d4b",
        "76311bca70ac4d2d", "d0f080c0d8fc31eb", "d136fdf0b3349c66", "858e1b84b4018d3f",
        "701cdc73fec6d26c", "efb07a933f668f42", "83d31075566b0f77", "0a1973338d04eeaf",
        "07d0651de2a53c15", "e440a1b61a47e00c", "1297d36a030a6f5c", "b1cbbfcd3d8e55f0",
        "3d034d023e7a4f00", "401728fa3a7c7c60", "e4a641ad45e0cb0a", "90129ffdb37da0e1",
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
