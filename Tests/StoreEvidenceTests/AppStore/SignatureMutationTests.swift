import Entitlements
import EvidenceTestSupport
import SwiftASN1
import Testing
import X509

@testable import StoreEvidence

@Suite("Mutated JSON web signatures")
struct SignatureMutationTests {
    private static let seed: UInt64 = 28
    /// The mutants of all tests together are as many as the environment asks for.
    private static let count = Mutator.count / 7
    private static let everything: SignedFields = [
        "offerType": 1, "appAccountToken": "7e3fb204-2b8f-4d3c-9a1b-0123456789ab", "revocationDate": .minute(-1),
        "revocationReason": 1, "revocationType": "REFUND_PRORATED", "revocationPercentage": 50_000,
    ]
    private static let grace: SignedFields = [
        "isInBillingRetryPeriod": true, "gracePeriodExpiresDate": .minute(90),
        "autoRenewProductId": "com.example.weekly",
    ]

    private let foundry: AppStoreFoundry
    private let verifier: AppStoreVerifier
    private let now = Timestamp(milliseconds: AppStoreStage.now)

    init() throws {
        foundry = try AppStoreFoundry.valid.get()
        verifier = try AppStoreStage.verifier()
    }

    @Test("Every mutant of a signed transaction is refused")
    func transactions() throws {
        try expectRefusals(of: foundry.transaction(Self.everything)) { try verifier.transaction($0, now: now) }
    }

    @Test("Every mutant of a signed notification is refused")
    func notifications() throws {
        let payload = try foundry.notification("DID_RENEW", transaction: Self.everything, renewal: Self.grace)
        try expectRefusals(of: payload) { try verifier.notification(signedPayload: $0, now: now) }
    }

    private func expectRefusals(of jws: String, by verify: (String) throws -> VerifiedEvidence) throws {
        #expect(throws: Never.self) { _ = try verify(jws) }
        var mutator = Mutator(seed: Self.seed)
        for index in 0..<Self.count {
            let mutant = String(decoding: mutator.mutant(of: Array(jws.utf8)), as: UTF8.self)
            do {
                _ = try verify(mutant)
                Issue.record("mutant \(index) of seed \(Self.seed) was accepted: \(mutant)")
            } catch is EvidenceError {
                continue
            }
        }
    }

    // The number of unused bits in the signature's encoding is not signed, and the decoder does not look at it.
    @Test("A mutant of a certificate is refused, or has the signed content unchanged")
    func certificates() throws {
        var mutator = Mutator(seed: Self.seed)
        let valid = try foundry.certificates
        let chains = AppleChains(try EvidenceRoots(pem: foundry.roots))
        for index in 0..<Self.count {
            var certificates = valid
            certificates[index % 2] = mutator.mutant(of: valid[index % 2])
            do throws(EvidenceError) {
                _ = try chains.publicKey(leaf: certificates[0], intermediate: certificates[1], at: now)
            } catch {
                try #require(error.check == .certificates)
                continue
            }
            let contents = try [valid[index % 2], certificates[index % 2]].map {
                Array(try Certificate(derEncoded: $0).tbsCertificateBytes)
            }
            #expect(contents[0] == contents[1], "certificate \(index) of seed \(Self.seed)")
        }
    }

    @Test("No mutant of a header traps or proves other facts, even if it is signed")
    func headers() throws {
        let body = AppStoreFoundry.transactionFields(Self.everything).json
        let valid = try verifier.transaction(foundry.sign(body), now: now)
        let header = try Self.header(of: foundry.sign(body))
        var mutator = Mutator(seed: Self.seed)
        let refusals = try signedMutants { text in
            text.body = body
            text.headerText = String(decoding: mutator.mutant(of: header), as: UTF8.self)
        } check: { jws in
            let evidence = try verifier.transaction(jws, now: now)
            try #require(evidence == valid)
        }
        #expect(refusals > Self.count / 2)
    }

    @Test("No signed mutant of a transaction's body traps or gives an unreadable fact")
    func transactionBodies() throws {
        let refusals = try mutantBodies(of: AppStoreFoundry.transactionFields(Self.everything).json) { jws in
            try verifier.transaction(jws, now: now)
        }
        #expect((Self.count / 10..<Self.count).contains(refusals))
    }

    @Test("No signed mutant of a renewal info's body traps or gives an unreadable fact")
    func renewalBodies() throws {
        let refusals = try mutantBodies(of: AppStoreFoundry.renewalFields(Self.grace).json) { jws in
            try verifier.renewal(jws, now: now)
        }
        #expect((Self.count / 10..<Self.count).contains(refusals))
    }

    @Test("No mutant of a request's body proves other facts")
    func requests() throws {
        let body = AppStoreFoundry.body(of: try foundry.notification("DID_RENEW", transaction: Self.everything))
        let valid = try verifier.notification(body, now: now)
        var mutator = Mutator(seed: Self.seed)
        for index in 0..<Self.count {
            do {
                let evidence = try verifier.notification(mutator.mutant(of: body), now: now)
                try #require(evidence == valid, "mutant \(index) of seed \(Self.seed)")
            } catch is EvidenceError {
                continue
            }
        }
    }

    private func mutantBodies(of json: String, _ verify: (String) throws -> VerifiedEvidence) throws -> Int {
        var mutator = Mutator(seed: Self.seed)
        return try signedMutants { text in
            text.body = String(decoding: mutator.mutant(of: Array(json.utf8)), as: UTF8.self)
        } check: { jws in
            let evidence = try verify(jws)
            try #require(!evidence.facts.isEmpty)
            for fact in evidence.facts { try #require(Fact(fact.record) == fact, "\(jws)") }
        }
    }

    /// Signs mutants and checks the accepted ones.
    ///
    /// - Returns: The number of refusals.
    private func signedMutants(_ change: (inout SignedText) -> Void, check: (String) throws -> Void) throws -> Int {
        var refusals = 0
        for _ in 0..<Self.count {
            do { try check(try foundry.sign("", change)) } catch is EvidenceError { refusals += 1 }
        }
        return refusals
    }

    private static func header(of jws: String) throws -> [UInt8] {
        let segment = try #require(jws.split(separator: ".").first)
        return try #require(Base64.url.decode(segment.utf8))
    }
}
