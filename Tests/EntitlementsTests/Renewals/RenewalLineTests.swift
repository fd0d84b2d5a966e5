import EntitlementsTestSupport
import Testing

@testable import Entitlements

@Suite("Grace, upgrades and unsigned renewal states in a line of renewals")
struct RenewalLineTests {
    private static func subscribed() throws -> Story {
        try Story(Cinema.catalog())
            .buyingFromStore(Cinema.basic, at: "2026-01-01", transaction: "T1", expires: "2026-02-01")
    }

    private static func chains(_ story: Story) -> [String] { story.replay().chains(of: Cinema.films) }

    @Test("Without an expiry from the store, a period lasts as long as the introductory offer or the product says")
    func endsByTerms() throws {
        let trial = try Story(Cinema.catalog())
            .buyingFromStore(Cinema.basic, at: "2026-01-31", transaction: "T1", isIntroductory: true)
        #expect(Self.chains(trial) == [days("2026-01-31", "2026-02-07")])
        let paid = try Story(Cinema.catalog()).buyingFromStore(Cinema.basic, at: "2026-01-31", transaction: "T1")
        #expect(Self.chains(paid) == [days("2026-01-31", "2026-03-01")])
    }

    @Test("Grace extends the purchase that was current when the store reported it, not a later renewal")
    func graceBeforeRenewal() throws {
        let failed = try Self.subscribed()
            .stating(renewalOf: "T1", at: "2026-02-01", graceEnd: "2026-02-17", isInBillingRetry: true)
        #expect(Self.chains(failed) == [days("2026-01-01", "2026-02-17")])
        // The payment succeeds and buys one week. The store's next renewal state has not arrived yet.
        let recovered = try failed.buyingFromStore(
            Cinema.basic, at: "2026-02-05", transaction: "T2", original: "T1", expires: "2026-02-12")
        #expect(Self.chains(recovered) == [days("2026-01-01", "2026-02-17")])
        let later = try failed.buyingFromStore(
            Cinema.basic, at: "2026-02-10", transaction: "T2", original: "T1", expires: "2026-02-28")
        #expect(Self.chains(later) == [days("2026-01-01", "2026-02-28")])
        let gracePeriods = later.replay().timelines[Cinema.films]?.periods.filter { period in
            if case .grace(.store("T1"), Cinema.basic) = period.origin { true } else { false }
        }
        #expect(gracePeriods?.map { "\($0.start) – \($0.end)" } == [days("2026-02-01", "2026-02-17")])
    }

    @Test("Grace ends when another product follows or the extended purchase is refunded")
    func endOfGrace() throws {
        let failed = try Self.subscribed()
            .stating(renewalOf: "T1", at: "2026-02-01", graceEnd: "2026-02-17", isInBillingRetry: true)
        let upgraded = try failed.buyingFromStore(
            Cinema.premium, at: "2026-02-10", transaction: "T2", original: "T1", expires: "2026-02-12")
        #expect(Self.chains(upgraded) == [days("2026-01-01", "2026-02-12")])
        let refunded = try failed.refunding(.store("T1"), at: "2026-01-20", signedAt: "2026-02-03")
        #expect(Self.chains(refunded) == [days("2026-01-01", "2026-01-20")])
    }

    @Test("Products that begin at the same time do not end each other, and a later third product ends both")
    func together() throws {
        let both = try Self.subscribed()
            .buyingFromStore(Cinema.premium, at: "2026-01-01", transaction: "T2", original: "T1", expires: "2026-01-15")
        let ends = both.replay().timelines[Cinema.films]?.periods.map { "\($0.start) – \($0.end)" }
        #expect(ends?.sorted() == [days("2026-01-01", "2026-01-15"), days("2026-01-01", "2026-02-01")])
        let later = try both.buyingFromStore(
            Cinema.family, at: "2026-01-20", transaction: "T3", original: "T1", expires: "2026-01-25")
        #expect(Self.chains(later) == [days("2026-01-01", "2026-01-25")])
    }

