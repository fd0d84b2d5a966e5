import Entitlements
import Testing

@Suite("Active means inside a period, and at least one day remains until the last millisecond")
struct ActivityTests {
    let start: Timestamp
    let end: Timestamp
    let replay: Replay

    init() throws {
        start = try Timestamp("2026-01-01T09:30:00Z")
        end = try Timestamp("2026-04-01T09:30:00Z")
        replay = try Story().buying(Shop.threeMonths, at: "2026-01-01T09:30:00Z", transaction: "B").replay()
    }

    @Test("A period is active from its first to its last millisecond, but not at its end")
    func bounds() throws {
        let timeline = try #require(replay.timelines[Shop.random])
        #expect(!timeline.isActive(at: start.moved(-1)))
        #expect(timeline.isActive(at: start))
        #expect(timeline.isActive(at: end.moved(-1)))
        #expect(!timeline.isActive(at: end))
    }

    @Test(
        "Days remaining are rounded up: 1 on the whole last day, 0 only at the end",
        arguments: [
            (0, 0), (-1, 1), (-86_400_000, 1), (-86_400_001, 2), (-2 * 86_400_000, 2), (-90 * 86_400_000, 90),
            (1, 0), (86_400_000, 0),
        ] as [(Int64, Int)])
    func daysRemaining(millisecondsAfterTheEnd: Int64, days: Int) throws {
        let subscription = replay.snapshot(at: end.moved(millisecondsAfterTheEnd))[group: Shop.random]
        #expect(subscription?.daysRemaining == days)
        #expect(subscription?.isActive == (days > 0))
        #expect(subscription?.expires == end)
    }

    @Test("The whole range of time counts in days without overflow")
    func daysOfTheWholeRange() {
        #expect(Timestamp.earliest.daysRemaining(until: .latest) == 3_652_059)
    }

    @Test("A purchase dated next year grants no access today")
    func futurePurchase() throws {
        let replay = try Story().buying(Shop.threeMonths, at: "2027-01-01", transaction: "A").replay()
        let snapshot = replay.snapshot(at: try Timestamp("2026-06-01"))
        let subscription = try #require(snapshot[group: Shop.random])
        #expect(!subscription.isActive)
        #expect(subscription.expires == nil)
        #expect(subscription.daysRemaining == 0)
        #expect(subscription.periods.count == 1)
        #expect(snapshot[access: Shop.randomOwls] == .denied(.notPurchased))
    }

    @Test("Between an ended and a future period, the ended one's end is shown")
    func betweenPeriods() throws {
        let replay = try Story().buying(Shop.threeMonths, at: "2026-01-01", transaction: "B").buying(
            Shop.threeMonths, at: "2027-01-01", transaction: "A"
        )
        .replay()
        let subscription = replay.snapshot(at: try Timestamp("2026-06-01"))[group: Shop.random]
        #expect(subscription?.isActive == false)
        #expect(subscription?.expires == (try Timestamp("2026-04-01")))
    }

    @Test("A group without purchases has no end and no periods")
    func emptyGroup() throws {
        let subscription = try Story().replay().snapshot(at: start)[group: Shop.random]
        #expect(subscription?.expires == nil)
        #expect(subscription?.periods == [])
        #expect(subscription?.isActive == false)
    }
}
