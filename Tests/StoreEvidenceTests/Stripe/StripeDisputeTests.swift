import Entitlements
import StoreEvidence
import Testing

@Suite("Refunds and disputes of Stripe")
struct StripeDisputeTests {
    private static let refunded = "{\"id\":\"ch_1\",\"refunded\":true,\"payment_intent\":\"pi_1\"}"

    private static func dispute(_ status: String, reason: String = "fraudulent") -> String {
        "{\"id\":\"dp_1\",\"charge\":\"ch_1\",\"payment_intent\":\"pi_1\",\"status\":\"\(status)\","
            + "\"reason\":\"\(reason)\",\"created\":\(StripeStage.seconds)}"
    }

    private static func refund(after delay: Int64) throws -> VerifiedEvidence {
        try StripeStage.verify(StripeStage.event("charge.refunded", after: delay, refunded))
    }

    private static func opened(after delay: Int64) throws -> VerifiedEvidence {
        try StripeStage.verify(
            StripeStage.event("charge.dispute.created", after: delay, dispute("needs_response")))
    }

    private static func closed(_ status: String, after delay: Int64) throws -> VerifiedEvidence {
        try StripeStage.verify(StripeStage.event("charge.dispute.closed", after: delay, dispute(status)))
    }

    /// The status of the payment when the events arrive in any order; fails if it depends on the order.
    private func isRevoked(
        _ events: [VerifiedEvidence], sourceLocation: SourceLocation = #_sourceLocation
    ) throws -> Bool {
        var ledgers: Set<[Record]> = []
        for order in permutations(events) {
            var ledger = Ledger()
            for event in order { ledger = ledger.joined(with: Ledger(event.facts.map(\.record))) }
            ledgers.insert(Array(ledger.records))
        }
        try #require(ledgers.count == 1, sourceLocation: sourceLocation)
        let facts = ledgers.flatMap { $0 }.map { Fact($0) }
        guard facts.count == 1, case .revocation(let status)? = facts.first else {
            Issue.record("\(facts)", sourceLocation: sourceLocation)
            return false
        }
        #expect(status.transaction == StripeStage.reference("pi_1"), sourceLocation: sourceLocation)
        return status.revokedAt != nil
    }

    @Test("A full refund revokes the payment, and a refund in part changes nothing")
    func refunds() throws {
        let refund = try Self.refund(after: 100)
        let date = Timestamp(milliseconds: (StripeStage.seconds + 100) * 1_000)
        #expect(
            refund.revocations == [
                Revocation(
                    transaction: StripeStage.reference("pi_1"), revokedAt: date, reason: "refund",
                    stamp: .signed(at: date))
            ])
        let part = Self.refunded.replacing("true", with: "false")
        #expect(try StripeStage.verify(StripeStage.event("charge.refunded", part)).facts.isEmpty)
        let former = Self.refunded.replacing("}", with: ",\"invoice\":\"in_1\"}")
        #expect(
            try StripeStage.verify(StripeStage.event("charge.refunded", former)).aliases == [
                StripeStage.reference("pi_1"): [StripeStage.reference("in_1")]
            ])
    }

    @Test("A charge without a PaymentIntent gives no facts")
    func withoutPayment() throws {
        let charge = "{\"id\":\"ch_1\",\"refunded\":true,\"payment_intent\":null}"
        #expect(try StripeStage.verify(StripeStage.event("charge.refunded", charge)).facts.isEmpty)
        let dispute = "{\"id\":\"dp_1\",\"status\":\"lost\",\"payment_intent\":null}"
        #expect(try StripeStage.verify(StripeStage.event("charge.dispute.closed", dispute)).facts.isEmpty)
    }

    @Test("A dispute revokes the payment from its beginning, and names its reason")
    func disputes() throws {
        let facts = try Self.opened(after: 50).revocations
        #expect(facts.map(\.revokedAt) == [StripeStage.now] && facts.map(\.reason) == ["dispute: fraudulent"])
        let event = StripeStage.event("charge.dispute.funds_withdrawn", Self.dispute("under_review"))
        #expect(try StripeStage.verify(event).revocations.map(\.revokedAt) == [StripeStage.now])
    }

    @Test("An inquiry takes nothing, whatever becomes of it", arguments: ["created", "funds_withdrawn", "closed"])
    func inquiries(_ name: String) throws {
        for status in ["warning_needs_response", "warning_under_review", "warning_closed"] {
            let event = StripeStage.event("charge.dispute.\(name)", Self.dispute(status))
            #expect(try StripeStage.verify(event).facts.isEmpty)
        }
    }

    @Test("A won dispute reinstates the payment and a lost one does not, in every order of arrival")
    func closings() throws {
        #expect(try !isRevoked([Self.opened(after: 0), Self.closed("won", after: 100)]))
        #expect(try isRevoked([Self.opened(after: 0), Self.closed("lost", after: 100)]))
        #expect(try isRevoked([Self.closed("lost", after: 100)]))
    }

    @Test("A dispute that follows a won one revokes again")
    func secondDispute() throws {
        let first = [try Self.opened(after: 0), try Self.closed("won", after: 100)]
        #expect(try isRevoked(first + [Self.opened(after: 200)]))
        #expect(try !isRevoked(first + [Self.opened(after: 200), Self.closed("won", after: 300)]))
    }

    @Test(
        "A won dispute never reinstates a refunded payment, whenever it was refunded, in every order of arrival",
        arguments: [-50, 0, 50, 100, 150] as [Int64])
    func refundedAndWon(_ delay: Int64) throws {
        let events = [try Self.opened(after: 0), try Self.closed("won", after: 100), try Self.refund(after: delay)]
        #expect(try isRevoked(events))
        #expect(try isRevoked(Array(events.dropFirst())))
    }

    @Test("Of a dispute that is opened and won within a second, the revocation counts in every order of arrival")
    func oneSecond() throws {
        #expect(try isRevoked([Self.opened(after: 0), Self.closed("won", after: 0)]))
        #expect(try isRevoked([Self.closed("lost", after: 0), Self.closed("won", after: 0)]))
        #expect(try isRevoked([Self.refund(after: 0), Self.closed("won", after: 0)]))
    }
}
