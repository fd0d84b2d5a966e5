import Entitlements
import Testing

@Suite("A non-consumable is owned from its purchase until its refund, or permanently after a flag")
struct OwnershipTests {
    private static func isOwned(_ story: Story, at date: String) throws -> Bool {
        story.replay().isOwned(Shop.owl, at: try Timestamp(date))
    }

    @Test("Ownership begins at the millisecond of the purchase and is permanent")
    func purchase() throws {
        let story = try Story().buying(Shop.owl, at: "2026-01-01", transaction: "A")
        #expect(try !Self.isOwned(story, at: "2025-12-31T23:59:59.999Z"))
        #expect(try Self.isOwned(story, at: "2026-01-01"))
        #expect(try Self.isOwned(story, at: "9999-12-31"))
        #expect(try story.replay().snapshot(at: Timestamp("2026-01-01")).owned == [Shop.owl])
    }

    @Test("Ownership ends at a refund and resumes with another purchase")
    func refund() throws {
        let story = try Story().buying(Shop.owl, at: "2026-01-01", transaction: "A").refunding("A", at: "2026-02-01")
        #expect(try Self.isOwned(story, at: "2026-01-31T23:59:59.999Z"))
        #expect(try !Self.isOwned(story, at: "2026-02-01"))
        let again = try story.buying(Shop.owl, at: "2026-03-01", transaction: "B")
        #expect(try !Self.isOwned(again, at: "2026-02-15"))
        #expect(try Self.isOwned(again, at: "2026-03-01"))
    }

    @Test("A product that was refunded before its purchase date was never owned")
    func refundBeforePurchase() throws {
        let story = try Story().buying(Shop.owl, at: "2026-02-01", transaction: "A").refunding("A", at: "2026-01-01")
        #expect(try !Self.isOwned(story, at: "2026-01-15"))
        #expect(try !Self.isOwned(story, at: "2026-02-01"))
    }

    @Test("A future refund ends the grant; a second purchase without a refund makes it permanent")
    func futureRefund() throws {
        let story = try Story().buying(Shop.owl, at: "2026-01-01", transaction: "A").refunding("A", at: "2026-06-01")
        let now = try Timestamp("2026-02-01")
        let end = try Timestamp("2026-06-01")
        #expect(
            story.replay().access(to: "owl", at: now) == .granted(Access.Grant(until: end, source: .product(Shop.owl)))
        )
        let twice = try story.buying(Shop.owl, at: "2026-01-02", transaction: "B")
        #expect(
            twice.replay().access(to: "owl", at: now) == .granted(Access.Grant(until: nil, source: .product(Shop.owl)))
        )
        let flagged = try story.flagging(Shop.owl, isSet: true, at: "2026-01-02")
        #expect(
            flagged.replay().access(to: "owl", at: now)
                == .granted(Access.Grant(until: nil, source: .product(Shop.owl))))
    }

    @Test("A set flag counts, regardless of clears before or after it on any device")
    func flags() throws {
        let set = try Story(replica: 1).flagging(Shop.owl, isSet: true, at: "2026-01-02")
        let cleared = try Story(replica: 2).flagging(Shop.owl, isSet: false, at: "2026-01-01")
            .flagging(Shop.owl, isSet: false, at: "2026-01-03")
        #expect(try Self.isOwned(set, at: "2026-01-01"))
        #expect(try !Self.isOwned(cleared, at: "2026-02-01"))
        #expect(try Self.isOwned(set.synced(with: cleared), at: "2026-02-01"))
        #expect(try Self.isOwned(cleared.synced(with: set), at: "2026-02-01"))
        #expect(cleared.synced(with: set).replay().facts.flags[FlagMarks.Reference(Shop.owl)]?.cleared != nil)
    }

    @Test("A refund revokes the purchase, not a flag")
    func refundAndFlag() throws {
        let story = try Story().buying(Shop.owl, at: "2026-01-01", transaction: "A").refunding("A", at: "2026-01-02")
            .flagging(Shop.owl, isSet: true, at: "2026-01-01")
        #expect(try Self.isOwned(story, at: "2026-02-01"))
    }
}
