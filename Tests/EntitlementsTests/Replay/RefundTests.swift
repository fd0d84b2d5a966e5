import Entitlements
import Testing

@Suite("A refund ends its purchase at its date, and later purchases move up")
struct RefundTests {
    private static func overlapping() throws -> Story {
        try Story().buying(Shop.threeMonths, at: "2026-01-01", transaction: "A")
            .buying(Shop.threeMonths, at: "2026-02-01", transaction: "B")
    }

    @Test("In the middle of a stack: A on 1 January and B on 1 February, A refunded on 1 March, ends on 1 June")
    func middleOfAStack() throws {
        let replay = try Self.overlapping().refunding("A", at: "2026-03-01").replay()
        let periods = try #require(replay.timelines[Shop.random]).periods
        #expect(
            periods.map { "\($0.transaction?.id ?? "") \($0.end)" }
                == ["A 2026-03-01T00:00:00.000Z", "B 2026-06-01T00:00:00.000Z"])
        #expect(replay.chains() == [days("2026-01-01", "2026-06-01")])
    }

    @Test("Refunded before it began: the later purchase keeps its place, the earlier is whole")
    func laterPurchase() throws {
        let replay = try Self.overlapping().refunding("B", at: "2026-02-15").replay()
        #expect(replay.chains() == [days("2026-01-01", "2026-04-01")])
        #expect(replay.timelines[Shop.random]?.contributions.map(\.isEmpty) == [false, true])
    }

    @Test("Refunded on the day of purchase: its period is empty, and the next one starts at its own date")
    func atOnce() throws {
        let replay = try Self.overlapping().refunding("A", at: "2026-01-01").replay()
        #expect(replay.chains() == [days("2026-02-01", "2026-05-01")])
    }

    @Test("Revoked before its start: its period is empty, never negative")
    func beforeItsStart() throws {
        let story = try Story().buying(Shop.threeMonths, at: "2026-01-01", transaction: "A")
            .refunding("A", at: "2025-06-01")
        #expect(story.replay().chains() == [])
        #expect(story.replay(expiry: LatestExpiryWins()).chains() == [])
        #expect(
            story.replay().access(to: Shop.randomOwls, at: try Timestamp("2026-02-01"))
                == .denied(.revoked(try Timestamp("2025-06-01"))))
    }

    @Test("Revoked in the future: active until then")
    func inTheFuture() throws {
        let replay = try Story().buying(Shop.threeMonths, at: "2026-01-01", transaction: "A")
            .refunding("A", at: "2026-03-01").replay()
        let end = try Timestamp("2026-03-01")
        #expect(
            replay.access(to: Shop.randomOwls, at: try Timestamp("2026-02-01"))
                == .granted(Access.Grant(until: end, source: .group(Shop.random))))
        #expect(replay.access(to: Shop.randomOwls, at: end) == .denied(.revoked(end)))
    }

    @Test("Revoked after its end: its period is unchanged")
    func afterItsEnd() throws {
        let replay = try Self.overlapping().refunding("A", at: "2026-05-01").replay()
        #expect(replay.chains() == [days("2026-01-01", "2026-07-01")])
    }

    @Test("A refund that arrives before its purchase waits for it")
    func beforeThePurchaseArrives() throws {
        let refunded = try Story(replica: 2).refunding("A", at: "2026-02-01")
        #expect(refunded.replay().chains() == [])
        let buyer = try Story(replica: 1).buying(Shop.threeMonths, at: "2026-01-01", transaction: "A")
        #expect(refunded.synced(with: buyer).replay().chains() == [days("2026-01-01", "2026-02-01")])
        #expect(buyer.synced(with: refunded).replay().chains() == [days("2026-01-01", "2026-02-01")])
    }

    @Test("A refund with an equal id in another store or environment concerns another purchase")
    func otherStores() throws {
        let story = try Story().buying(Shop.threeMonths, at: "2026-01-01", transaction: "A")
        for reference in [
            TransactionReference(store: .appStore, id: "A"), TransactionReference(environment: .sandbox, id: "A"),
        ] {
            let refunded = try story.stating(at: "2026-02-01") { date, time in
                .revocation(Revocation(transaction: reference, revokedAt: date, stamp: Stamp(logicalTime: time)))
            }
            #expect(refunded.replay().chains() == [days("2026-01-01", "2026-04-01")])
        }
    }

    @Test("latestExpiryWins shortens the refunded purchase and keeps ends that were computed from it")
    func latestExpiryWins() throws {
        let replay = try Self.overlapping().refunding("A", at: "2026-01-15").replay(expiry: LatestExpiryWins())
        #expect(replay.chains() == [days("2026-01-01", "2026-01-15"), days("2026-02-01", "2026-07-01")])
    }
}
