import EntitlementsTestSupport
import Testing

@testable import Entitlements

/// The auto-renewable tutorial's app: a set of selfies for each paid week, of which level 2 opens one picture.
@Suite("Content by period, by date and by now")
struct ContentAccessTests {
    private static let json = """
        {"products":[
           {"id":"all","type":"autoRenewable","group":"selfies","level":1,"duration":"P7D"},
           {"id":"one","type":"autoRenewable","group":"selfies","level":2,"duration":"P7D",
            "introductory":{"mode":"free","duration":"P3D"}},
           {"id":"m1","type":"nonRenewing","group":"owls","duration":"P1M"},
           {"id":"unlock","type":"nonConsumable"}],
         "entitlements":[{"id":"unlock","grantedBy":["product:unlock"]}],
         "content":[
           {"path":"/selfies/{set}/","group":"selfies","by":"period"},
           {"path":"/selfies/{set}/1.jpg","group":"selfies","by":"period","maximumLevel":2},
           {"path":"/news/{date}/","group":"selfies","by":"date","maximumLevel":2},
           {"path":"/live/","group":"selfies","by":"now","maximumLevel":2},
           {"path":"/live/hd/","group":"selfies","by":"now"},
           {"path":"/owls/{set}/","group":"owls","by":"period"},
           {"path":"/extra/","entitlement":"unlock","by":"now"}]}
        """
    private let catalog: Catalog

    init() throws { catalog = try Catalog(json: Array(Self.json.utf8)) }

    private func week(
        _ story: Story, _ product: ProductID, _ id: TransactionID, from start: String, to end: String,
        isTrial: Bool = false
    ) throws -> Story {
        try story.buyingFromStore(
            product, at: start, transaction: id, original: id == "T1" ? nil : "T1", expires: end,
            isIntroductory: isTrial)
    }

    private func access(_ story: Story, at instant: Timestamp, isComplete: Bool = true) -> ContentAccess {
        ContentAccess(story.replay(catalog), at: instant, isComplete: isComplete)
    }

