import Crypto
import Entitlements
import EvidenceTestSupport
import Foundation
import SwiftASN1
import Testing
import X509

@testable import StoreEvidence

@Suite("JSON web signatures with a wrong chain of certificates are refused")
struct ChainForgeryTests {
    private let foundry: AppStoreFoundry

    init() throws { foundry = try AppStoreFoundry.valid.get() }

    /// Expects that a transaction of a flawed foundry is refused, even though the foundry's root is pinned.
    private func expectRefusal(
        _ text: String, sourceLocation: SourceLocation = #_sourceLocation,
        _ change: (inout AppStoreFoundry.Flaws) -> Void
    ) throws {
        let flawed = try AppStoreFoundry(AppStoreFoundry.Flaws(change))
        let verifier = try AppStoreStage.verifier(flawed)
        let jws = try flawed.transaction()
        AppStoreStage.expectRefusal(.certificates, text, sourceLocation: sourceLocation) {
            try verifier.transaction(jws, now: Timestamp(milliseconds: AppStoreStage.now))
        }
    }

    @Test("A self-made root with Apple's name, sent along or not")
    func selfMadeRoot() throws {
        let other = try AppStoreFoundry()
        #expect(other.root.subject == foundry.root.subject)
        let jws = try other.transaction()
        AppStoreStage.expectRefusal(.certificates, "not issued by a pinned root") {
            try AppStoreStage.transaction(jws)
        }
        let root = try AppStoreFoundry.der(foundry.root)
        let disguised = try other.transaction { $0.certificates[2] = root }
        AppStoreStage.expectRefusal(.certificates, "not issued by a pinned root") {
            try AppStoreStage.transaction(disguised)
        }
        AppStoreStage.expectRefusal(.certificates, "not issued by a pinned root") {
            try AppStoreVerifier(bundleIDs: ["com.example"]).transaction(
                foundry.transaction(), now: Timestamp(milliseconds: AppStoreStage.now))
        }
    }

    @Test("The third certificate of the header is not used")
    func ignoredRoot() throws {
        for third in [Data(), Data([1]), Data(try AppStoreFoundry.der(foundry.leaf))] {
            let jws = try foundry.transaction { $0.certificates[2] = Array(third) }
            #expect(try AppStoreStage.transaction(jws).facts.count == 2)
        }
    }

    @Test("An intermediate certificate that another root with the same name signed")
    func foreignRoot() throws { try expectRefusal("not issued by a pinned root") { $0.foreignRoot = true } }

    @Test("An intermediate certificate without Apple's marker")
    func intermediateMarker() throws {
        try expectRefusal("the intermediate certificate lacks") { $0.intermediateMarker = false }
    }

    @Test("An intermediate certificate that is no authority")
    func intermediateAuthority() throws { try expectRefusal("no authority") { $0.intermediateIsAuthority = false } }

    @Test("An intermediate certificate that must not sign certificates")
    func intermediateUsage() throws { try expectRefusal("no authority") { $0.intermediateMaySign = false } }

    @Test("Certificates that state no key usage are accepted, but not for a signer that is an authority")
    func unstatedUsage() throws {
        let foundry = try AppStoreFoundry(AppStoreFoundry.Flaws { $0.statesKeyUsage = false })
        let evidence = try AppStoreStage.verifier(foundry).transaction(
            foundry.transaction(), now: Timestamp(milliseconds: AppStoreStage.now))
        #expect(evidence.facts.count == 2)
        try expectRefusal("is an authority") { flaws in
            flaws.statesKeyUsage = false
            flaws.leafIsAuthority = true
        }
        try expectRefusal("no authority") { flaws in
            flaws.statesKeyUsage = false
            flaws.intermediateIsAuthority = false
        }
    }

    @Test("A signer's certificate without Apple's marker")
    func leafMarker() throws { try expectRefusal("the signer's certificate lacks") { $0.leafMarker = false } }

    @Test("A signer's certificate that is an authority")
    func leafAuthority() throws { try expectRefusal("is an authority") { $0.leafIsAuthority = true } }

    @Test("A signer's certificate that another intermediate one with the same name signed")
    func foreignIntermediate() throws {
        try expectRefusal("not issued by the intermediate one") { $0.foreignIntermediate = true }
    }

    @Test("A certificate that is signed with SHA-1", arguments: [AppStoreFoundry.Link.intermediate, .leaf])
    func sha1(_ link: AppStoreFoundry.Link) throws {
        let name = link == .leaf ? "signer's" : "intermediate"
        try expectRefusal("the \(name) certificate is signed with SHA-1") { $0.sha1 = link }
    }

    @Test("A signer's key on the curve P-384")
    func leafCurve() throws {
        let flawed = try AppStoreFoundry(AppStoreFoundry.Flaws { $0.leafIsP384 = true })
        let verifier = try AppStoreStage.verifier(flawed)
        let now = Timestamp(milliseconds: AppStoreStage.now)
        let jws = try flawed.transaction { $0.header["alg"] = "ES384" }
        AppStoreStage.expectRefusal(.header, "must be ES256") { try verifier.transaction(jws, now: now) }
        // The name of the algorithm is right, and so is the length of the signature.
        let disguised = try flawed.transaction { $0.changeSignature = { Array($0.prefix(64)) } }
        AppStoreStage.expectRefusal(.certificates, "not on the curve P-256") {
            try verifier.transaction(disguised, now: now)
        }
    }

