import Entitlements
import Testing

@Suite("Purchases of time are appended to each other, whichever device made them")
struct StackingTests {
    @Test("Two devices, each offline, each buy 3 months: both have 6 after syncing; the latest expiry alone gives 3")
    func twoDevicesOffline() throws {
        let phone = try Story(replica: 1).buying(Shop.threeMonths, at: "2026-01-01", transaction: "phone")
        let tablet = try Story(replica: 2).buying(Shop.threeMonths, at: "2026-01-01", transaction: "tablet")
        for device in [phone.synced(with: tablet), tablet.synced(with: phone)] {
            #expect(device.replay().chains() == [days("2026-01-01", "2026-07-01")])
            #expect(device.replay(expiry: LatestExpiryWins()).chains() == [days("2026-01-01", "2026-04-01")])
        }
    }

    @Test("On one device latestExpiryWins gives both purchases, because the second knew the end of the first")
    func latestExpiryOnOneDevice() throws {
        let story = try Story().buying(Shop.threeMonths, at: "2026-01-01", transaction: "A")
            .buying(Shop.threeMonths, at: "2026-02-01", transaction: "B")
        #expect(story.replay(expiry: LatestExpiryWins()).chains() == [days("2026-01-01", "2026-07-01")])
        #expect(story.replay().chains() == [days("2026-01-01", "2026-07-01")])
    }

    @Test("latestExpiryWins appends purchases without recordings to all earlier ones")
    func latestExpiryWithoutRecordings() throws {
        let story = try Story().buying(Shop.threeMonths, at: "2026-01-01", transaction: "A")
            .buying(Shop.threeMonths, at: "2026-01-02", transaction: "B")
        let purchases = story.ledger.records.filter { if case .purchase = Fact($0) { true } else { false } }
        let replay = Replay(
            Facts(account: Ledger(purchases)),
            catalog: try Shop.catalog(rules: ConflictRules(expiry: LatestExpiryWins())))
        #expect(replay.chains() == [days("2026-01-01", "2026-07-01")])
    }

    @Test("latestExpiryWins uses the recording of a purchase that gives the latest end")
    func latestOfSeveralRecordings() throws {
        let phone = try Story(replica: 1).buying(Shop.oneMonth, at: "2026-01-01", transaction: "A")
            .buying(Shop.threeMonths, at: "2026-01-10", transaction: "B")
        let tablet = try Story(replica: 2).buying(Shop.threeMonths, at: "2026-01-10", transaction: "B")
        #expect(tablet.replay(expiry: LatestExpiryWins()).chains() == [days("2026-01-10", "2026-04-10")])
        let both = tablet.synced(with: phone).replay(expiry: LatestExpiryWins())
        #expect(both.chains() == [days("2026-01-01", "2026-05-01")])
    }

    @Test("A renewal on one device, then a purchase on another before any restore: no time is lost, in either order")
    func renewalAndPurchase() throws {
        let first = try Story(replica: 1).buying(Shop.threeMonths, at: "2026-01-01", transaction: "A")
        let renewed = try first.buying(Shop.threeMonths, at: "2026-03-15", transaction: "B")
        let other = try Story(replica: 2).buying(Shop.oneMonth, at: "2026-03-20", transaction: "C")
        for device in [renewed.synced(with: other), other.synced(with: renewed)] {
            #expect(device.replay().chains() == [days("2026-01-01", "2026-08-01")])
        }
    }

    @Test("A lapse leaves a gap: the next purchase starts at its own date")
    func lapse() throws {
        let replay = try Story().buying(Shop.oneMonth, at: "2026-01-01", transaction: "A")
            .buying(Shop.oneMonth, at: "2026-03-10", transaction: "B").replay()
        #expect(replay.chains() == [days("2026-01-01", "2026-02-01"), days("2026-03-10", "2026-04-10")])
        #expect(try !replay.isActive(at: "2026-02-15"))
    }

    @Test("An early renewal is appended to the end, not to its date")
    func earlyRenewal() throws {
        let replay = try Story().buying(Shop.oneMonth, at: "2026-01-01T10:00:00Z", transaction: "A")
            .buying(Shop.oneMonth, at: "2026-01-20", transaction: "B").replay()
        #expect(replay.chains() == ["2026-01-01T10:00:00.000Z – 2026-03-01T10:00:00.000Z"])
    }

