import EntitlementsTestSupport
import Testing

@testable import Entitlements

/// The auto-renewable tutorial's subscription: one selfie or all of them, for a week or a year.
enum Selfies {
    static let group: GroupID = "selfies"
    static let oneWeekly: ProductID = "one.weekly"
    static let oneYearly: ProductID = "one.yearly"
    static let allWeekly: ProductID = "all.weekly"
    static let allYearly: ProductID = "all.yearly"

    static func catalog() throws -> Catalog {
        try Catalog(
            json: """
                {"products":[
                   {"id":"one.weekly","type":"autoRenewable","group":"selfies","level":2,"duration":"P1W"},
                   {"id":"one.yearly","type":"autoRenewable","group":"selfies","level":2,"duration":"P1Y"},
                   {"id":"all.weekly","type":"autoRenewable","group":"selfies","level":1,"duration":"P1W"},
                   {"id":"all.yearly","type":"autoRenewable","group":"selfies","level":1,"duration":"P1Y",
                    "requiresAccount":true},
                   {"id":"poster","type":"nonConsumable"}],
                 "entitlements":[
                   {"id":"one","grantedBy":["group:selfies@2"]},
                   {"id":"all","grantedBy":["group:selfies@1"]},
                   {"id":"any","grantedBy":["group:selfies"]},
                   {"id":"badge","grantedBy":["product:one.yearly","product:all.yearly"]},
                   {"id":"weekly","grantedBy":["product:one.weekly"]},
                   {"id":"poster","grantedBy":["group:selfies@1","product:one.yearly","product:poster"]}]}
                """.utf8)
    }
}

