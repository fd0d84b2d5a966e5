import Entitlements
import EvidenceTestSupport
import Foundation
import Testing

@testable import StoreEvidence

@Suite("Mutated evidence of Google Play")
struct PlayMutationTests {
    private static let seed: UInt64 = 30
    /// The mutants of all tests together are as many as the environment asks for.
    private static let count = Mutator.count / 4

    private static let voided = """
        {"version":"1.0","packageName":"com.example.owl","eventTimeMillis":"1780000000000",
         "voidedPurchaseNotification":{"purchaseToken":"token","orderId":"GPA.1-2..3","productType":1,"refundType":1}}
        """
    private static let renewed = """
        {"version":"1.0","packageName":"com.example.owl","eventTimeMillis":"1780000000000",
         "subscriptionNotification":{"notificationType":2,"purchaseToken":"token","subscriptionId":"month"}}
        """
    private static let subscriptions: [[UInt8]] = [
        PlayStage.subscription(
            "IN_GRACE_PERIOD", PlayStage.item(members: ",\"offerPhase\":{\"freeTrial\":{}}"),
            PlayStage.item("extra", order: "GPA.7-8", members: ",\"deferredItemReplacement\":{\"productId\":\"year\"}"),
            members: ",\"testPurchase\":{},\"externalAccountIdentifiers\":{\"obfuscatedExternalAccountId\":\"a\"}"),
        PlayStage.subscription("ACTIVE", PlayStage.item()),
    ].map { Array($0.utf8) }

    private let verifier: GooglePlayVerifier

    init() throws { verifier = try PlayStage.verifier() }

    @Test("Every mutant of a signed purchase is refused, and so is every mutant of its signature that means another")
    func purchases() throws {
        let data = PlayStage.data()
        let signature = try PlayStage.sign(data)
        let valid = try verifier.purchase(data: data, signature: signature, now: PlayStage.now)
        var mutator = Mutator(seed: Self.seed)
        for index in 0..<Self.count {
            let isText = index.isMultiple(of: 2)
            let mutant = String(decoding: mutator.mutant(of: Array((isText ? data : signature).utf8)), as: UTF8.self)
            do {
                let evidence = try verifier.purchase(
                    data: isText ? mutant : data, signature: isText ? signature : mutant, now: PlayStage.now)
                try #require(!isText && evidence == valid, "mutant \(index) of seed \(Self.seed)")
            } catch is EvidenceError { continue }
        }
    }

    /// Verifies mutants and checks the facts of the accepted ones.
    private func refusals(
        of texts: [[UInt8]], by verify: ([UInt8]) throws -> VerifiedEvidence
    ) throws -> Int {
        var mutator = Mutator(seed: Self.seed)
        var refusals = 0
        for index in 0..<Self.count {
            let mutant = mutator.mutant(of: texts[index % texts.count])
            do {
                for fact in try verify(mutant).facts {
                    try #require(Fact(fact.record) == fact, "mutant \(index) of seed \(Self.seed)")
                }
            } catch is EvidenceError { refusals += 1 }
        }
        return refusals
    }

    @Test("No mutant of a push message traps or gives an unreadable fact")
    func envelopes() throws {
        let bodies = [Self.voided, Self.renewed].map { Array(PlayStage.envelope($0).utf8) }
        let refusals = try refusals(of: bodies) { try verifier.notification($0, now: PlayStage.now).evidence }
        #expect((Self.count / 10..<Self.count).contains(refusals))
    }

    @Test("No mutant of the notification in a push message traps or gives an unreadable fact")
    func notifications() throws {
        let refusals = try refusals(of: [Array(Self.voided.utf8), Array(Self.renewed.utf8)]) { mutant in
            let body = "{\"message\":{\"data\":\"\(Data(mutant).base64EncodedString())\"}}"
            return try verifier.notification(Array(body.utf8), now: PlayStage.now).evidence
        }
        #expect((Self.count / 10..<Self.count).contains(refusals))
    }

    @Test("No mutant of a subscription traps or gives an unreadable fact")
    func subscriptions() throws {
        let refusals = try refusals(of: Self.subscriptions) {
            try verifier.subscription($0, purchaseToken: "token", statedAt: PlayStage.now)
        }
        #expect((Self.count / 10..<Self.count).contains(refusals))
    }
}
