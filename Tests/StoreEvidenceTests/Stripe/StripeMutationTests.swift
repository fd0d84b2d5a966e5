import Entitlements
import EvidenceTestSupport
import Testing

@testable import StoreEvidence

@Suite("Mutated events of Stripe")
struct StripeMutationTests {
    private static let seed: UInt64 = 29
    /// The mutants of all tests together are as many as the environment asks for.
    private static let count = Mutator.count / 3

    private static let subscription = """
        {"id":"sub_1","status":"past_due","cancel_at":1780000000,"metadata":{"entitlementsync_account":"abc"},
         "items":{"data":[{"current_period_end":1782592000}]}}
        """
    private static let invoice = """
        {"id":"in_1","parent":{"subscription_details":{"subscription":"sub_1"}},"lines":{"data":[{"amount":500,
         "pricing":{"price_details":{"price":"price_month"}},"period":{"start":1780000000,"end":1782592000}}]},
         "payments":{"data":[{"payment":{"payment_intent":"pi_2"}}]}}
        """
    private static let dispute = """
        {"id":"dp_1","payment_intent":"pi_1","status":"needs_response","reason":"fraudulent","created":1780000000}
        """
    private static let bodies: [[UInt8]] = [
        StripeStage.event("checkout.session.completed", StripeStage.checkout()),
        StripeStage.event("invoice.paid", invoice),
        StripeStage.event("customer.subscription.updated", subscription),
        StripeStage.event("charge.dispute.created", dispute),
        StripeStage.event("charge.refunded", "{\"id\":\"ch_1\",\"refunded\":true,\"payment_intent\":\"pi_1\"}"),
    ].map { Array($0.utf8) }

    @Test("Every mutant of a signed body is refused")
    func signedBodies() throws {
        var mutator = Mutator(seed: Self.seed)
        for index in 0..<Self.count {
            let body = Self.bodies[index % Self.bodies.count]
            let signature = StripeStage.signature(String(decoding: body, as: UTF8.self))
            do throws(EvidenceError) {
                _ = try StripeStage.verifier.event(
                    mutator.mutant(of: body), signature: signature, now: StripeStage.now)
                Issue.record("mutant \(index) of seed \(Self.seed) was accepted")
            } catch {
                try #require(error.check == .signature, "mutant \(index) of seed \(Self.seed): \(error)")
            }
        }
    }

    @Test("No mutant of a signature traps or proves other facts")
    func signatures() throws {
        var mutator = Mutator(seed: Self.seed)
        let body = Self.bodies[0]
        let text = String(decoding: body, as: UTF8.self)
        let valid = try StripeStage.verify(text)
        let signature = Array((StripeStage.signature(text) + ",v0=00").utf8)
        var refusals = 0
        for index in 0..<Self.count {
            let mutant = String(decoding: mutator.mutant(of: signature), as: UTF8.self)
            do {
                let evidence = try StripeStage.verifier.event(body, signature: mutant, now: StripeStage.now)
                try #require(evidence == valid, "mutant \(index) of seed \(Self.seed)")
            } catch is EvidenceError { refusals += 1 }
        }
        #expect(refusals > Self.count / 2)
    }

    @Test("No mutant of an event that is signed afterwards traps or gives an unreadable fact")
    func events() throws {
        var mutator = Mutator(seed: Self.seed)
        var refusals = 0
        for index in 0..<Self.count {
            // The signature is over the text, so invalid UTF-8 becomes replacement characters first.
            let mutant = String(decoding: mutator.mutant(of: Self.bodies[index % Self.bodies.count]), as: UTF8.self)
            do {
                let evidence = try StripeStage.verify(mutant)
                for fact in evidence.facts { try #require(Fact(fact.record) == fact, "\(mutant)") }
            } catch is EvidenceError { refusals += 1 }
        }
        #expect((Self.count / 10..<Self.count).contains(refusals))
    }
}