@Suite("An entitlement by level or by subscription product opens what was paid for")
struct SelfieTests {
    private static func access(
        _ story: Story, _ entitlement: EntitlementID, at date: String, _ context: AccessContext = AccessContext()
    ) throws -> String {
        let access = try #require(
            try story.replay().access(to: entitlement, at: Timestamp(date), context: context))
        return switch access {
        case .granted(let grant): "\(grant.source) until " + "\(grant.until?.description ?? "ever")".prefix(10)
        case .denied(let denial): "\(denial.name) \(denial.date?.description ?? "")".prefix(18).trimmed
        }
    }

    /// The entitlements that are granted.
    private static func open(_ story: Story, at date: String) throws -> Set<EntitlementID> {
        let access = try story.replay().snapshot(at: Timestamp(date)).access
        return Set(access.filter(\.access.isGranted).map(\.entitlement))
    }

    /// One selfie a week from 1 January.
    private static func oneWeek() throws -> Story {
        try Story(Selfies.catalog())
            .buyingFromStore(Selfies.oneWeekly, at: "2026-01-01", transaction: "T1", expires: "2026-01-08")
    }

    /// All selfies for a week from 1 January.
    private static func allWeek() throws -> Story {
        try Story(Selfies.catalog())
            .buyingFromStore(Selfies.allWeekly, at: "2026-01-01", transaction: "T1", expires: "2026-01-08")
    }

    @Test(
        "One opens one, and all opens all and one",
        arguments: [
            (Selfies.oneWeekly, ["any", "one", "weekly"]), (Selfies.oneYearly, ["any", "badge", "one", "poster"]),
            (Selfies.allWeekly, ["all", "any", "one", "poster"]),
            (Selfies.allYearly, ["all", "any", "badge", "one", "poster"]),
        ] as [(ProductID, [EntitlementID])])
    func bought(product: ProductID, opened: [EntitlementID]) throws {
        let story = try Story(Selfies.catalog()).buyingFromStore(product, at: "2026-01-01", transaction: "T1")
        #expect(try Self.open(story, at: "2026-01-03") == Set(opened))
        #expect(try Self.open(story, at: "2025-12-31") == [])
        #expect(try Self.open(story, at: "2027-01-01") == [])
    }

    @Test("The end and the source are those of the level")
    func ends() throws {
        let one = try Self.oneWeek()
        #expect(try Self.access(one, "one", at: "2026-01-03") == "group:selfies@2 until 2026-01-08")
        #expect(try Self.access(one, "weekly", at: "2026-01-03") == "product:one.weekly until 2026-01-08")
        #expect(try Self.access(one, "all", at: "2026-01-03") == "notPurchased")
        #expect(try Self.access(one, "one", at: "2026-01-08") == "expired 2026-01-08")
        #expect(try Self.access(one, "all", at: "2026-01-08") == "notPurchased")
    }

    @Test("An upgrade opens all at once, and one continues")
    func upgrade() throws {
        let story = try Self.oneWeek().buyingFromStore(
            Selfies.allWeekly, at: "2026-01-04", transaction: "T2", original: "T1", expires: "2026-01-11")
        #expect(try Self.access(story, "all", at: "2026-01-03") == "notPurchased")
        #expect(try Self.access(story, "one", at: "2026-01-03") == "group:selfies@2 until 2026-01-11")
        #expect(try Self.access(story, "weekly", at: "2026-01-03") == "product:one.weekly until 2026-01-04")
        #expect(try story.replay().nextBoundary(after: Timestamp("2026-01-03")) == Timestamp("2026-01-04"))
        #expect(try Self.access(story, "all", at: "2026-01-04") == "group:selfies@1 until 2026-01-11")
        #expect(try Self.access(story, "one", at: "2026-01-04") == "group:selfies@2 until 2026-01-11")
        #expect(try Self.access(story, "weekly", at: "2026-01-04") == "expired 2026-01-04")
        let refunded = try story.refunding(.store("T2"), at: "2026-01-05", signedAt: "2026-01-05")
        for entitlement in ["one", "all", "any"] as [EntitlementID] {
            #expect(try Self.access(refunded, entitlement, at: "2026-01-06") == "revoked 2026-01-05")
        }
    }

    @Test("An upgrade whose successor is not known yet ends the product, and all waits for the successor")
    func announcedUpgrade() throws {
        let story = try Self.oneWeek().stating(at: "2026-01-04") { date, time in
            .revocation(
                Revocation(
                    transaction: .store("T1"), revokedAt: nil, upgradedAt: date,
                    stamp: Stamp(signedDate: date, logicalTime: time)))
        }
        #expect(try Self.access(story, "weekly", at: "2026-01-05") == "expired 2026-01-04")
        #expect(try Self.access(story, "all", at: "2026-01-05") == "notPurchased")
    }

    @Test("A downgrade at renewal closes all at the renewal, not before, and one continues")
    func downgrade() throws {
        let announced = try Self.allWeek()
            .stating(renewalOf: "T1", at: "2026-01-05", pending: Selfies.oneWeekly)
        #expect(try Self.access(announced, "all", at: "2026-01-06") == "group:selfies@1 until 2026-01-08")
        let story = try announced.buyingFromStore(
            Selfies.oneWeekly, at: "2026-01-08", transaction: "T2", original: "T1", expires: "2026-01-15")
        #expect(try Self.access(story, "all", at: "2026-01-07T23:59:59.999Z") == "group:selfies@1 until 2026-01-08")
        #expect(try Self.access(story, "one", at: "2026-01-07") == "group:selfies@2 until 2026-01-15")
        #expect(try Self.access(story, "all", at: "2026-01-08") == "expired 2026-01-08")
        #expect(try Self.access(story, "one", at: "2026-01-08") == "group:selfies@2 until 2026-01-15")
        #expect(try Self.access(story, "all", at: "2026-01-20") == "expired 2026-01-08")
        #expect(try Self.access(story, "one", at: "2026-01-20") == "expired 2026-01-15")
    }

    @Test("A change from a week to a year at the same level keeps both open and moves only the product")
    func crossgrade() throws {
        let story = try Self.allWeek().buyingFromStore(
            Selfies.allYearly, at: "2026-01-08", transaction: "T2", original: "T1", expires: "2027-01-08")
        #expect(try Self.access(story, "all", at: "2026-01-07") == "group:selfies@1 until 2027-01-08")
        #expect(try Self.access(story, "badge", at: "2026-01-07") == "notPurchased")
        #expect(try Self.access(story, "badge", at: "2026-01-08") == "product:all.yearly until 2027-01-08")
    }

    @Test("Grace extends the level that was paid last, until another product follows")
    func grace() throws {
        let failed = try Self.allWeek()
            .stating(renewalOf: "T1", at: "2026-01-08", graceEnd: "2026-01-24", isInBillingRetry: true)
        #expect(try Self.access(failed, "all", at: "2026-01-10") == "group:selfies@1 until 2026-01-24")
        let changed = try failed.buyingFromStore(
            Selfies.oneYearly, at: "2026-01-12", transaction: "T2", original: "T1", expires: "2027-01-12")
        #expect(try Self.access(changed, "all", at: "2026-01-10") == "group:selfies@1 until 2026-01-12")
        #expect(try Self.access(changed, "all", at: "2026-01-12") == "expired 2026-01-12")
        #expect(try Self.access(changed, "badge", at: "2026-01-12") == "product:one.yearly until 2027-01-12")
    }

    @Test("A refund closes what its purchase opened, and another subscription of the group keeps its level")
    func refund() throws {
        let story = try Self.allWeek().buyingFromStore(
            Selfies.oneWeekly, at: "2026-01-02", transaction: "U1", expires: "2026-01-09"
        ).refunding(.store("T1"), at: "2026-01-05", signedAt: "2026-01-05")
        #expect(try Self.access(story, "all", at: "2026-01-04") == "group:selfies@1 until 2026-01-05")
        #expect(try Self.access(story, "all", at: "2026-01-05") == "revoked 2026-01-05")
        #expect(try Self.access(story, "one", at: "2026-01-05") == "group:selfies@2 until 2026-01-09")
        #expect(try Self.access(story, "weekly", at: "2026-01-05") == "product:one.weekly until 2026-01-09")
        let reinstated = try story.reinstating(.store("T1"), at: "2026-01-06", signedAt: "2026-01-06")
        #expect(try Self.access(reinstated, "all", at: "2026-01-06") == "group:selfies@1 until 2026-01-08")
    }

    @Test("Asserted time has no level: it opens the group alone, and the explanation says so")
    func assertion() throws {
        let story = try Story(Selfies.catalog())
            .asserting(until: "2026-02-01", group: Selfies.group, at: "2026-01-01")
        #expect(try Self.access(story, "any", at: "2026-01-10") == "group:selfies until 2026-02-01")
        #expect(try Self.access(story, "one", at: "2026-01-10") == "notPurchased")
        for (entitlement, effect) in [
            (
                "any",
                .period(
                    Period(
                        start: try Timestamp("2026-01-01"), end: try Timestamp("2026-02-01"),
                        origin: .assertion(
                            Assertion.Reference(
                                group: Selfies.group, source: "parse", until: try Timestamp("2026-02-01")))))
            ),
            ("one", .setAside(.withoutLevel)), ("all", .setAside(.withoutLevel)),
        ] as [(EntitlementID, Explanation.Effect)] {
            let explanation = try story.replay().explanation(of: entitlement, at: Timestamp("2026-01-10"))
            #expect(explanation?.sections.map { $0.lines.map(\.effect) } == [[effect]], "\(entitlement)")
        }
        #expect("\(SetAside.withoutLevel)" == "it has no level")
    }

    @Test("An explanation lists all purchases of the group, and names the level of those that are too low")
    func explained() throws {
        let story = try Self.oneWeek().buyingFromStore(
            Selfies.allWeekly, at: "2026-01-04", transaction: "T2", original: "T1", expires: "2026-01-11"
        ).stating(renewalOf: "T1", at: "2026-01-11", graceEnd: "2026-01-20").asking(
            for: Selfies.oneYearly, at: "2026-01-11")
        func effects(_ entitlement: EntitlementID) throws -> [String] {
            let explanation = try story.replay().explanation(of: entitlement, at: Timestamp("2026-01-12"))
            return try #require(explanation).sections[0].lines.map { line in
                switch line.effect {
                case .period(let period): "\(period.start)".prefix(10) + " to " + "\(period.end)".prefix(10)
                case .setAside(let reason): "\(reason)"
                case .waits: "waits"
                default: "\(line.effect)"
                }
            }
        }
        #expect(
            try effects("one") == [
                "2026-01-01 to 2026-01-04", "2026-01-04 to 2026-01-11", "2026-01-11 to 2026-01-20",
                "waits",
            ])
        #expect(
            try effects("all") == [
                "its level is 2, and the source needs 1", "2026-01-04 to 2026-01-11", "2026-01-11 to 2026-01-20",
            ])
        // The grace extends another product of the line.
        #expect(try effects("weekly") == ["2026-01-01 to 2026-01-04", "informs"])
    }

    @Test("A request for approval, a missing log-in and a missing restore concern the products that grant")
    func denials() throws {
        let asked = try Story(Selfies.catalog()).asking(for: Selfies.oneWeekly, at: "2026-01-01")
        #expect(try Self.access(asked, "one", at: "2026-01-02") == "pendingApproval")
        #expect(try Self.access(asked, "weekly", at: "2026-01-02") == "pendingApproval")
        #expect(try Self.access(asked, "all", at: "2026-01-02") == "notPurchased")
        #expect(try Self.access(asked, "badge", at: "2026-01-02") == "notPurchased")
        let visitor = AccessContext(isSignedIn: false)
        #expect(try Self.access(asked, "all", at: "2026-01-02", visitor) == "signInNeeded")
        #expect(try Self.access(asked, "badge", at: "2026-01-02", visitor) == "signInNeeded")
        let story = try Story(Selfies.catalog())
        #expect(try Self.access(story, "weekly", at: "2026-01-02", visitor) == "notPurchased")
        #expect(
            try Self.access(story, "all", at: "2026-01-02", AccessContext(hasRestored: false)) == "restoreNeeded")
    }

    @Test("Ownership precedes levels and products, and of these the one that lasts longest grants")
    func precedence() throws {
        let all = try Self.allWeek()
        #expect(try Self.access(all, "poster", at: "2026-01-02") == "group:selfies@1 until 2026-01-08")
        let both = try all.buyingFromStore(
            Selfies.oneYearly, at: "2026-01-02", transaction: "U1", expires: "2027-01-02")
        #expect(try Self.access(both, "poster", at: "2026-01-02") == "product:one.yearly until 2027-01-02")
        let owned = try both.buying("poster", at: "2026-01-02", transaction: "P")
        #expect(try Self.access(owned, "poster", at: "2026-01-02") == "product:poster until ever")
    }

    @Test("The level is that of the sale, whatever the catalogue says later")
    func soldLevel() throws {
        let later = try Catalog(
            json: """
                {"products":[{"id":"one.weekly","type":"autoRenewable","group":"selfies","duration":"P1W"}],
                 "entitlements":[{"id":"all","grantedBy":["group:selfies@1"]},
                                 {"id":"weekly","grantedBy":["product:one.weekly"]}]}
                """.utf8)
        let replay = try Self.oneWeek().replay(later)
        let now = try Timestamp("2026-01-03")
        #expect(replay.access(to: "all", at: now) == .denied(.notPurchased))
        #expect(replay.access(to: "weekly", at: now)?.isGranted == true)
    }

    @Test("A product that became auto-renewable stays owned by those who bought it for good")
    func formerlyOwned() throws {
        let terms = Terms(kind: .nonConsumable)
        let story = try Story(Selfies.catalog())
            .buying(Selfies.oneWeekly, at: "2026-01-01", transaction: "A", terms: terms)
        #expect(try Self.access(story, "weekly", at: "2027-01-01") == "product:one.weekly until ever")
        // Time that a non-renewing product sold is no period of the auto-renewable one.
        let month = Terms(kind: .nonRenewing(group: Selfies.group, duration: CalendarDuration(months: 1)))
        let other = try Story(Selfies.catalog())
            .buying(Selfies.oneWeekly, at: "2026-01-01", transaction: "A", terms: month)
        #expect(try Self.access(other, "any", at: "2026-01-02") == "group:selfies until 2026-02-01")
        for entitlement in ["one", "weekly"] as [EntitlementID] {
            #expect(try Self.access(other, entitlement, at: "2026-01-02") == "notPurchased")
        }
        let explanation = try other.replay().explanation(of: "weekly", at: Timestamp("2026-01-02"))
        #expect(explanation?.sections[0].lines.map(\.effect) == [.setAside(.otherKind("nonRenewing"))])
    }
}

extension Substring {
    fileprivate var trimmed: String { String(last == " " ? dropLast() : self) }
}
