import EntitlementsTestSupport
import Testing

@testable import Entitlements

@Suite("Accelerated time in test environments")
struct AcceleratedTimeTests {
    private static let policy = Policy(sandboxTime: .accelerated)

    private static func seconds(_ duration: String, in environment: EnvironmentID = .sandbox) throws -> Int64 {
        let counted = policy.counted(try CalendarDuration(duration), in: environment)
        #expect(counted.months == 0 && counted.days == 0, "\(duration)")
        return counted.seconds
    }

    /// The tutorials' app with accelerated time: weeks, trials, months, and content by period.
    private static func catalog(bonus: String = "P0D", rule: String = "stackPurchases") throws -> Catalog {
        try Catalog(
            json: """
                {"products":[
                   {"id":"week","type":"nonRenewing","group":"selfies","duration":"P1W"},
                   {"id":"month","type":"nonRenewing","group":"selfies","duration":"P1M"},
                   {"id":"club","type":"autoRenewable","group":"club","duration":"P1M",
                    "introductory":{"mode":"free","duration":"P1W"}}],
                 "entitlements":[{"id":"selfies","grantedBy":["group:selfies"]}],
                 "policy":{"sandboxTime":"accelerated","bonus":"\(bonus)","expiry":"\(rule)"},
                 "content":[{"path":"/selfies/{set}/","group":"selfies","by":"period"},
                            {"path":"/news/{date}/","group":"selfies","by":"date"}]}
                """.utf8)
    }

    @Test(
        "The durations of Apple's table last as long as there",
        arguments: [("P1W", 3), ("P1M", 5), ("P2M", 10), ("P3M", 15), ("P6M", 30), ("P1Y", 60)])
    func table(duration: String, minutes: Int64) throws {
        #expect(try Self.seconds(duration) == minutes * 60)
        #expect(try Self.seconds(duration, in: .xcode) == minutes * 60)
        for environment in [EnvironmentID.production, .test, "Sandbox", "staging"] {
            let sold = try CalendarDuration(duration)
            #expect(Self.policy.counted(sold, in: environment) == sold, "\(environment)")
            #expect(Policy().counted(sold, in: .sandbox) == sold)
        }
    }

    @Test(
        "Other durations last as long as their neighbours in the table allow",
        arguments: [
            ("PT1S", 1), ("P1D", 26), ("P3D", 78), ("P4D", 103), ("P2W", 217), ("P30D", 300), ("P90D", 900),
            ("P1M15D", 450), ("P365D", 3_650), ("P2Y", 7_200), ("P100Y", 360_000), ("P0D", 0),
        ])
    func others(duration: String, seconds: Int64) throws {
        #expect(try Self.seconds(duration) == seconds)
    }

    @Test("A longer duration never ends earlier, and no duration gets longer")
    func monotonic() throws {
        try forAll("accelerated durations", cases: 20_000) { random, place in
            func duration() -> CalendarDuration {
                CalendarDuration(
                    months: random.pick([0, 0, random.int(0...1_190)]), days: random.pick([0, random.int(0...200)]),
                    seconds: random.pick([0, random.int(0...172_800)]))
            }
            let start = Timestamp(milliseconds: 0)
            // Months of 30 days, as the rule counts them.
            func length(_ duration: CalendarDuration) -> Int64 {
                (duration.months * 30 + duration.days) * 86_400 + duration.seconds
            }
            let (left, right) = (duration(), duration())
            let counted = [left, right].map { start.adding(Self.policy.counted($0, in: .sandbox)) }
            if length(left) <= length(right) { try #require(counted[0] <= counted[1], "\(left) \(right) \(place)") }
            try #require(counted[0] <= start.adding(left), "\(left) \(place)")
        }
    }

    @Test("Purchases, quantities and the bonus are accelerated in sandbox and xcode, and the terms stay as sold")
    func replay() throws {
        let catalog = try Self.catalog(bonus: "P1D")
        // 5 min + 26 s, then 2 × 3 min + 26 s; elsewhere a month and a day, then 14 days and a day.
        for (environment, end) in [
            (EnvironmentID.sandbox, "2026-01-01T00:11:52.000Z"), (.xcode, "2026-01-01T00:11:52.000Z"),
            (.production, "2026-02-17T00:00:00.000Z"), (.test, "2026-02-17T00:00:00.000Z"),
        ] {
            let story = try Story(catalog)
                .buying("month", at: "2026-01-01", transaction: "A", environment: environment)
                .buying("week", at: "2026-01-01T00:01:00Z", quantity: 2, transaction: "B", environment: environment)
            let replay = story.replay(environment: environment)
            #expect(replay.chains(of: "selfies") == ["2026-01-01T00:00:00.000Z – \(end)"], "\(environment)")
            let sold = Terms(
                kind: .nonRenewing(group: "selfies", duration: CalendarDuration(months: 1)),
                bonus: CalendarDuration(days: 1))
            #expect(replay.facts.purchases.first?.terms == sold)
        }
    }

    @Test("A trial and a period without an end of the store are accelerated, and the store's own ends count as stated")
    func renewals() throws {
        let story = try Story(Self.catalog())
            .buyingFromStore(
                "club", at: "2026-01-01", transaction: "1", isIntroductory: true, environment: .sandbox
            )
            .buyingFromStore(
                "club", at: "2026-01-01T00:03:00Z", transaction: "2", original: "1", environment: .sandbox
            )
            .buyingFromStore(
                "club", at: "2026-01-01T00:08:00Z", transaction: "3", original: "1",
                expires: "2026-01-01T00:20:00Z", environment: .sandbox)
        let replay = story.replay(environment: .sandbox)
        #expect(
            replay.timelines["club"]?.periods.map { "\($0.end)" } == [
                "2026-01-01T00:03:00.000Z", "2026-01-01T00:08:00.000Z", "2026-01-01T00:20:00.000Z",
            ])
    }

