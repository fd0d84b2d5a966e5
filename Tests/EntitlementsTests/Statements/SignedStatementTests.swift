import Entitlements
import EntitlementsTestSupport
import Testing

@Suite("Refunds count in any order of arrival, and unsigned statements never override signed ones")
struct SignedStatementTests {
    /// Returns the ledgers that result from joining the records of `story` in every order.
    private static func replays(_ story: Story) -> [Replay] {
        orders(of: story.ledger.records).map { records in
            var ledger = Ledger()
            for record in records { ledger = ledger.joined(with: Ledger([record])) }
            return Replay(Facts(account: ledger), catalog: story.catalog)
        }
    }

    private static func bought() throws -> Story {
        try Story().buyingFromStore(Shop.threeMonths, at: "2026-01-01", transaction: "A")
            .buyingFromStore(Shop.threeMonths, at: "2026-02-01", transaction: "B")
    }

    private static let whole = [days("2026-01-01", "2026-07-01")]
    private static let refunded = [days("2026-01-01", "2026-06-01")]

    @Test("A on 1 January and B on 1 February, A refunded on 1 March: 1 January to 1 June in any order of arrival")
    func middleOfAStack() throws {
        let story = try Self.bought().refunding(.store("A"), at: "2026-03-01", signedAt: "2026-03-01")
        let replays = Self.replays(story)
        #expect(replays.count == 6)
        #expect(replays.allSatisfy { $0.chains() == Self.refunded })
    }

    @Test("A reversed refund restores the time in any order of arrival")
    func reversed() throws {
        let story = try Self.bought().refunding(.store("A"), at: "2026-03-01", signedAt: "2026-03-01")
        let reversed = try story.reinstating(.store("A"), at: "2026-03-10", signedAt: "2026-03-10")
        #expect(reversed.replay().chains() == Self.whole)
        // A replica that receives the refund after its reversal keeps the reversal.
        #expect(reversed.synced(with: story).replay().chains() == Self.whole)
        #expect(story.synced(with: reversed).replay().chains() == Self.whole)
        let again = try reversed.refunding(.store("A"), at: "2026-03-20", signedAt: "2026-03-20")
        #expect(again.replay().chains() == [days("2026-01-01", "2026-06-20")])
        #expect(Self.replays(again).allSatisfy { $0.chains() == [days("2026-01-01", "2026-06-20")] })
    }

    @Test("A later unsigned reversal never overrides a signed refund, regardless of dates and logical times")
    func unsignedReversal() throws {
        let refund = try Self.bought().refunding(.store("A"), at: "2026-03-01", signedAt: "2026-03-01")
        for date in ["2020-01-01", "2026-03-02", "9999-01-01"] {
            let tried = try refund.reinstating(.store("A"), at: date)
            #expect(tried.replay().chains() == Self.refunded)
            // The same applies to a reversal made before the refund was known, or by a clock that runs ahead.
            let elsewhere = try Self.bought().reinstating(.store("A"), at: date)
            #expect(refund.synced(with: elsewhere).replay().chains() == Self.refunded)
            #expect(elsewhere.synced(with: refund).replay().chains() == Self.refunded)
        }
    }

    @Test("An unsigned refund has no effect on a signed purchase and is explained")
    func unsignedRefund() throws {
        let story = try Self.bought().refunding(.store("A"), at: "9000-03-01")
        for replay in Self.replays(story) {
            #expect(replay.chains() == Self.whole)
            let refund = try #require(replay.facts.revocations[.store("A")])
            #expect(try Self.effects(of: .revocation(refund), in: replay) == [.setAside(.unsigned)])
        }
        let signed = try story.refunding(.store("A"), at: "2026-03-01", signedAt: "2026-03-01")
        #expect(signed.replay().chains() == Self.refunded)
    }

    @Test("An unsigned refund counts until the signed purchase arrives")
    func signatureArrivesLater() throws {
        let reported = try Story(replica: 2).stating(at: "2026-01-01") { date, time in
            .purchase(
                Purchase(
                    transaction: .store("A"), product: Shop.threeMonths,
                    terms: Terms(kind: .nonRenewing(group: Shop.random, duration: CalendarDuration(months: 3))),
                    date: date, stamp: Stamp(logicalTime: time)))
        }.refunding(.store("A"), at: "2026-02-01")
        #expect(reported.replay().chains() == [days("2026-01-01", "2026-02-01")])
        let signed = try Story().buyingFromStore(Shop.threeMonths, at: "2026-01-01", transaction: "A")
        for both in [reported.synced(with: signed), signed.synced(with: reported)] {
            #expect(both.replay().chains() == [days("2026-01-01", "2026-04-01")])
            let refund = try #require(both.replay().facts.revocations[.store("A")])
            #expect(try Self.effects(of: .revocation(refund), in: both.replay()) == [.setAside(.unsigned)])
        }
    }

    @Test("A device that was offline for a year cannot undo a refund with its own records")
    func offlineForAYear() throws {
        let start = try Self.bought()
        let server = try start.refunding(.store("A"), at: "2026-03-01", signedAt: "2026-03-01")
        // It records the transaction repeatedly, restores a backup, and its clock is ten years ahead.
        var device = try Story(replica: 2, knowing: start.ledger)
        for date in ["2026-06-01", "2027-01-01", "2037-01-01"] {
            device = try device.buying(Shop.threeMonths, at: date, transaction: "A")
                .buyingFromStore(Shop.threeMonths, at: "2026-01-01", transaction: "A", signedAt: date)
                .reinstating(.store("A"), at: date).stating(at: date) { date, time in
                    .recording(
                        Recording(
                            transaction: .store("A"), replica: device.replica, recordedAt: date, knownEnd: nil,
                            logicalTime: time))
                }
        }
        let both = device.synced(with: server)
        let ofA = try #require(both.replay().timelines[Shop.random]).periods.filter { $0.transaction == .store("A") }
        #expect(ofA.map { "\($0.end)" } == ["2026-03-01T00:00:00.000Z"])
        // The same applies to units and ownership.
        let owl = try Story().buyingFromStore(Shop.owl, at: "2026-01-01", transaction: "O")
        let taken = try owl.refunding(.store("O"), at: "2026-02-01", signedAt: "2026-02-01")
        let late = try Story(replica: 2, knowing: owl.ledger).reinstating(.store("O"), at: "2027-01-01")
            .buyingFromStore(Shop.owl, at: "2026-01-01", transaction: "O", signedAt: "2027-01-01")
        #expect(late.replay().isOwned(Shop.owl, at: try Timestamp("2027-01-01")))
        #expect(!late.synced(with: taken).replay().isOwned(Shop.owl, at: try Timestamp("2027-01-01")))
    }

    private static func effects(of fact: Fact, in replay: Replay) throws -> [Explanation.Effect] {
        try #require(replay.explanation(of: Shop.randomOwls, at: Timestamp("9999-01-01"))).sections
            .flatMap(\.lines).filter { $0.fact == fact }.map(\.effect)
    }
}

/// Returns all permutations of a few elements.
func orders<Element>(of elements: [Element]) -> [[Element]] {
    guard !elements.isEmpty else { return [[]] }
    return elements.indices.flatMap { index -> [[Element]] in
        var rest = elements
        let first = rest.remove(at: index)
        return orders(of: rest).map { [first] + $0 }
    }
}
