import EntitlementsTestSupport
import Testing

@testable import Entitlements

/// A monthly film subscription with two levels and a free first week.
enum Cinema {
    static let films: GroupID = "films"
    static let basic: ProductID = "basic"
    static let premium: ProductID = "premium"
    static let family: ProductID = "family"

    static func catalog() throws -> Catalog {
        let month = CalendarDuration(months: 1)
        let week = IntroductoryOffer(mode: .free, duration: CalendarDuration(days: 7))
        return try Catalog(
            products: [
                Product(
                    id: basic,
                    kind: .autoRenewable(group: films, level: 2, duration: month, introductory: week)),
                Product(
                    id: premium, kind: .autoRenewable(group: films, level: 1, duration: month, introductory: nil)),
                Product(id: family, kind: .autoRenewable(group: films, level: 1, duration: month, introductory: nil)),
            ], entitlements: [Entitlement(id: "cinema", grantedBy: [.group(films)])])
    }
}

@Suite("The facts of an auto-renewable subscription give one timeline in any order")
struct RenewalLifeTests {
    /// Facts up to `date` of a trial, two renewals, an upgrade, a failed payment with grace and retries, recovery, a
    /// pending and an effective downgrade, a refund and its reversal, and a cancellation.
    private static func life(until date: String = "2027-01-01") throws -> Story {
        let chapters: [(String, (Story) throws -> Story)] = [
            ("2026-01-01", { try $0.film(Cinema.basic, "T1", at: "2026-01-01", expires: "2026-01-08", isTrial: true) }),
            ("2026-01-08", { try $0.film(Cinema.basic, "T2", at: "2026-01-08", expires: "2026-02-08") }),
            ("2026-02-08", { try $0.film(Cinema.basic, "T3", at: "2026-02-08", expires: "2026-03-08") }),
            ("2026-02-20", { try $0.film(Cinema.premium, "T4", at: "2026-02-20", expires: "2026-03-20") }),
            (
                "2026-03-20",
                {
                    try $0.stating(
                        renewalOf: "T1", at: "2026-03-20", graceEnd: "2026-04-05", isInBillingRetry: true)
                }
            ),
            (
                "2026-04-05",
                {
                    try $0.stating(
                        renewalOf: "T1", at: "2026-04-05", graceEnd: "2026-04-05", isInBillingRetry: true)
                }
            ),
            ("2026-04-12", { try $0.film(Cinema.premium, "T5", at: "2026-04-12", expires: "2026-05-12") }),
            (
                "2026-05-01",
                {
                    try $0.stating(
                        renewalOf: "T1", at: "2026-05-01", graceEnd: "2026-04-05", pending: Cinema.basic)
                }
            ),
            ("2026-05-12", { try $0.film(Cinema.basic, "T6", at: "2026-05-12", expires: "2026-06-12") }),
            ("2026-06-12", { try $0.film(Cinema.basic, "T7", at: "2026-06-12", expires: "2026-07-12") }),
            ("2026-06-20", { try $0.refunding(.store("T7"), at: "2026-06-20", signedAt: "2026-06-20") }),
            ("2026-06-25", { try $0.reinstating(.store("T7"), at: "2026-06-25", signedAt: "2026-06-25") }),
            ("2026-07-01", { try $0.stating(renewalOf: "T1", at: "2026-07-01", willRenew: false) }),
        ]
        return try chapters.filter { $0.0 <= date }.reduce(try Story(Cinema.catalog())) { try $1.1($0) }
    }

    private static func films(_ replay: Replay, at date: String) throws -> Snapshot.Subscription {
        try #require(try replay.snapshot(at: Timestamp(date))[group: Cinema.films])
    }

