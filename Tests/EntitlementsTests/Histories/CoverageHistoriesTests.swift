import EntitlementsTestSupport
import Testing

@testable import Entitlements

@Suite("Over random histories, facts that revoke nothing never uncover an instant")
struct CoverageHistoriesTests {
    /// Under stackPurchases and purchasedWins, covered and owned instants stay so when these facts become known:
    /// purchases of every kind (with known, unknown and invalid terms, of other environments, signed and unsigned,
    /// including renewals of one product in a line), recordings, assertions (including earlier ones of the same date),
    /// reinstatements, acceptances that accept (including after a refusal), marks of either kind, spends, and resets
    /// of production, which have no effect. Refunds and refusals are known from the start or never.
    ///
    /// Excluded are facts by which a store or the server revokes or restates: refunds, refusals, transfers,
    /// acceptances that redate, resets of a test environment, an upgrade in a line, and renewal states.
    @Test(
        "Purchases, recordings, assertions, reinstatements, acceptances, marks and spends, one by one",
        arguments: 1...4)
    func lateFacts(quarter: Int) throws {
        let catalog = try RandomHistory.catalog()
        var (grown, owned) = (0, 0)
        let cases = try forAll("coverage of histories, quarter \(quarter)", cases: 50_000) { random, place in
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
        #expect(grown * 25 > cases * 6)
        #expect(owned * 10 > cases)
    }

    @Test("Facts are equal with and without encoding and decoding")
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