    @Test("Certificates that were not valid at signedDate")
    func validity() throws {
        let (early, late) = (ReceiptAuthority.date(2025), ReceiptAuthority.date(2026))
        try expectRefusal("the signer's certificate was not valid at 2025-06-01") { $0.leafNotAfter = early }
        try expectRefusal("the signer's certificate was not valid at 2025-06-01") { $0.leafNotBefore = late }
        try expectRefusal("the intermediate certificate was not valid at 2025-06-01") {
            $0.intermediateNotAfter = early
        }
        try expectRefusal("the intermediate certificate was not valid at 2025-06-01") {
            $0.intermediateNotBefore = late
        }
    }

    @Test("Validity is checked again for a chain in the cache")
    func cachedValidity() throws {
        let foundry = try AppStoreFoundry(AppStoreFoundry.Flaws { $0.leafNotAfter = ReceiptAuthority.date(2026) })
        let verifier = try AppStoreStage.verifier(foundry)
        let now = try Timestamp("2030-01-01T00:00:00Z")
        #expect(try verifier.transaction(foundry.transaction(), now: now).facts.count == 2)
        for date in ["2026-01-01T00:00:01.000Z", "2019-12-31T23:59:59.000Z"] {
            let jws = try foundry.transaction(["signedDate": .date(try Timestamp(date))])
            AppStoreStage.expectRefusal(.certificates, "the signer's certificate was not valid at \(date)") {
                try verifier.transaction(jws, now: now)
            }
        }
        #expect(try verifier.transaction(foundry.transaction(), now: now).facts.count == 2)
    }

    @Test("A cached intermediate certificate does not vouch for other signers")
    func cachedIntermediate() throws {
        let verifier = try AppStoreStage.verifier()
        let now = Timestamp(milliseconds: AppStoreStage.now)
        #expect(try verifier.transaction(foundry.transaction(), now: now).facts.count == 2)
        let other = try AppStoreFoundry()
        let jws = try other.transaction { text in
            text.certificates[1] = (try? AppStoreFoundry.der(foundry.intermediate)) ?? []
        }
        AppStoreStage.expectRefusal(.certificates, "not issued by the intermediate one") {
            try verifier.transaction(jws, now: now)
        }
    }

    @Test("An unknown critical extension", arguments: [AppStoreFoundry.Link.intermediate, .leaf])
    func critical(_ link: AppStoreFoundry.Link) throws {
        try expectRefusal("unknown critical extension 1.2.3.4") { $0.criticalExtension = link }
    }

    @Test("The signer's certificate as issuer of another one")
    func leafAsIssuer() throws {
        let key = P256.Signing.PrivateKey()
        let forged = try Certificate(
            version: .v3, serialNumber: .init(1), publicKey: .init(key.publicKey),
            notValidBefore: ReceiptAuthority.date(2020), notValidAfter: ReceiptAuthority.date(2045),
            issuer: foundry.leaf.subject, subject: foundry.leaf.subject, signatureAlgorithm: .ecdsaWithSHA256,
            extensions: foundry.leaf.extensions, issuerPrivateKey: foundry.leafKey.certificateKey)
        let bytes = try AppStoreFoundry.der(forged)
        try AppStoreStage.expectRefusal(.certificates, "the intermediate certificate lacks") { text in
            text.certificates = [bytes, text.certificates[0], text.certificates[1]]
            text.key = .p256(key)
        }
    }

    @Test("The root as the signer's certificate, or as the intermediate one")
    func rootAsOther() throws {
        try AppStoreStage.expectRefusal(.certificates, "the signer's certificate lacks") { text in
            text.certificates[0] = text.certificates[2]
        }
        try AppStoreStage.expectRefusal(.certificates, "the intermediate certificate lacks") { text in
            text.certificates[1] = text.certificates[2]
        }
    }

    @Test("Certificates in another order", arguments: [[1, 0, 2], [2, 1, 0], [0, 2, 1], [1, 2, 0], [2, 0, 1]])
    func order(_ order: [Int]) throws {
        try AppStoreStage.expectRefusal(.certificates, "lacks Apple's marker") { text in
            text.certificates = order.map { text.certificates[$0] }
        }
    }

    @Test("The certificate of another signer")
    func swappedLeaf() throws {
        let other = try AppStoreFoundry.der(AppStoreFoundry().leaf)
        try AppStoreStage.expectRefusal(.certificates, "not issued by the intermediate one") {
            $0.certificates[0] = other
        }
    }

    @Test("A certificate that is cut, has bytes after it, is no DER, or is empty", arguments: [0, 1])
    func encoding(_ index: Int) throws {
        let valid = try foundry.certificates[index]
        for bytes in [valid + [0], valid + valid, Array(valid.dropLast()), Array(valid.dropFirst()), [], [0x30, 0]] {
            try AppStoreStage.expectRefusal(.certificates, "not one X.509 certificate in DER") {
                $0.certificates[index] = bytes
            }
        }
    }

    @Test("A root certificate is accepted in PEM and in DER, also among others")
    func roots() throws {
        let now = Timestamp(milliseconds: AppStoreStage.now)
        let other = try AppStoreFoundry().roots
        let accepted = [
            try foundry.roots, try AppStoreFoundry.der(foundry.root), try other + [0x0A] + foundry.roots,
        ]
        for bytes in accepted {
            let verifier = AppStoreVerifier(bundleIDs: ["com.example"], roots: try EvidenceRoots(pem: bytes))
            #expect(try verifier.transaction(foundry.transaction(), now: now).facts.count == 2)
        }
        for bytes in [[], [1, 2, 3], Array("-----BEGIN nothing".utf8), Array(try foundry.roots.dropLast(40))] {
            let error = #expect(throws: EvidenceError.self) { _ = try EvidenceRoots(pem: bytes) }
            #expect(error?.check == .certificates)
        }
    }
}
