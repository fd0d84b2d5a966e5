import Entitlements
import EntitlementsTestSupport
import Testing

@Suite("A denial names the server's objection to a purchase that would grant access")
struct OverruledPurchaseTests {
    private static func access(
        _ replay: Replay, to entitlement: EntitlementID = Shop.randomOwls, at date: String = "2026-02-01"
    ) throws -> Access? {
        replay.access(to: entitlement, at: try Timestamp(date))
    }

    private static func verified(_ story: Story, device: [Fact] = [], _ facts: [Fact] = []) throws -> Replay {
        var server = ServerLedger()
        _ = server.set(.verified, at: try Timestamp("2026-01-01"))
        _ = server.add(facts, catalog: story.catalog, at: try Timestamp("2026-01-01"))
        let device = Ledger(device.map(\.record))
        return Replay(Facts(account: story.ledger, device: device, server: server.ledger), catalog: story.catalog)
    }

    @Test(
        "Each decision of the server has a denial of its own, for time, ownership and units",
        arguments: [
            (Acceptance.Decision.refused("no evidence"), Access.Denial.refusedByServer("no evidence")),
            (.refused(Acceptance.recordedByAnother), .ownedByAnotherAccount),
            (.refused(Acceptance.provedByAnother), .ownedByAnotherAccount),
            (.transferred(to: "bob"), .ownedByAnotherAccount),
        ])
    func decisions(decision: Acceptance.Decision, denial: Access.Denial) throws {
        for product in [Shop.threeMonths, Shop.coins] {
            let story = try Story().buying(product, at: "2026-01-01", transaction: "A")
            #expect(try Self.access(story.replay(decisions: [Acceptance("A", decision)])) == .denied(denial))
        }
        let owl = try Story().buying(Shop.owl, at: "2026-01-01", transaction: "A")
        #expect(try Self.access(owl.replay(decisions: [Acceptance("A", decision)]), to: "owl") == .denied(denial))
        let accepted = owl.replay(decisions: [Acceptance("A", decision), Acceptance("A", .accepted, at: 2)])
        #expect(try Self.access(accepted, to: "owl")?.isGranted == true)
    }

    @Test("An expiry does not hide a purchase that would grant access now, and hides one whose time is over")
    func expiry() throws {
        let story = try Story().buying(Shop.oneMonth, at: "2026-01-01", transaction: "A")
            .buying(Shop.threeMonths, at: "2026-01-10", transaction: "B")
        let replay = story.replay(decisions: [Acceptance("B", .refused("no"))])
        #expect(try Self.access(replay, at: "2026-01-31")?.isGranted == true)
        // Three months after February 1, to which the purchase would have added.
        #expect(try Self.access(replay, at: "2026-04-30") == .denied(.refusedByServer("no")))
        #expect(try Self.access(replay, at: "2026-05-01") == .denied(.expired(Timestamp("2026-02-01"))))
        let renewals = try Story().buyingFromStore(
            Shop.weekly, at: "2026-01-01", transaction: "1", expires: "2026-01-08")
        #expect(try Self.access(Self.verified(renewals), to: "selfies", at: "2026-01-07") == .denied(.unverified))
        // Even then the answer is not that nothing was bought.
        #expect(try Self.access(Self.verified(renewals), to: "selfies", at: "2026-01-08") == .denied(.unverified))
    }

    @Test("A refunded purchase is denied as revoked, whatever the server thinks of it")
    func refunded() throws {
        let story = try Story().buying(Shop.owl, at: "2026-01-01", transaction: "A").refunding("A", at: "2026-01-20")
        let replay = story.replay(decisions: [Acceptance("A", .refused("no"))])
        #expect(try Self.access(replay, to: "owl") == .denied(.revoked(Timestamp("2026-01-20"))))
        #expect(try Self.access(replay, to: "owl", at: "2026-01-19") == .denied(.refusedByServer("no")))
    }

    @Test("Of two purchases that the server set aside, the later one names the reason")
    func latest() throws {
        let story = try Story().buying(Shop.owl, at: "2026-01-01", transaction: "A")
            .buying(Shop.owl, at: "2026-01-02", transaction: "B")
        let decisions = [Acceptance("A", .refused("no")), Acceptance("B", .transferred(to: "bob"))]
        #expect(try Self.access(story.replay(decisions: decisions), to: "owl") == .denied(.ownedByAnotherAccount))
    }

