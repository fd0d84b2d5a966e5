import EntitlementsTestSupport
import Testing

@testable import Entitlements

@Suite("A non-renewing product that never ends")
struct ForeverTests {
    private static let lifetime: ProductID = "lifetime"
    private let catalog: Catalog

    init() throws {
        catalog = try Catalog(
            json: """
                {"products":[
                   {"id":"lifetime","type":"nonRenewing","group":"random","duration":"forever"},
                   {"id":"three-months","type":"nonRenewing","group":"random","duration":"P3M"},
                   {"id":"month","type":"nonRenewing","group":"other","duration":"P1M"}],
                 "entitlements":[{"id":"all","grantedBy":["group:random","group:other"]},
                                 {"id":"either","grantedBy":["group:other","group:random"]}],
                 "policy":{"bonus":"P1D"},
                 "content":[{"path":"/owls/{set}/","group":"random","by":"period"},
                            {"path":"/live/","group":"random","by":"now"}]}
                """.utf8)
    }

    private func lifetime(after months: Bool = false) throws -> Story {
        let story = try Story(catalog)
        return try (months ? story.buying(Shop.threeMonths, at: "2026-01-01", transaction: "A") : story)
            .buying(Self.lifetime, at: "2026-02-01", quantity: 3, transaction: "L")
    }

    @Test("It grants access without an end, after the time that was paid before, and later purchases change nothing")
    func holds() throws {
        let story = try lifetime(after: true).buying(Shop.threeMonths, at: "2026-03-01", transaction: "B")
        let replay = story.replay()
        #expect(replay.chains() == ["2026-01-01T00:00:00.000Z – 9999-12-31T23:59:59.999Z"])
        for date in ["2026-02-01", "2026-04-02", "2500-01-01", "9999-12-31"] {
            let instant = try Timestamp(date)
            let grant = Access.granted(Access.Grant(until: nil, source: .group(Shop.random)))
            #expect(replay.access(to: "all", at: instant) == grant, "\(date)")
            let state = try #require(replay.snapshot(at: instant)[group: Shop.random])
            #expect(state.isActive && state.isActiveForGood && state.expires == nil && state.daysRemaining == .max)
        }
        let state = try #require(try replay.snapshot(at: Timestamp("2026-06-01"))[group: Shop.random])
        #expect(state.product == Self.lifetime && state.periods.map(\.product) == [Shop.threeMonths, Self.lifetime])
        #expect(try replay.nextBoundary(after: Timestamp("2026-06-01")) == nil)
        #expect(try replay.end(afterBuying: Shop.threeMonths, at: Timestamp("2026-06-01")) == .latest)
        let before = try #require(try replay.snapshot(at: Timestamp("2025-12-31"))[group: Shop.random])
        #expect(!before.isActive && !before.isActiveForGood && before.daysRemaining == 0)
    }

    @Test("It outlasts every other group, in either order")
    func longest() throws {
        let replay = try lifetime().buying("month", at: "2026-02-01", transaction: "M").replay()
        let grant = Access.granted(Access.Grant(until: nil, source: .group(Shop.random)))
        for entitlement in ["all", "either"] as [EntitlementID] {
            #expect(try replay.access(to: entitlement, at: Timestamp("2026-02-02")) == grant, "\(entitlement)")
        }
    }