    @Test("A renewal at the very end leaves no gap, one millisecond later leaves one")
    func renewalAtTheEnd() throws {
        let story = try Story().buying(Shop.oneMonth, at: "2026-01-01", transaction: "A")
        #expect(
            try story.buying(Shop.oneMonth, at: "2026-02-01", transaction: "B").replay().chains()
                == [days("2026-01-01", "2026-03-01")])
        #expect(
            try story.buying(Shop.oneMonth, at: "2026-02-01T00:00:00.001Z", transaction: "B").replay().chains().count
                == 2)
    }

    @Test("Quantity 3 of one month is three months at once, and the bonus is added once")
    func quantityAndBonus() throws {
        let catalog = try Shop.catalog(bonus: CalendarDuration(days: 1))
        let replay = try Story(catalog).buying(Shop.oneMonth, at: "2026-01-31", quantity: 3, transaction: "A").replay()
        // 31 January + P3M is 1 May, since April has 30 days; and a day.
        #expect(replay.chains() == [days("2026-01-31", "2026-05-02")])
    }

    @Test("Each purchase has its own bonus")
    func bonuses() throws {
        let catalog = try Shop.catalog(bonus: CalendarDuration(days: 1))
        let replay = try Story(catalog).buying(Shop.oneMonth, at: "2026-01-01", transaction: "A")
            .buying(Shop.oneMonth, at: "2026-01-02", transaction: "B").replay()
        #expect(replay.chains() == [days("2026-01-01", "2026-03-03")])
    }

    @Test("Terms as sold, including the bonus, survive a change of the catalogue")
    func termsAsSold() throws {
        let story = try Story(Shop.catalog(bonus: CalendarDuration(days: 1)))
            .buying(Shop.threeMonths, at: "2026-01-01", transaction: "A")
        let later = try Catalog(products: [
            Product(
                id: Shop.threeMonths, kind: .nonRenewing(group: "other", duration: CalendarDuration(months: 1)))
        ])
        let replay = story.replay(later)
        #expect(replay.chains(of: Shop.random) == [days("2026-01-01", "2026-04-02")])
        #expect(replay.chains(of: "other") == [])
    }

    @Test("Equal dates are ordered by transaction, so that all devices show the same periods")
    func equalDates() throws {
        let story = try Story().buying(Shop.oneMonth, at: "2026-01-31", transaction: "B")
            .buying(Shop.threeMonths, at: "2026-01-31", transaction: "A")
        let periods = try #require(story.replay().timelines[Shop.random]).periods
        #expect(periods.map(\.transaction?.id) == ["A", "B"])
        #expect(periods.map { "\($0.end)" } == ["2026-05-01T00:00:00.000Z", "2026-06-01T00:00:00.000Z"])
    }

    @Test("Time ends with the year 9999, and later purchases give none")
    func saturation() throws {
        let replay = try Story().buying(Shop.threeMonths, at: "2026-01-01", quantity: 10_000, transaction: "A")
            .buying(Shop.threeMonths, at: "2026-01-02", quantity: 10_000, transaction: "B")
            .buying(Shop.threeMonths, at: "9999-12-31", quantity: 10_000, transaction: "C")
            .buying(Shop.threeMonths, at: "9999-12-31T23:59:59.999Z", transaction: "D").replay()
        let timeline = try #require(replay.timelines[Shop.random])
        #expect(
            timeline.contributions.map { "\($0.end)" }.filter { $0 != "\(Timestamp.latest)" }
                == ["4526-01-01T00:00:00.000Z", "7026-01-01T00:00:00.000Z"])
        #expect(timeline.contributions.count == 4)
        #expect(timeline.periods.count == 3)
    }

    @Test("A group whose purchases were sold as two kinds has the periods of both")
    func mixedKinds() throws {
        let week = Terms(
            kind: .autoRenewable(
                group: Shop.random, level: 1, duration: CalendarDuration(days: 7), introductory: nil))
        let replay = try Story().buying(Shop.oneMonth, at: "2026-01-01", transaction: "A")
            .buying("week", at: "2026-01-29", transaction: "B", terms: week).replay()
        // The auto-renewable purchase is not appended: it overlaps.
        #expect(replay.chains() == [days("2026-01-01", "2026-02-05")])
    }
}