    @Test("Access expires and the next set of content opens within minutes")
    func content() throws {
        let story = try Story(Self.catalog())
            .buying("week", at: "2026-01-01T23:58:00Z", transaction: "A", environment: .sandbox)
            .buying("week", at: "2026-01-02T00:00:30Z", transaction: "B", environment: .sandbox)
        let replay = story.replay(environment: .sandbox)
        func open(_ date: String) throws -> [String] {
            let access = ContentAccess(replay, at: try Timestamp(date), isComplete: true)
            return try ["/selfies/1/", "/selfies/2/", "/news/2025-12-31/", "/news/2026-01-02/"].filter {
                ContentOpening.open(try #require(ContentPath(target: $0)), in: access.openings)
            }
        }
        #expect(try open("2026-01-01T23:59:00Z") == ["/selfies/1/"])
        #expect(try open("2026-01-02T00:00:30Z") == ["/selfies/1/", "/news/2026-01-02/"])
        #expect(try open("2026-01-02T00:01:00Z") == ["/selfies/1/", "/selfies/2/", "/news/2026-01-02/"])
        let access = try replay.access(to: "selfies", at: Timestamp("2026-01-02T00:04:00Z"))
        #expect(try access == .denied(.expired(Timestamp("2026-01-02T00:04:00Z"))))
    }

    @Test("Under `verified` the same time counts, and an assertion keeps its date")
    func verified() throws {
        let catalog = try Self.catalog()
        var server = ServerLedger()
        let date = try Timestamp("2026-01-01")
        _ = server.set(.verified, at: date)
        let purchase = Purchase(
            transaction: TransactionReference(store: .appStore, environment: .sandbox, id: "1"), product: "month",
            terms: nil, date: date, stamp: .signed(at: date))
        _ = server.add([.purchase(purchase)], catalog: catalog, at: date)
        let replay = Replay(
            Facts(account: Ledger(), server: server.ledger), catalog: catalog, environment: .sandbox)
        #expect(replay.chains(of: "selfies") == ["2026-01-01T00:00:00.000Z – 2026-01-01T00:05:00.000Z"])
        let asserted = try Story(catalog).asserting(
            until: Timestamp("2026-01-05"), group: "selfies", at: "2026-01-01", environment: .sandbox)
        #expect(asserted.replay(environment: .sandbox).chains(of: "selfies") == [days("2026-01-01", "2026-01-05")])
    }

    @Test("Every rule counts accelerated time, and of two purchases that are recorded at once the second knows it")
    func knownEnds() throws {
        let catalog = try Self.catalog(rule: "latestExpiryWins")
        let story = try Story(catalog).buying("month", at: "2026-01-01", transaction: "A", environment: .sandbox)
        for rule in ConflictRules.expiryRules {
            let replay = story.replay(environment: .sandbox, expiry: rule)
            #expect(replay.chains(of: "selfies") == ["2026-01-01T00:00:00.000Z – 2026-01-01T00:05:00.000Z"])
        }
        var plan = RecordingPlan(catalog: catalog, environment: .sandbox, randomID: { "" })
        for (id, second) in [("A", "00"), ("B", "01")] {
            let date = try Timestamp("2026-01-01T00:00:\(second)Z")
            try plan.add(.reported("month", transaction: TransactionID(id), date: date))
        }
        let replica = try #require(ReplicaID(bytes: [UInt8](repeating: 7, count: 16)))
        let empty = DeviceLedgers(
            account: Ledger(), device: Ledger(), server: Ledger(),
            replay: Replay(Facts(account: Ledger()), catalog: catalog, environment: .sandbox))
        let facts = try plan.facts(for: .account, in: empty, replica: replica, now: Timestamp("2026-01-01T00:00:02Z"))
        let ends = facts.compactMap { if case .recording(let recording) = $0 { recording.knownEnd } else { nil } }
        #expect(try ends == [Timestamp("2026-01-01T00:05:00Z")])
        let replay = Replay(
            Facts(account: Ledger(facts.map(\.record))), catalog: catalog, environment: .sandbox)
        #expect(replay.chains(of: "selfies") == ["2026-01-01T00:00:00.000Z – 2026-01-01T00:10:00.000Z"])
    }
}