    @Test(
        "A refund ends it, and later purchases move up",
        arguments: ["stackPurchases", "latestExpiryWins", "remoteWins"])
    func refunded(rule: String) throws {
        let expiry = try #require(ConflictRules.expiryRules.first { $0.name == rule })
        let story = try lifetime().buying(Shop.threeMonths, at: "2026-03-01", transaction: "B")
            .refunding("L", at: "2026-03-11")
        let replay = story.replay(expiry: expiry)
        // Stacked, the three months and the bonus begin at the refund. Otherwise they begin at their own date.
        let end = rule == "latestExpiryWins" ? "2026-06-02" : "2026-06-12"
        #expect(replay.chains() == [days("2026-02-01", end)])
        let access = try replay.access(to: "all", at: Timestamp("2026-03-12"))
        #expect(try access == .granted(Access.Grant(until: Timestamp(end), source: .group(Shop.random))))
        let recordings = story.replay().facts.recordings.values.flatMap { $0 }
        #expect(
            recordings.allSatisfy { $0.knownEnd == nil },
            "an earlier version must not count from an end that never comes")
        let alone = try lifetime().refunding("L", at: "2026-03-11").replay(expiry: expiry)
        let denial = Access.denied(.revoked(try Timestamp("2026-03-11")))
        #expect(try alone.access(to: "all", at: Timestamp("2026-03-12")) == denial)
        #expect(try alone.snapshot(at: Timestamp("2026-03-12"))[group: Shop.random]?.daysRemaining == 0)
    }

    @Test("An explanation says that a later purchase is covered, and JSON gives no end")
    func explained() throws {
        let replay = try lifetime().buying(Shop.threeMonths, at: "2026-03-01", transaction: "B").replay()
        let now = try Timestamp("2026-03-02")
        let lines = try #require(replay.explanation(of: "all", at: now)).sections[0].lines
        guard case .period(let period) = lines[0].effect else { return #expect(Bool(false), "\(lines[0])") }
        #expect(period.end == .latest)
        #expect(lines[1].effect == .setAside(.covered))
        let json = try JSONReader(parsing: replay.snapshot(at: now).json(account: nil).text().utf8).object()
        let group = try json.required("subscriptions").array()[1].object()
        #expect(try group.required("active").bool())
        // A member that is null counts as missing.
        #expect(group["expires"] == nil && group["daysRemaining"] == nil)
        let periods = try group.required("periods").array()
        #expect(periods.count == 1)
        #expect(try periods[0].object().required("start").string() == "2026-02-01T00:00:00.000Z")
        #expect(try periods[0].object()["end"] == nil)
    }

    @Test("It is one period of content, and content ends with a refund")
    func content() throws {
        let story = try lifetime().buying(Shop.threeMonths, at: "2026-03-01", transaction: "B")
        func open(_ story: Story, _ date: String) throws -> [String] {
            let access = ContentAccess(story.replay(), at: try Timestamp(date), isComplete: true)
            #expect(access.nextBoundary.map { $0 < .latest } ?? true)
            return try ["/owls/1/", "/owls/2/", "/live/"].filter {
                ContentOpening.open(try #require(ContentPath(target: $0)), in: access.openings)
            }
        }
        #expect(try open(story, "2030-01-01") == ["/owls/1/", "/live/"])
        let refunded = try story.refunding("L", at: "2026-03-11")
        #expect(try open(refunded, "2026-03-12") == ["/owls/2/", "/live/"])
        #expect(try open(refunded, "2030-01-01") == ["/owls/2/"])
    }

    @Test("Accelerated time does not end it")
    func accelerated() throws {
        #expect(Policy(sandboxTime: .accelerated).counted(.forever, in: .sandbox) == .forever)
    }

    @Test("Its terms have 100 years for earlier versions, and a mark; a number of months alone never means forever")
    func encoding() throws {
        let terms = Terms(kind: .nonRenewing(group: "g", duration: .forever))
        let purchase = Purchase(
            transaction: TransactionReference(id: "1"), product: "p", terms: terms, date: try Timestamp("2026-01-01"),
            stamp: Stamp(logicalTime: .zero))
        let record = Fact.purchase(purchase).record
        #expect(Fact(record) == .purchase(purchase))
        // Terms { NonRenewing { group: "g", Duration { months: 1200, forever: true } } }
        let bytes: [UInt8] = [0x12, 0x0C, 0x1A, 0x0A, 0x0A, 0x01, 0x67, 0x12, 0x05, 0x08, 0xB0, 0x09, 0x20, 0x01]
        #expect(record.payload.firstRange(of: bytes) != nil)
        func read(_ terms: [UInt8]) throws -> Terms {
            let payload = record.payload.replacing(bytes, with: [0x12, UInt8(terms.count)] + terms)
            let fact = Fact(Record(key: record.key, order: record.order, payload: payload))
            guard case .purchase(let purchase) = fact else { throw InputError(path: "", reason: "\(fact)") }
            return try #require(purchase.terms)
        }
        // The same without the mark, as an earlier version reads it.
        let century = try read([0x1A, 0x08, 0x0A, 0x01, 0x67, 0x12, 0x03, 0x08, 0xB0, 0x09])
        #expect(century.kind == .nonRenewing(group: "g", duration: CalendarDuration(months: 1_200)))
        #expect(century.areWithinBounds && terms.areWithinBounds)
        let most = [UInt8](repeating: 0xFF, count: 8) + [0x7F]
        let huge = try read([0x1A, 0x0F, 0x0A, 0x01, 0x67, 0x12, 0x0A, 0x08] + most)
        #expect(!huge.areWithinBounds)
    }

    @Test("Only a non-renewing purchase can have it")
    func bounds() {
        let kind = ProductKind.autoRenewable(group: "g", level: 1, duration: .forever, introductory: nil)
        #expect(!Terms(kind: kind).areWithinBounds)
        let month = ProductKind.nonRenewing(group: "g", duration: CalendarDuration(months: 1))
        #expect(!Terms(kind: month, bonus: .forever).areWithinBounds)
        #expect("\(CalendarDuration.forever)" == "forever" && (try? CalendarDuration("forever")) == .forever)
        #expect(CalendarDuration.forever.multiplied(by: 10_000) == .forever)
        #expect(Timestamp.earliest.adding(.forever) == .latest && Timestamp.latest.adding(.forever) == .latest)
    }
}
