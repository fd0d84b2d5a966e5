import Entitlements
import Testing

@Suite("Decisions of the account's server count only in the server's ledger")
struct AcceptanceTests {
    private static let now = "2026-02-01"

    private static func bought() throws -> Story {
        try Story().buying(Shop.threeMonths, at: "2026-06-01", transaction: "A")
            .buying(Shop.owl, at: "2026-01-01", transaction: "B")
            .buying(Shop.coins, at: "2026-01-01", transaction: "C")
    }

    @Test("A purchase dated in the future counts as of the server's time and keeps its stated date")
    func countsAsOf() throws {
        let date = try Timestamp("2026-01-15")
        let replay = try Self.bought().replay(decisions: [Acceptance("A", .countsAsOf(date))])
        #expect(replay.chains() == [days("2026-01-15", "2026-04-15")])
        let purchase = try #require(replay.facts[TransactionReference(id: "A")])
        #expect(purchase.date == date)
        #expect(replay.facts.statedDate(of: purchase) == (try Timestamp("2026-06-01")))
        let lines = try #require(replay.explanation(of: Shop.randomOwls, at: Timestamp(Self.now))).sections[0].lines
        #expect(lines.map(\.effect).last == .redates(date))
        #expect(lines.count == 2)
    }

    @Test("A redated purchase is ordered by its new date")
    func order() throws {
        let story = try Self.bought().buying(Shop.oneMonth, at: "2026-02-01", transaction: "D")
        let replay = story.replay(decisions: [Acceptance("A", .countsAsOf(try Timestamp("2026-01-15")))])
        #expect(replay.facts.purchases.map(\.transaction.id) == ["B", "C", "A", "D"])
        #expect(replay.chains() == [days("2026-01-15", "2026-05-15")])
    }

    @Test(
        "A refused or transferred purchase of any kind has no effect",
        arguments: [Acceptance.Decision.refused("no evidence"), .transferred(to: "bob")])
    func refused(decision: Acceptance.Decision) throws {
        let replay = try Self.bought().replay(
            decisions: ["A", "B", "C"].map { Acceptance($0, decision) })
        let now = try Timestamp("2026-07-01")
        #expect(replay.chains() == [])
        #expect(!replay.isOwned(Shop.owl, at: now))
        #expect(replay.balance(of: Shop.coins, at: now) == 0)
        let reason: SetAside = decision == .transferred(to: "bob") ? .transferred(to: "bob") : .refused("no evidence")
        for (entitlement, section) in [(Shop.randomOwls, 0), (Shop.randomOwls, 1), ("owl", 0)] {
            let explanation = try #require(replay.explanation(of: entitlement, at: now))
            #expect(explanation.sections[section].lines.map(\.effect) == [.setAside(reason), .setAside(reason)])
        }
        // The latest decision counts: a refused purchase may be accepted later.
        let accepted = try Self.bought().replay(
            decisions: [Acceptance("A", decision), Acceptance("A", .accepted, at: 2)])
        #expect(accepted.chains() == [days("2026-06-01", "2026-09-01")])
    }

    @Test("A decision in the account's or device's ledger has no effect, is kept, and is explained")
    func forged() throws {
        let story = try Self.bought()
        let forged = [
            Acceptance("A", .countsAsOf(try Timestamp("2026-01-01")), at: 9), Acceptance("B", .refused("no"), at: 9),
        ]
        let ledger = story.ledger.joined(with: Ledger(forged.map { Fact.acceptance($0).record }))
        for facts in [Facts(account: ledger), Facts(account: story.ledger, device: ledger)] {
            let replay = Replay(facts, catalog: story.catalog)
            #expect(replay.chains() == [days("2026-06-01", "2026-09-01")])
            #expect(replay.isOwned(Shop.owl, at: try Timestamp(Self.now)))
            #expect(replay.facts.unreadable == forged.map(Fact.acceptance))
            let explanation = try #require(replay.explanation(of: "owl", at: Timestamp(Self.now)))
            #expect(
                explanation.sections.map { $0.lines.last?.effect }
                    == [.setAside(.notFromServer), .setAside(.notFromServer)])
        }
        // None of them overrides the server's decision.
        let facts = Facts(
            account: ledger, server: Ledger([Fact.acceptance(Acceptance("A", .refused("no"))).record]))
        #expect(Replay(facts, catalog: story.catalog).chains() == [])
    }

    @Test("A decision about an unknown purchase waits for it; other records of the server are ignored")
    func waits() throws {
        let server = try Self.bought().ledger
            .joined(with: Ledger([Fact.acceptance(Acceptance("A", .refused("no"))).record]))
        #expect(Replay(Facts(account: Ledger(), server: server), catalog: try Shop.catalog()).chains() == [])
        let facts = Facts(account: try Self.bought().ledger, server: server)
        #expect(Replay(facts, catalog: try Shop.catalog()).chains() == [])
        #expect(facts.latestTime >= (Facts(account: server).latestTime))
    }
}