    /// The open ones of `targets` at an instant, which is a date plus milliseconds.
    private func open(
        _ story: Story, _ date: String, plus milliseconds: Int64 = 0, isComplete: Bool = true, _ targets: String...
    ) throws -> [String] {
        let access = access(story, at: try Timestamp(date).moved(milliseconds), isComplete: isComplete)
        return try targets.filter { ContentOpening.open(try #require(ContentPath(target: $0)), in: access.openings) }
    }

    private func threeWeeks() throws -> Story {
        var story = try week(Story(catalog), "one", "T1", from: "2026-01-01", to: "2026-01-08")
        story = try week(story, "one", "T2", from: "2026-01-08", to: "2026-01-15")
        return try week(story, "all", "T3", from: "2026-01-15", to: "2026-01-22")
    }

    @Test("A set opens at the first instant of its period, and stays open")
    func period() throws {
        let story = try threeWeeks()
        let pictures = ["/selfies/1/1.jpg", "/selfies/2/1.jpg", "/selfies/3/1.jpg", "/selfies/4/1.jpg"]
        func count(_ date: String, _ milliseconds: Int64 = 0) throws -> Int {
            try open(story, date, plus: milliseconds, pictures[0], pictures[1], pictures[2], pictures[3]).count
        }
        #expect(try count("2026-01-01", -1) == 0)
        #expect(try count("2026-01-01") == 1)
        #expect(try count("2026-01-08", -1) == 1)
        #expect(try count("2026-01-08") == 2)
        #expect(try count("2026-01-15", -1) == 2)
        #expect(try count("2026-01-15") == 3)
        #expect(try count("2026-01-22", -1) == 3)
        #expect(try count("2026-01-22") == 3)
        #expect(try count("2030-01-01") == 3)
    }

    @Test("The level of the period decides about its set")
    func level() throws {
        let story = try threeWeeks()
        let found = try open(
            story, "2026-01-16", "/selfies/1/1.jpg", "/selfies/1/2.jpg", "/selfies/3/1.jpg", "/selfies/3/2.jpg",
            "/selfies/1/")
        #expect(found == ["/selfies/1/1.jpg", "/selfies/3/1.jpg", "/selfies/3/2.jpg"])
        #expect(
            access(story, at: try Timestamp("2026-01-16")).current(at: try Timestamp("2026-01-16")).map(\.index) == [3])
    }

    @Test("An upgrade inside a period is a period of its own, from its first instant")
    func upgrade() throws {
        var story = try week(Story(catalog), "one", "T1", from: "2026-01-01", to: "2026-01-08")
        story = try week(story, "all", "T2", from: "2026-01-03", to: "2026-01-10")
        let targets = ["/selfies/1/1.jpg", "/selfies/1/2.jpg", "/selfies/2/2.jpg", "/live/", "/live/hd/"]
        func found(_ date: String, _ milliseconds: Int64 = 0) throws -> [String] {
            try open(
                story, date, plus: milliseconds, targets[0], targets[1], targets[2], targets[3], targets[4])
        }
        #expect(try found("2026-01-03", -1) == ["/selfies/1/1.jpg", "/live/"])
        #expect(try found("2026-01-03") == ["/selfies/1/1.jpg", "/selfies/2/2.jpg", "/live/", "/live/hd/"])
        #expect(try found("2026-01-10", -1) == ["/selfies/1/1.jpg", "/selfies/2/2.jpg", "/live/", "/live/hd/"])
        #expect(try found("2026-01-10") == ["/selfies/1/1.jpg", "/selfies/2/2.jpg"])
    }

    @Test("The cancellation that a receipt states for an upgraded purchase is no refund")
    func cancelledByUpgrade() throws {
        var story = try week(Story(catalog), "one", "T1", from: "2026-01-01", to: "2026-01-08")
        story = try week(story, "all", "T2", from: "2026-01-03", to: "2026-01-10")
        let upgraded = try story.refunding(.store("T1"), at: "2026-01-03T00:00:59Z", signedAt: "2026-01-04")
        #expect(try open(upgraded, "2026-01-05", "/selfies/1/1.jpg") == ["/selfies/1/1.jpg"])
        let refunded = try story.refunding(.store("T1"), at: "2026-01-03T00:01:01Z", signedAt: "2026-01-04")
        #expect(try open(refunded, "2026-01-05", "/selfies/1/1.jpg") == [])
    }

    @Test("A refund closes its set, and moves no other")
    func refund() throws {
        let story = try threeWeeks().refunding(.store("T2"), at: "2026-01-16", signedAt: "2026-01-16")
        let found = try open(
            story, "2026-01-17", "/selfies/1/1.jpg", "/selfies/2/1.jpg", "/selfies/3/1.jpg", "/selfies/3/2.jpg")
        #expect(found == ["/selfies/1/1.jpg", "/selfies/3/1.jpg", "/selfies/3/2.jpg"])
        // A refund before the period began leaves a number without a period.
        let early = try threeWeeks().refunding(.store("T1"), at: "2025-12-31", signedAt: "2026-01-16")
        let rest = try open(early, "2026-01-17", "/selfies/1/1.jpg", "/selfies/2/1.jpg", "/selfies/3/1.jpg")
        #expect(rest == ["/selfies/2/1.jpg", "/selfies/3/1.jpg"])
        let now = try threeWeeks().refunding(.store("T3"), at: "2026-01-16", signedAt: "2026-01-16")
        #expect(try open(now, "2026-01-16", plus: -1, "/live/") == ["/live/"])
        #expect(try open(now, "2026-01-16", "/live/", "/selfies/3/1.jpg") == [])
        let back = try now.reinstating(.store("T3"), at: "2026-01-17", signedAt: "2026-01-17")
        #expect(try open(back, "2026-01-18", "/live/", "/selfies/3/1.jpg") == ["/live/", "/selfies/3/1.jpg"])
    }

    @Test("A trial is a period, grace is none")
    func trial() throws {
        var story = try week(Story(catalog), "one", "T1", from: "2026-01-01", to: "2026-01-04", isTrial: true)
        story = try week(story, "one", "T2", from: "2026-01-04", to: "2026-01-11")
        story = try story.stating(
            renewalOf: "T1", at: "2026-01-11", graceEnd: "2026-01-15", isInBillingRetry: true)
        let found = try open(story, "2026-01-12", "/selfies/1/1.jpg", "/selfies/2/1.jpg", "/selfies/3/1.jpg", "/live/")
        #expect(found == ["/selfies/1/1.jpg", "/selfies/2/1.jpg", "/live/"])
        #expect(try open(story, "2026-01-15", "/live/") == [])
    }

    @Test("By date, a day that has begun is open if some of it was paid, and today as soon as it is bought")
    func date() throws {
        var story = try week(Story(catalog), "one", "T1", from: "2026-01-01T10:00:00Z", to: "2026-01-08T10:00:00Z")
        story = try week(story, "one", "T2", from: "2026-02-01", to: "2026-02-08")
        func isOpen(_ day: String, _ date: String, _ milliseconds: Int64 = 0) throws -> Bool {
            try !open(story, date, plus: milliseconds, "/news/\(day)/").isEmpty
        }
        #expect(try !isOpen("2025-12-31", "2026-03-01"))
        #expect(try isOpen("2026-01-01", "2026-03-01"))
        #expect(try isOpen("2026-01-02", "2026-03-01"))
        #expect(try isOpen("2026-01-08", "2026-03-01"))
        #expect(try !isOpen("2026-01-09", "2026-03-01"))
        #expect(try isOpen("2026-02-01", "2026-03-01"))
        #expect(try !isOpen("2026-02-08", "2026-03-01"))
        #expect(try !isOpen("2026-01-03", "2026-01-03", -1))
        #expect(try isOpen("2026-01-03", "2026-01-03"))
        // The day of the purchase, from its first paid instant on.
        #expect(try !isOpen("2026-01-01", "2026-01-01T10:00:00Z", -1))
        #expect(try isOpen("2026-01-01", "2026-01-01T10:00:00Z"))
        #expect(try !isOpen("2026-01-02", "2026-01-01T10:00:00Z"))
        // A day that was paid in part stays open: from 10 o'clock, until 10 o'clock, and for one millisecond.
        #expect(try isOpen("2026-01-08", "2026-01-08T23:00:00Z"))
        let brief = try week(
            Story(catalog), "one", "T1", from: "2026-01-01T23:59:59.999Z", to: "2026-01-02T00:00:00.001Z")
        for (day, paid) in [("2025-12-31", false), ("2026-01-01", true), ("2026-01-02", true), ("2026-01-03", false)] {
            #expect(try !open(brief, "2026-03-01", "/news/\(day)/").isEmpty == paid, "\(day)")
        }
    }

    @Test("By now, a group is open from the first to the last instant, an entitlement while it is granted")
    func now() throws {
        let story = try threeWeeks()
        #expect(try open(story, "2026-01-01", plus: -1, "/live/") == [])
        #expect(try open(story, "2026-01-01", "/live/", "/live/hd/") == ["/live/"])
        #expect(try open(story, "2026-01-22", plus: -1, "/live/", "/live/hd/") == ["/live/", "/live/hd/"])
        #expect(try open(story, "2026-01-22", "/live/", "/live/hd/") == [])
        let unlock = try story.buying("unlock", at: "2026-02-01", transaction: "U1")
        #expect(try open(unlock, "2026-02-01", plus: -1, "/extra/a") == [])
        #expect(try open(unlock, "2026-02-01", "/extra/a") == ["/extra/a"])
        let refunded = try unlock.refunding("U1", at: "2026-02-03")
        #expect(try open(refunded, "2026-02-03", plus: -1, "/extra/a") == ["/extra/a"])
        #expect(try open(refunded, "2026-02-03", "/extra/a") == [])
    }

    @Test("Periods of a non-renewing group follow one another, and a set opens when its period begins")
    func nonRenewing() throws {
        let story = try Story(catalog).buying("m1", at: "2026-01-01", transaction: "N1")
            .buying("m1", at: "2026-01-10", transaction: "N2")
        #expect(try open(story, "2026-01-31", "/owls/1/a", "/owls/2/a") == ["/owls/1/a"])
        #expect(try open(story, "2026-02-01", plus: -1, "/owls/2/a") == [])
        #expect(try open(story, "2026-02-01", "/owls/1/a", "/owls/2/a") == ["/owls/1/a", "/owls/2/a"])
        let access = access(story, at: try Timestamp("2026-01-31"))
        #expect(access.nextBoundary == (try Timestamp("2026-02-01")))
    }

    @Test("With incomplete facts, rules by period open nothing")
    func incomplete() throws {
        let story = try threeWeeks()
        #expect(
            try open(story, "2026-01-16", isComplete: false, "/selfies/1/1.jpg", "/news/2026-01-16/", "/live/hd/")
                == ["/news/2026-01-16/", "/live/hd/"])
        #expect(access(story, at: try Timestamp("2026-01-16"), isComplete: false).periods.isEmpty)
    }