    @Test("Under `verified`, the device's note of a refusal names the reason until the server verifies the purchase")
    func refusalOfEvidence() throws {
        let story = try Story().buyingFromStore(Shop.owl, at: "2026-01-01", transaction: "1")
        let purchase = try #require(Facts(account: story.ledger).purchases.first)
        func note(_ decision: Acceptance.Decision) throws -> Fact {
            .acceptance(
                Acceptance(
                    transaction: purchase.transaction, decision: decision, date: try Timestamp("2026-01-02"),
                    logicalTime: LogicalTime(rawValue: 9)))
        }
        let refusal = try note(.refused("signature: wrong"))
        #expect(try Self.access(Self.verified(story), to: "owl") == .denied(.unverified))
        let refused = try Self.verified(story, device: [refusal])
        #expect(try Self.access(refused, to: "owl") == .denied(.refusedByServer("signature: wrong")))
        let taken = try Self.verified(story, device: [try note(.refused(Acceptance.provedByAnother))])
        #expect(try Self.access(taken, to: "owl") == .denied(.ownedByAnotherAccount))
        // A note that is no refusal says nothing, and none of them grants or denies access by itself.
        #expect(try Self.access(Self.verified(story, device: [try note(.accepted)]), to: "owl") == .denied(.unverified))
        let confirmed = try Self.verified(story, device: [refusal], [.purchase(purchase)])
        #expect(try Self.access(confirmed, to: "owl")?.isGranted == true)
        let trusted = Replay(
            Facts(account: story.ledger, device: Ledger([refusal.record])), catalog: story.catalog)
        #expect(try Self.access(trusted, to: "owl")?.isGranted == true)
        // In a ledger that is synced, it is ignored.
        let forged = try Self.verified(
            try story.stating(at: "2026-01-03") { _, _ in refusal })
        #expect(try Self.access(forged, to: "owl") == .denied(.unverified))
    }

    @Test("The server's reason is part of the JSON of a denial")
    func json() throws {
        let story = try Story().buying(Shop.owl, at: "2026-01-01", transaction: "A")
        let replay = story.replay(decisions: [Acceptance("A", .refused("no evidence"))])
        let text = try #require(try Self.access(replay, to: "owl")).json.text()
        #expect(text.contains(#""reason": "refusedByServer""#) && text.contains(#""detail": "no evidence""#), "\(text)")
        let unknown = try #require(try Self.access(replay)).json.text()
        #expect(!unknown.contains("detail"))
    }

    @Test("A snapshot has the period that grants access, and knows a free introductory offer from a paid one")
    func period() throws {
        func catalog(_ mode: IntroductoryOffer.Mode) throws -> Catalog {
            let week = CalendarDuration(days: 7)
            let offer = IntroductoryOffer(mode: mode, duration: week)
            let kind = ProductKind.autoRenewable(group: Shop.selfies, level: 2, duration: week, introductory: offer)
            return try Catalog(
                products: [Product(id: Shop.weekly, kind: kind)],
                entitlements: [Entitlement(id: "selfies", grantedBy: [.level(Shop.selfies, 2)])])
        }
        for (mode, isTrial) in [(IntroductoryOffer.Mode.free, true), (.payUpFront, false)] {
            let story = try Story(try catalog(mode))
                .buyingFromStore(Shop.weekly, at: "2026-01-01", transaction: "1", isIntroductory: true)
                .buyingFromStore(Shop.weekly, at: "2026-01-08", transaction: "2", original: "1")
            let trial = try #require(story.replay().snapshot(at: Timestamp("2026-01-07")).access.first)
            #expect(trial.isTrial == isTrial)
            #expect(trial.period?.transaction == .store("1") && trial.period?.level == 2)
            let paid = try #require(story.replay().snapshot(at: Timestamp("2026-01-08")).access.first)
            #expect(!paid.isTrial && paid.period?.transaction == .store("2"))
            let over = try #require(story.replay().snapshot(at: Timestamp("2026-01-15")).access.first)
            #expect(over.period == nil && !over.access.isGranted)
        }
    }
}
