import Entitlements
import EntitlementsTestSupport
import Testing

@Suite("The server ledger")
struct ServerLedgerTests {
    private static func facts(_ id: TransactionID, signedAt: Int64, revokedAt: Int64? = nil) -> [Fact] {
        let date = Timestamp(milliseconds: signedAt)
        let stamp = Stamp(signedDate: date, logicalTime: LogicalTime.zero.next(at: date))
        return [
            .purchase(
                Purchase(
                    transaction: .store(id), product: Shop.threeMonths, terms: nil, date: Timestamp(milliseconds: 10),
                    stamp: stamp)),
            .revocation(
                Revocation(
                    transaction: .store(id), revokedAt: revokedAt.map { Timestamp(milliseconds: $0) }, stamp: stamp)),
        ]
    }

    private static let now = Timestamp(milliseconds: 1_000_000)

    @Test("Statements give the same bytes in whatever order and however often they arrive")
    func order() throws {
        let statements = [
            Self.facts("1", signedAt: 100), Self.facts("1", signedAt: 200, revokedAt: 150),
            Self.facts("1", signedAt: 300), Self.facts("2", signedAt: 100, revokedAt: 90),
        ]
        let catalog = try Shop.catalog()
        var seen: Set<[UInt8]> = []
        try forAll("orders", cases: 500) { random, place in
            var ledger = ServerLedger()
            for _ in 0..<random.int(4...12) {
                _ = ledger.add(random.pick(statements), catalog: catalog, at: Self.now)
            }
            for statement in statements.shuffled(using: &random) {
                _ = ledger.add(statement, catalog: catalog, at: Self.now)
            }
            seen.insert(LedgerDocument(ledger: ledger.ledger).encoded())
            try #require(seen.count == 1, "\(place)")
        }
        let ledger = ServerLedger(try LedgerDocument(decoding: try #require(seen.first)).ledger)
        let facts = Facts(account: Ledger(), server: ledger.ledger)
        // The first purchase was reinstated by the latest signature; the second stays revoked.
        #expect(
            facts.purchases.map { facts.revocation(of: $0)?.revokedAt } == [nil, Timestamp(milliseconds: 90)])
    }

    @Test("Adding the same statement again adds nothing")
    func idempotent() throws {
        var ledger = ServerLedger()
        let added = ledger.add(Self.facts("1", signedAt: 100), catalog: try Shop.catalog(), at: Self.now)
        #expect(added.count == 2)
        let before = ledger
        let again = ledger.add(Self.facts("1", signedAt: 100), catalog: nil, at: Self.now)
        #expect(again.isEmpty)
        #expect(ledger == before)
    }

    @Test("A purchase gets the terms of the catalogue once, and an unknown product is valued later")
    func terms() throws {
        var ledger = ServerLedger()
        _ = ledger.add(Self.facts("1", signedAt: 100), catalog: nil, at: Self.now)
        let catalog = try Shop.catalog()
        let unvalued = Facts(account: Ledger(), server: ledger.ledger)
        #expect(unvalued.purchases.map(\.terms) == [nil])
        #expect(Replay(unvalued, catalog: catalog).timelines[Shop.random]?.periods.count == 1)
        _ = ledger.add(Self.facts("1", signedAt: 200), catalog: catalog, at: Self.now)
        let sold = Facts(account: Ledger(), server: ledger.ledger).purchases.map(\.terms)
        #expect(sold == [catalog.terms(of: Shop.threeMonths)])
        let dearer = try Shop.catalog(bonus: CalendarDuration(days: 9))
        _ = ledger.add(Self.facts("1", signedAt: 300), catalog: dearer, at: Self.now)
        #expect(Facts(account: Ledger(), server: ledger.ledger).purchases.map(\.terms) == sold)
    }

    @Test(
        "A verified purchase ends an earlier decision about it",
        arguments: [Acceptance.Decision.refused("no"), .transferred(to: ""), .countsAsOf(Timestamp(milliseconds: 5))])
    func endsDecisions(decision: Acceptance.Decision) throws {
        var ledger = ServerLedger()
        let transaction = TransactionReference.store("1")
        ledger.decide(decision, about: [transaction], at: Self.now)
        _ = ledger.add(Self.facts("1", signedAt: 100), catalog: try Shop.catalog(), at: Self.now)
        #expect(ledger.decision(about: transaction) == .accepted)
        // Also if the purchase itself is not new.
        ledger.decide(decision, about: [transaction], at: Self.now)
        let again = ledger.add(Self.facts("1", signedAt: 100), catalog: nil, at: Self.now)
        #expect(again.isEmpty)
        #expect(ledger.decision(about: transaction) == .accepted)
        let facts = Facts(account: Ledger(), server: ledger.ledger)
        #expect(facts.purchases.map(\.date) == [Timestamp(milliseconds: 10)])
    }

    @Test("Units become available at the date of the purchase, so a later signature gives spent units no second life")
    func units() throws {
        let stamp = { (date: Int64) in
            Stamp(
                signedDate: Timestamp(milliseconds: date),
                logicalTime: LogicalTime.zero.next(at: Timestamp(milliseconds: date)))
        }
        var ledger = ServerLedger()
        let story = try Story().spending(5, id: "s", at: "2026-02-01")
        var purchase = Purchase(
            transaction: .store("1"), product: Shop.coins, terms: nil, date: try Timestamp("2026-01-01"),
            stamp: stamp(try Timestamp("2026-01-01").milliseconds))
        for signedAt in ["2026-01-01", "2026-03-01"] {
            purchase.stamp = stamp(try Timestamp(signedAt).milliseconds)
            _ = ledger.add([.purchase(purchase)], catalog: try Shop.catalog(), at: Self.now)
            let replay = Replay(
                Facts(account: story.ledger, server: ledger.ledger),
                catalog: try Shop.catalog(rules: ConflictRules(consumables: .shared)))
            #expect(replay.balance(of: Shop.coins, at: try Timestamp("2026-04-01")) == 0)
        }
    }

    @Test("A policy is stated once, can be changed back, and a line lists its facts")
    func policyAndLine() throws {
        var ledger = ServerLedger()
        #expect(ledger.policy == .trusted)
        var changes = [ledger.set(.verified, at: Self.now)]
        #expect(ledger.policy == .verified)
        changes.append(ledger.set(.verified, at: Self.now))
        changes.append(ledger.set(.trusted, at: Timestamp(milliseconds: 0)))
        #expect(ledger.policy == .trusted)
        #expect(changes == [true, false, true])
        _ = ledger.add(
            Self.facts("1", signedAt: 100) + Self.facts("2", signedAt: 100), catalog: nil, at: Self.now)
        #expect(ledger.transactions(ofLine: .store("1")) == [.store("1")])
        #expect(ledger.facts(ofLine: .store("2")).count == 2)
        #expect(ledger.facts(ofLine: .store("3")).isEmpty)
    }
}
