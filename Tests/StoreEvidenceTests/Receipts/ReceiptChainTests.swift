import Entitlements
import EvidenceTestSupport
import Testing

@testable import StoreEvidence

@Suite("Receipts with a wrong chain of certificates are refused")
struct ReceiptChainTests {
    private func expectRefusal(
        _ text: String, sourceLocation: SourceLocation = #_sourceLocation,
        _ change: (inout ReceiptAuthority.Flaws) -> Void
    ) throws {
        let authority = try ReceiptAuthority(ReceiptAuthority.Flaws(change))
        ReceiptStage.expectRefusal(.certificates, text, sourceLocation: sourceLocation) {
            try ReceiptStage.verify(MintedReceipt(), by: authority)
        }
    }

    @Test("An intermediate certificate of another root with Apple's name")
    func foreignRoot() throws { try expectRefusal("not issued by a pinned root") { $0.foreignRoot = true } }

    @Test("A leaf certificate that the intermediate one did not sign")
    func foreignIntermediate() throws {
        try expectRefusal("not issued by the intermediate") { $0.foreignIntermediate = true }
    }

    @Test("Certificates without Apple's markers")
    func markers() throws {
        try expectRefusal("the intermediate certificate lacks") { $0.intermediateMarker = false }
        try expectRefusal("the signer's certificate lacks") { $0.leafMarker = false }
    }

    @Test("An intermediate certificate that is no authority or must not sign certificates")
    func authority() throws {
        try expectRefusal("no authority") { $0.intermediateIsAuthority = false }
        try expectRefusal("no authority") { $0.intermediateMaySign = false }
    }

    @Test("A leaf certificate that is an authority")
    func leafAuthority() throws { try expectRefusal("is an authority") { $0.leafIsAuthority = true } }

    @Test("The intermediate certificate as signer")
    func intermediateAsSigner() throws {
        let authority = try ReceiptAuthority.valid.get().signingWithIntermediate()
        let receipt = MintedReceipt { $0.certificates = [authority.intermediate, authority.root] }
        ReceiptStage.expectRefusal(.certificates, "the intermediate certificate lacks") {
            try ReceiptStage.verify(receipt, by: authority)
        }
    }

    @Test("Certificates of a self-made root in any order")
    func exchanged() throws {
        let other = try ReceiptAuthority(ReceiptAuthority.Flaws { $0.foreignRoot = true })
        let receipt = MintedReceipt { $0.certificates = [other.leaf, other.root, other.intermediate] }
        ReceiptStage.expectRefusal(.certificates, "not issued by a pinned root") {
            try ReceiptStage.verify(receipt, by: other)
        }
    }

    @Test("An unknown critical extension")
    func critical() throws {
        try expectRefusal("unknown critical extension 1.2.3.4") { $0.unknownCriticalExtension = true }
    }

    @Test("Certificates that were not valid at the creation date")
    func validity() throws {
        try expectRefusal("not valid at 2025-06-01") { $0.leafNotAfter = ReceiptAuthority.date(2025) }
        try expectRefusal("not valid at 2025-06-01") { $0.leafNotBefore = ReceiptAuthority.date(2026) }
    }

    @Test("Certificates that have expired since the creation date are accepted")
    func expiredSince() throws {
        let authority = try ReceiptAuthority(.init { $0.leafNotAfter = ReceiptAuthority.date(2026) })
        let evidence = try ReceiptStage.verify(MintedReceipt(), by: authority, now: "2030-01-01T00:00:00Z")
        #expect(evidence.facts == [])
    }

    @Test("Certificates with SHA-1 that are cached for an old receipt do not pass elsewhere")
    func cachedSHA1() throws {
        let authority = try ReceiptAuthority(.init { $0.usesSHA1 = true })
        let chains = AppleChains(EvidenceRoots(certificates: [authority.root]))
        let (leaf, intermediate) = try (
            AppStoreFoundry.der(authority.leaf), AppStoreFoundry.der(authority.intermediate)
        )
        let date = try Timestamp("2024-06-01T00:00:00Z")
        for _ in 0..<2 {
            _ = try chains.publicKey(leaf: leaf, intermediate: intermediate, at: date, allowsSHA1: true)
            let error = #expect(throws: EvidenceError.self) {
                try chains.publicKey(leaf: leaf, intermediate: intermediate, at: date)
            }
            #expect(error?.check == .certificates)
        }
    }

    @Test("A missing leaf or intermediate certificate, and a leaf that is there twice")
    func missing() throws {
        let authority = try ReceiptAuthority.valid.get()
        for certificates in [
            [], [authority.intermediate, authority.root], [authority.leaf, authority.root],
            [authority.leaf, authority.leaf, authority.intermediate],
        ] {
            ReceiptStage.expectRefusal(.certificates, "1 is expected") {
                try ReceiptStage.verify(MintedReceipt { $0.certificates = certificates })
            }
        }
    }

    @Test("More than eight certificates")
    func many() throws {
        let authority = try ReceiptAuthority.valid.get()
        ReceiptStage.expectRefusal(.header, "at most 8 certificates, not 9") {
            try ReceiptStage.verify(MintedReceipt { $0.certificates = Array(repeating: authority.root, count: 9) })
        }
    }
}
