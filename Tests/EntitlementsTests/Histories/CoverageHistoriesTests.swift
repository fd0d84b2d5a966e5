import EntitlementsTestSupport
import Testing

@testable import Entitlements

@Suite("Over random histories of all kinds of facts, what takes nothing back uncovers nothing")
struct CoverageHistoriesTests {
    /// What was covered or owned stays so, under stackPurchases and purchasedWins, when there become known: purchases
    /// of every kind (with known, unknown and unfit terms, of other environments, signed and unsigned, renewals of
    /// one product in a line among them), recordings, assertions (also earlier ones of the same date),
    /// reinstatements, acceptances that accept (also after a refusal), marks of either sort, spends, and resets of
    /// production, which there are none of. Refunds and refusals are known from the start or never.
    ///
    /// Not among them, because with them a store or the server takes back or restates: refunds, refusals, transfers,
    /// acceptances that re-date, resets of a test environment, an upgrade in a line, renewal states.
    @Test(
        "Purchases, recordings, assertions, reinstatements, acceptances, marks and spends, one by one: 200,000",
        arguments: 1...4)
    func lateFacts(quarter: Int) throws {
        let catalog = try RandomHistory.catalog()
        var (grown, owned) = (0, 0)
        try forAll("coverage of histories, quarter \(quarter)", cases: 50_000) { random, place in
            let history = RandomHistory(early: 1...3, late: 1...2, using: &random)
            var before = Replay(history.factsAsTheyAre(late: 0), catalog: catalog)
            for count in 1...history.late.count {
                let after = Replay(history.factsAsTheyAre(late: count), catalog: catalog)
                let (old, new) = (before.timelines[Shop.random], after.timelines[Shop.random])
                if old != new {
                    let covers = try #require(new).covers(#require(old))
                    try #require(covers, "\(history) after \(count) of the late facts; \(place)")
                    grown += 1
                }
                if let old = before.ownerships[Shop.owl] {
                    let new = try #require(after.ownerships[Shop.owl])
                    try #require(new.isFlagged || !old.isFlagged, "\(place)")
                    try #require(Timeline(new.holdings).covers(Timeline(old.holdings)), "\(place)")
                    owned += 1
                }
                before = after
            }
        }
        // The histories are not trivial.
        #expect(grown > 12_000)
        #expect(owned > 5_000)
    }

    @Test("Facts are the same whether they were written and read anew or not")
    func asTheyAre() throws {
        let catalog = try Shop.catalog()
        try forAll("facts as they are", cases: 2_000) { random, place in
            let history = RandomHistory(early: 1...6, late: 0...6, using: &random)
            let read = Replay(history.facts(late: history.late.count), catalog: catalog)
            let asTheyAre = Replay(history.factsAsTheyAre(late: history.late.count), catalog: catalog)
            try #require(read.timelines == asTheyAre.timelines, "\(place)")
            let now = Timestamp.near(Timestamp(milliseconds: 1_767_225_600_000), years: 2, using: &random)
            try #require(read.snapshot(at: now) == asTheyAre.snapshot(at: now), "\(place)")
        }
    }
}