    @Test("A renewal of one of the products that a subscription sells together does not end the other")
    func togetherRenewed() throws {
        let both = try Self.subscribed()
            .buyingFromStore(Cinema.premium, at: "2026-01-01", transaction: "T2", original: "T1", expires: "2027-01-01")
        let renewed = try both.buyingFromStore(
            Cinema.basic, at: "2026-02-01", transaction: "T3", original: "T1", expires: "2026-03-01")
        #expect(Self.chains(renewed) == [days("2026-01-01", "2027-01-01")])
        let again = try renewed.buyingFromStore(
            Cinema.basic, at: "2026-03-01", transaction: "T4", original: "T1", expires: "2026-04-01")
        #expect(Self.chains(again) == [days("2026-01-01", "2027-01-01")])
        let changed = try again.buyingFromStore(
            Cinema.family, at: "2026-03-15", transaction: "T5", original: "T1", expires: "2026-04-15")
        let ends = changed.replay().timelines[Cinema.films]?.periods.map { "\($0.start) – \($0.end)" }
        #expect(
            ends?.sorted() == [
                days("2026-01-01", "2026-02-01"), days("2026-01-01", "2026-03-15"), days("2026-02-01", "2026-03-01"),
                days("2026-03-01", "2026-03-15"), days("2026-03-15", "2026-04-15"),
            ])
    }

    @Test("Unsigned grace extends an unsigned purchase; on a signed one it is set aside and explained")
    func unsignedGrace() throws {
        let story = try Self.subscribed()
            .stating(renewalOf: "T1", at: "2026-02-01", graceEnd: "2026-02-17", isSigned: false)
        #expect(Self.chains(story) == [days("2026-01-01", "2026-02-01")])
        let now = try Timestamp("2026-01-15")
        #expect(story.replay().snapshot(at: now)[group: Cinema.films]?.renewal == nil)
        let lines = try #require(story.replay().explanation(of: "cinema", at: now)).sections[0].lines
        #expect(lines.map(\.effect).last == .setAside(.unsigned))

        let reported = try Story(Cinema.catalog()).buying(Cinema.basic, at: "2026-01-01", transaction: "T1")
        let extended = try reported.stating(at: "2026-02-01") { date, time in
            .renewalState(
                RenewalState(
                    line: TransactionReference(id: "T1"), willRenew: true,
                    graceEnd: date.adding(CalendarDuration(days: 16)), stamp: Stamp(logicalTime: time)))
        }
        #expect(Self.chains(extended) == [days("2026-01-01", "2026-02-17")])
    }

    @Test("Two subscriptions in one group both grant time, and the highest active level counts")
    func twoLines() throws {
        let story = try Self.subscribed()
            .buyingFromStore(Cinema.premium, at: "2026-01-10", transaction: "U1", expires: "2026-01-20")
        #expect(Self.chains(story) == [days("2026-01-01", "2026-02-01")])
        // Level 1 is the highest.
        let levels = try ["2026-01-09", "2026-01-10", "2026-01-19", "2026-01-20"].map { date in
            try story.replay().snapshot(at: Timestamp(date))[group: Cinema.films]?.level
        }
        #expect(levels == [2, 1, 1, 2])
        // A change of level is a boundary.
        #expect(
            try story.replay().nextBoundary(after: Timestamp("2026-01-05")) == Timestamp("2026-01-10"))
        #expect(
            try story.replay().nextBoundary(after: Timestamp("2026-01-10")) == Timestamp("2026-01-20"))
    }

    @Test("Non-renewing purchases are appended to each other, not to a subscription in their group, and both count")
    func mixedGroup() throws {
        let month = CalendarDuration(months: 1)
        let story = try Self.subscribed()
            .buying(
                "pass", at: "2026-01-15", transaction: "P1",
                terms: Terms(kind: .nonRenewing(group: Cinema.films, duration: month))
            )
            .buying(
                "pass", at: "2026-01-20", transaction: "P2",
                terms: Terms(kind: .nonRenewing(group: Cinema.films, duration: month))
            )
            .buyingFromStore(
                Cinema.basic, at: "2026-04-01", transaction: "T2", original: "T1", expires: "2026-05-01")
        #expect(Self.chains(story) == [days("2026-01-01", "2026-03-15"), days("2026-04-01", "2026-05-01")])
    }

    @Test("Purchases that name each other or themselves as the original transaction form ordinary lines")
    func cycles() throws {
        let story = try Story(Cinema.catalog())
            .buyingFromStore(
                Cinema.basic, at: "2026-01-01", transaction: "A", original: "B", expires: "2026-02-01"
            )
            .buyingFromStore(
                Cinema.premium, at: "2026-01-10", transaction: "B", original: "A", expires: "2026-02-10"
            )
            .buyingFromStore(
                Cinema.basic, at: "2026-03-01", transaction: "C", original: "C", expires: "2026-04-01")
        #expect(Self.chains(story) == [days("2026-01-01", "2026-02-10"), days("2026-03-01", "2026-04-01")])
    }

    @Test("Out-of-range grace is ignored, and a purchase with an out-of-range level or offer is set aside")
    func outOfRange() throws {
        let endless = try Self.subscribed()
            .stating(renewalOf: "T1", at: "2026-01-15", graceEnd: "9999-12-31")
        #expect(Self.chains(endless) == [days("2026-01-01", "2026-02-01")])
        for (level, offer) in [(0, 7), (1, 40_000)] as [(Int64, Int64)] {
            let terms = Terms(
                kind: .autoRenewable(
                    group: Cinema.films, level: level, duration: CalendarDuration(months: 1),
                    introductory: IntroductoryOffer(mode: .free, duration: CalendarDuration(days: offer))))
            let story = try Story(Cinema.catalog()).stating(at: "2026-01-01") { date, time in
                .purchase(
                    Purchase(
                        transaction: .store("T1"), product: "forged", terms: terms, date: date, isIntroductory: true,
                        stamp: Stamp(logicalTime: time)))
            }
            #expect(story.replay().verdict(on: .store("T1")) == .setAside(.outOfBounds))
        }
    }
}