    @Test("The next boundary is the next instant at which something opens or closes")
    func boundary() throws {
        var story = try week(Story(catalog), "one", "T1", from: "2026-01-01T10:00:00Z", to: "2026-01-08T10:00:00Z")
        story = try week(story, "all", "T2", from: "2026-01-05T15:30:00Z", to: "2026-01-12T15:30:00Z")
        let dates = [
            ("2026-01-01T00:00:00Z", "2026-01-01T10:00:00Z"), ("2026-01-01T10:00:00Z", "2026-01-02T00:00:00Z"),
            ("2026-01-05T15:29:59Z", "2026-01-05T15:30:00Z"), ("2026-01-12T03:00:00Z", "2026-01-12T15:30:00Z"),
            // A rule by date may open a day at its first instant.
            ("2026-01-12T15:30:00Z", "2026-01-13T00:00:00Z"), ("2026-01-12T23:59:59.999Z", "2026-01-13T00:00:00Z"),
        ]
        for (date, next) in dates {
            #expect(access(story, at: try Timestamp(date)).nextBoundary == (try Timestamp(next)), "\(date)")
        }
    }

    @Test(
        "A malformed rule is refused with its place and the reason",
        arguments: [
            (#"{"path":"a/","group":"g","by":"now"}"#, "content[0].path", "must begin with"),
            (#"{"path":"//a/","group":"g","by":"now"}"#, "content[0].path", "no empty"),
            (#"{"path":"/a/../","group":"g","by":"now"}"#, "content[0].path", "no empty"),
            (#"{"path":"/a%20/","group":"g","by":"now"}"#, "content[0].path", "percent signs"),
            (#"{"path":"/a;b/","group":"g","by":"now"}"#, "content[0].path", "no \";\""),
            (#"{"path":"/a/..;/","group":"g","by":"now"}"#, "content[0].path", "no \";\""),
            (#"{"path":"/a/","group":"g","by":"period"}"#, "content[0].path", "exactly one segment {set}"),
            (#"{"path":"/{set}/{set}/","group":"g","by":"period"}"#, "content[0].path", "exactly one segment {set}"),
            (#"{"path":"/{set}/","group":"g","by":"date"}"#, "content[0].path", "exactly one segment {date}"),
            (#"{"path":"/{date}/","group":"g","by":"now"}"#, "content[0].path", "neither {set} nor {date}"),
            (#"{"path":"/x{set}/","group":"g","by":"now"}"#, "content[0].path", "braces"),
            (#"{"path":"/a/","group":"h","by":"now"}"#, "content[0].group", "no product is in group"),
            (#"{"path":"/a/","by":"now"}"#, "content[0]", "either a group or an entitlement"),
            (#"{"path":"/a/","group":"g","entitlement":"e","by":"now"}"#, "content[0]", "either a group or an"),
            (#"{"path":"/a/","entitlement":"x","by":"now"}"#, "content[0].entitlement", "there is no entitlement"),
            (#"{"path":"/{set}/","entitlement":"e","by":"period"}"#, "content[0].entitlement", "by now, without"),
            (#"{"path":"/a/","group":"g","by":"week"}"#, "content[0].by", "must be one of period, date, now"),
            (#"{"path":"/a/","group":"g","by":"now","maximumLevel":0}"#, "content[0].maximumLevel", "1 (highest)"),
            (#"{"path":"/a/","group":"g","by":"now","level":1}"#, "content[0].level", "unknown member"),
            (
                #"{"path":"/a/","group":"g","by":"now"},{"path":"/a/","group":"g","by":"now"}"#, "content[1].path",
                "has two rules"
            ),
        ])
    func badRule(rule: String, path: String, reason: String) {
        let json = """
            {"products":[{"id":"p","type":"nonRenewing","group":"g","duration":"P1M"}],
             "entitlements":[{"id":"e","grantedBy":["group:g"]}],"content":[\(rule)]}
            """
        let error = #expect(throws: InputError.self) { try Catalog(json: Array(json.utf8)) }
        #expect(error?.path == path && error?.reason.contains(reason) == true, "\(String(describing: error))")
    }
}
