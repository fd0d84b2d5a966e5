import Entitlements
import EntitlementsTestSupport
import Testing

@Suite("Rules affect the interpretation of facts and never lose a fact")
struct RuleTests {
    /// The example in the documentation of ``ExpiryRule``.
    private struct EachOnItsOwn: ExpiryRule {
        let name = "eachOnItsOwn"
        func periods(of statements: [TimelineInput]) -> [Period] {
            statements.map { statement in
                switch statement {
                case .sold(let sold): sold.period(from: sold.purchase.date, to: sold.end(from: sold.purchase.date))
                case .asserted(let asserted): asserted.period(after: .earliest)
                }
            }
        }
    }

    /// A rule that returns no periods.
    private struct Nothing: ExpiryRule, FlagRule {
        let name = "nothing"
        func periods(of statements: [TimelineInput]) -> [Period] { [] }
        func isOwned(_ marks: FlagMarks) -> Bool { false }
    }

    @Test("A custom rule determines the periods and is named in explanations")
    func callersRule() throws {
        let story = try Story().buying(Shop.threeMonths, at: "2026-01-01", transaction: "A")
            .buying(Shop.oneMonth, at: "2026-02-01", transaction: "B").refunding("B", at: "2026-02-10")
            .asserting(until: "2026-04-15", at: "2026-03-01")
        #expect(story.replay(expiry: EachOnItsOwn()).chains() == [days("2026-01-01", "2026-04-15")])
        #expect(story.replay().chains() == [days("2026-01-01", "2026-04-15")])
        let stacked = try Story().buying(Shop.oneMonth, at: "2026-01-01", transaction: "A")
            .buying(Shop.oneMonth, at: "2026-01-15", transaction: "B")
        #expect(stacked.replay(expiry: EachOnItsOwn()).chains() == [days("2026-01-01", "2026-02-15")])
        let none = story.replay(expiry: Nothing())
        #expect(none.chains() == [])
        let lines = try #require(none.explanation(of: Shop.randomOwls, at: Timestamp("2026-02-01"))).sections[0].lines
        #expect(
            lines.map(\.effect) == [
                .setAside(.overruled("nothing")), .setAside(.overruled("nothing")), .notYet, .setAside(.covered),
            ])
    }

    @Test("purchasedWins keeps a set flag; lastWriterWins uses the later mark; a custom rule decides for itself")
    func flags() throws {
        let now = try Timestamp("2026-06-01")
        func isOwned(_ story: Story, _ rule: any FlagRule) -> Bool {
            story.replay(decisions: [], rules: ConflictRules(flags: rule)).isOwned(Shop.owl, at: now)
        }
        let set = try Story(replica: 1).flagging(Shop.owl, isSet: true, at: "2026-01-01")
        let cleared = try set.flagging(Shop.owl, isSet: false, at: "2026-02-01")
        let setAgain = try cleared.flagging(Shop.owl, isSet: true, at: "2026-03-01")
        #expect([set, cleared, setAgain].map { isOwned($0, PurchasedWins()) } == [true, true, true])
        #expect([set, cleared, setAgain].map { isOwned($0, LastWriterWins()) } == [true, false, true])
        #expect([set, cleared, setAgain].map { isOwned($0, Nothing()) } == [false, false, false])
        // The rule loses this unlock: a device with outdated state clears the flag after another device has set it.
        let old = try Story(replica: 2).flagging(Shop.owl, isSet: false, at: "2026-05-01")
        #expect(!isOwned(setAgain.synced(with: old), LastWriterWins()))
        #expect(isOwned(setAgain.synced(with: old), PurchasedWins()))
        // Neither rule revokes a purchase.
        let bought = try cleared.buying(Shop.owl, at: "2026-01-01", transaction: "A")
        #expect(isOwned(bought, LastWriterWins()) && isOwned(bought, Nothing()))
        // The explanation lists the clearing mark as a revocation.
        let replay = cleared.replay(decisions: [], rules: ConflictRules(flags: LastWriterWins()))
        let lines = try #require(replay.explanation(of: "owl", at: now)).sections[0].lines
        #expect(lines.map(\.effect) == [.setAside(.overruled("lastWriterWins")), .revokes])
    }

    @Test("remoteWins counts facts in the form that the remote held; new facts wait")
    func remoteWins() throws {
        let rules = ConflictRules(expiry: RemoteWins(), flags: RemoteWins())
        let synced = try Story().buying(Shop.threeMonths, at: "2026-01-01", transaction: "A")
            .asserting(until: "2026-05-01", at: "2026-01-02").flagging(Shop.owl, isSet: true, at: "2026-01-03")
            .flagging(Shop.owl, isSet: false, at: "2026-01-04")
        let local = try synced.buying(Shop.threeMonths, at: "2026-02-01", transaction: "B")
            .asserting(until: "2027-01-01", at: "2026-02-02").flagging(Shop.owl, isSet: true, at: "2026-02-03")
        func replay(_ remote: Ledger?) -> Replay {
            Replay(Facts(account: local.ledger, remote: remote), catalog: local.catalog, rules: rules)
        }
        let now = try Timestamp("2026-03-01")
        #expect(replay(synced.ledger).chains() == [days("2026-01-01", "2026-05-01")])
        // The remote held a cleared mark, not the mark that was set again here.
        #expect(!replay(synced.ledger).isOwned(Shop.owl, at: now))
        #expect(replay(local.ledger).chains() == [days("2026-01-01", "2027-01-01")])
        #expect(replay(local.ledger).isOwned(Shop.owl, at: now))
        #expect(replay(nil).chains() == replay(local.ledger).chains())
        // Before the first contact with the remote, nothing counts.
        #expect(replay(Ledger()).chains() == [])
        #expect(!replay(Ledger()).isOwned(Shop.owl, at: now))
        let lines = try #require(replay(synced.ledger).explanation(of: Shop.randomOwls, at: now)).sections[0].lines
        #expect(
            lines.filter { $0.effect == .setAside(.overruled("remoteWins")) }.map(\.fact.logicalTime).count == 2)
    }

    @Test("remoteWins covers no more than stackPurchases, over random histories and remotes")
    func remoteWinsIsLess() throws {
        let catalog = try RandomHistory.catalog()
        let rules = ConflictRules(expiry: RemoteWins())
        var less = 0
        let cases = try forAll("remoteWins covers less", cases: 3_000) { random, place in
            let history = RandomHistory(early: 1...5, late: 0...3, using: &random)
            let held = (history.early + history.late).filter { _ in random.chance(2, in: 3) }.map(\.record)
            let count = history.late.count
            let all = Replay(history.facts(late: count), catalog: catalog).timelines[Shop.random]
            let wins = Replay(history.facts(late: count, remote: Ledger(held)), catalog: catalog, rules: rules)
                .timelines[Shop.random]
            try #require(try #require(all).covers(#require(wins)), "\(history); \(place)")
            less += all?.chains != wins?.chains ? 1 : 0
        }
        #expect(less * 10 > cases)
    }

    @Test("Switching rules and back restores the earlier result, over random histories")
    func switching() throws {
        let rules: [ConflictRules] = [
            ConflictRules(), ConflictRules(expiry: LatestExpiryWins(), flags: LastWriterWins(), consumables: .shared),
            ConflictRules(expiry: RemoteWins(), flags: RemoteWins()), ConflictRules(expiry: EachOnItsOwn()),
            ConflictRules(expiry: Nothing(), flags: Nothing()),
        ]
        let catalog = try RandomHistory.catalog()
        try forAll("switching rules", cases: 500) { random, place in
            let history = RandomHistory(early: 1...6, late: 0...2, using: &random)
            let facts = history.facts(late: history.late.count)
            let now = Timestamp.near(Timestamp(milliseconds: 1_767_225_600_000), years: 2, using: &random)
            let first = rules.map { Replay(facts, catalog: catalog, rules: $0).snapshot(at: now) }
            // Replays the facts and catalogue of one replay under the other rule, then under the first again.
            var replay = Replay(facts, catalog: catalog)
            for index in [1, 4, 2, 0, 3, 1, 0] {
                replay = Replay(replay.facts, catalog: replay.catalog, rules: rules[index])
                try #require(replay.snapshot(at: now) == first[index], "\(place)")
            }
        }
    }
}