    @Test("Periods and levels follow the store's dates")
    func periods() throws {
        let timeline = try #require(try Self.life().replay().timelines[Cinema.films])
        let told = timeline.periods.map { period in
            "\(period.transaction?.id ?? "") \(period.level ?? 0) "
                + "\(period.start)".prefix(10) + " \(period.end)".prefix(11)
        }
        #expect(
            told == [
                "T1 2 2026-01-01 2026-01-08", "T2 2 2026-01-08 2026-02-08", "T3 2 2026-02-08 2026-02-20",
                "T4 1 2026-02-20 2026-03-20", "T5 1 2026-04-12 2026-05-12", "T6 2 2026-05-12 2026-06-12",
                "T7 2 2026-06-12 2026-07-12",
            ])
        #expect(
            try Self.life().replay().chains(of: Cinema.films) == [
                days("2026-01-01", "2026-03-20"), days("2026-04-12", "2026-07-12"),
            ])
    }

    @Test(
        "Level, product and end at each date reflect the facts known by then",
        arguments: [
            ("2026-01-03", 2, "basic", "2026-01-08"), ("2026-01-20", 2, "basic", "2026-02-08"),
            ("2026-02-19", 2, "basic", "2026-03-08"), ("2026-02-20", 1, "premium", "2026-03-20"),
            ("2026-03-21", 1, "premium", "2026-04-05"), ("2026-04-12", 1, "premium", "2026-05-12"),
            ("2026-05-11", 1, "premium", "2026-05-12"), ("2026-05-12", 2, "basic", "2026-06-12"),
            ("2026-06-19", 2, "basic", "2026-07-12"), ("2026-06-25", 2, "basic", "2026-07-12"),
            ("2026-07-11", 2, "basic", "2026-07-12"),
        ])
    func active(date: String, level: Int64, product: ProductID, end: String) throws {
        let replay = try Self.life(until: date).replay()
        let now = try Timestamp(date)
        let end = try Timestamp(end)
        let subscription = try Self.films(replay, at: date)
        #expect(subscription.isActive)
        #expect(subscription.level == level)
        #expect(subscription.product == product)
        #expect(subscription.expires == end)
        #expect(
            replay.access(to: "cinema", at: now) == .granted(Access.Grant(until: end, source: .group(Cinema.films))))
    }

    @Test("After a lapse, refund or end there is no level, and the denial gives the reason and date")
    func inactive() throws {
        let stages: [(date: String, denial: Access.Denial)] = [
            ("2025-12-31", .notPurchased), ("2026-04-05", .expired(try Timestamp("2026-04-05"))),
            ("2026-04-11", .expired(try Timestamp("2026-04-05"))),
            ("2026-06-20", .revoked(try Timestamp("2026-06-20"))),
            ("2026-07-12", .expired(try Timestamp("2026-07-12"))),
        ]
        for stage in stages {
            let replay = try Self.life(until: stage.date).replay()
            let films = try Self.films(replay, at: stage.date)
            #expect(!films.isActive && films.level == nil && films.daysRemaining == 0, "\(stage.date)")
            #expect(replay.access(to: "cinema", at: try Timestamp(stage.date)) == .denied(stage.denial))
        }
    }

    @Test("The renewal state is the store's latest statement")
    func renewal() throws {
        func word(_ date: String) throws -> Snapshot.Renewal? {
            try Self.films(Self.life(until: date).replay(), at: date).renewal
        }
        let grace = try Timestamp("2026-04-05")
        #expect(try word("2026-02-20") == nil)
        #expect(
            try word("2026-03-21")
                == Snapshot.Renewal(willRenew: true, graceEnd: grace, isInBillingRetry: true, pendingProduct: nil))
        #expect(try word("2026-04-06")?.isInBillingRetry == true)
        #expect(
            try word("2026-05-02")
                == Snapshot.Renewal(
                    willRenew: true, graceEnd: grace, isInBillingRetry: false, pendingProduct: Cinema.basic))
        #expect(
            try word("2026-07-01")
                == Snapshot.Renewal(willRenew: false, graceEnd: nil, isInBillingRetry: false, pendingProduct: nil))
        #expect(try word("2026-08-01")?.willRenew == false)
    }

    @Test("Random orders of joining, and every swap of two facts, give the same ledger and timeline")
    func everyOrder() throws {
        let story = try Self.life()
        let expected = story.replay()
        let records = story.ledger.records
        #expect(records.count == 9)
        let told = try Self.tellings()
        func check(_ order: [Record], _ place: String) throws {
            let ledger = order.reduce(Ledger()) { $0.joined(with: Ledger([$1])) }
            try #require(ledger == story.ledger, "\(place)")
            let replay = Replay(Facts(account: ledger), catalog: story.catalog)
            try #require(replay.timelines == expected.timelines, "\(place)")
            // Replay does not depend on the order of its input either.
            let facts = order.reversed().filter { record in records.contains(record) }.map { Fact($0) }
            let given = Replay(Facts(facts), catalog: story.catalog)
            try #require(given.timelines == expected.timelines, "\(place)")
        }
        for first in told.indices {
            for second in told.indices where second > first {
                var order = told
                order.swapAt(first, second)
                try check(order, "swapped \(first) and \(second)")
            }
        }
        try forAll("orders of a renewing life", cases: 2_000) { random, place in
            try check(told.shuffled(using: &random), place)
        }
    }

    /// Every statement, including replaced ones, as one record per step.
    private static func tellings() throws -> [Record] {
        let dates = [
            "2026-01-01", "2026-01-08", "2026-02-08", "2026-02-20", "2026-03-20", "2026-04-05", "2026-04-12",
            "2026-05-01", "2026-05-12", "2026-06-12", "2026-06-20", "2026-06-25", "2026-07-01",
        ]
        var told: [Record] = []
        for date in dates { told += try life(until: date).ledger.records.filter { !told.contains($0) } }
        #expect(told.count == 13)
        return told
    }
}

extension Story {
    fileprivate func film(
        _ product: ProductID, _ id: TransactionID, at date: String, expires: String, isTrial: Bool = false
    ) throws -> Story {
        try buyingFromStore(
            product, at: date, transaction: id, original: id == "T1" ? nil : "T1", expires: expires,
            isIntroductory: isTrial)
    }
}
