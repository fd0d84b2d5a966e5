import Entitlements
import EntitlementsTestSupport
import Testing

@Suite("An asserted expiry adds the missing time up to its date, once")
struct AssertionTests {
    @Test("An expiry imported repeatedly, by any device and in any order, counts as first stated")
    func importedAgain() throws {
        let first = try Story(replica: 1).asserting(until: "2026-05-01", at: "2026-01-10")
        let again = try Story(replica: 2).asserting(until: "2026-05-01", at: "2026-02-01")
            .asserting(until: "2026-05-01", at: "2026-03-01")
        let bought = try Story(replica: 3).buying(Shop.threeMonths, at: "2026-02-15", transaction: "A")
            .asserting(until: "2026-05-01", at: "2026-02-16")
        for order in orders(of: [first, again, bought, first]) {
            let all = order.dropFirst().reduce(order[0]) { $0.synced(with: $1) }
            #expect(all.replay().chains() == [days("2026-01-10", "2026-08-01")])
            #expect(all.replay().facts.assertions.count == 1)
        }
    }

    @Test("An expiry from another source or with another date adds only the later time")
    func otherSources() throws {
        let story = try Story().asserting(until: "2026-05-01", at: "2026-01-10")
            .asserting(until: "2026-05-01", source: "promotion", at: "2026-01-11")
            .asserting(until: "2026-04-01", at: "2026-01-12").asserting(until: "2026-05-03", at: "2026-01-13")
        #expect(story.replay().chains() == [days("2026-01-10", "2026-05-03")])
        #expect(story.replay().facts.assertions.count == 4)
    }

    @Test("A purchase after migration is appended in full, and its refund keeps the migrated time")
    func nextPurchase() throws {
        let story = try Story().asserting(until: "2026-05-01", at: "2026-01-10")
            .buying(Shop.threeMonths, at: "2026-02-01", transaction: "A")
        #expect(story.replay().chains() == [days("2026-01-10", "2026-08-01")])
        #expect(
            try story.refunding("A", at: "2026-03-01").replay().chains() == [days("2026-01-10", "2026-05-01")])
    }

    @Test("An expiry that had passed when it was stated gives no time and is explained")
    func expired() throws {
        let replay = try Story().asserting(until: "2025-12-01", at: "2026-01-10").replay()
        #expect(replay.chains() == [])
        let now = try Timestamp("2026-01-11")
        #expect(replay.access(to: Shop.randomOwls, at: now) == .denied(.notPurchased))
        let line = try #require(replay.explanation(of: Shop.randomOwls, at: now)?.sections.first?.lines.first)
        #expect(line.effect == .setAside(.covered))
    }

    @Test("An expiry stated at the date of a purchase is ordered after it and adds no duplicate time")
    func tie() throws {
        let story = try Story().asserting(until: "2026-03-01", at: "2026-01-01")
            .buying(Shop.threeMonths, at: "2026-01-01", transaction: "A")
        #expect(story.replay().chains() == [days("2026-01-01", "2026-04-01")])
        let earlier = try Story().asserting(until: "2026-03-01", at: "2025-12-31T23:59:59.999Z")
            .buying(Shop.threeMonths, at: "2026-01-01", transaction: "A")
        #expect(
            earlier.replay().chains() == ["2025-12-31T23:59:59.999Z – 2026-06-01T00:00:00.000Z"])
    }

    @Test("In an auto-renewable group an asserted expiry overlaps; neither is appended to the other")
    func besideRenewals() throws {
        let story = try Story()
            .buyingFromStore(Shop.weekly, at: "2026-01-10", transaction: "W", expires: "2026-01-17")
            .asserting(until: "2026-01-15", group: Shop.selfies, at: "2026-01-12")
        #expect(story.replay().chains(of: Shop.selfies) == [days("2026-01-10", "2026-01-17")])
        let longer = try story.asserting(until: "2026-02-01", group: Shop.selfies, at: "2026-01-20")
        #expect(
            longer.replay().chains(of: Shop.selfies)
                == [days("2026-01-10", "2026-01-17"), days("2026-01-20", "2026-02-01")])
        let snapshot = longer.replay().snapshot(at: try Timestamp("2026-01-21"))[group: Shop.selfies]
        #expect(snapshot?.level == nil)
        #expect(snapshot?.product == nil)
    }

    @Test("A server that echoes the expiries of two devices adds no time in 50 rounds")
    func echoes() throws {
        var (echoed, bought) = (0, 0)
        try forAll("echoes", cases: 60) { random, place in
            var devices = [try Story(replica: 1), try Story(replica: 2)]
            var silent = Ledger()
            var now = try Timestamp("2026-01-01")
            for round in 0..<50 {
                now = now.moved(random.int(0...40 * 86_400_000))
                let (speaker, listener) = (Int(random.int(0...1)), Int(random.int(0...1)))
                switch random.int(0...3) {
                case 0:
                    let buyer = try devices[speaker].buying(
                        random.pick([Shop.oneMonth, Shop.threeMonths]), at: "\(now)",
                        quantity: random.pick([1, 1, 2]), transaction: TransactionID("\(round)"))
                    devices[speaker] = buyer
                    silent = silent.joined(with: Ledger(buyer.ledger.records.filter { !$0.isAssertion }))
                case 1: devices[listener] = devices[listener].synced(with: devices[speaker])
                default:
                    guard let end = devices[speaker].replay().knownEnd(of: Shop.random) else { continue }
                    devices[listener] = try devices[listener].asserting(until: end, at: "\(now)")
                    echoed += 1
                }
            }
            let all = devices[0].synced(with: devices[1]).replay()
            let expected = Replay(Facts(account: silent), catalog: all.catalog)
            try #require(all.chains() == expected.chains(), "\(place)")
            bought += expected.chains().isEmpty ? 0 : 1
        }
        // 60 and some 1,300 as a rule.
        #expect(bought > 40 && echoed > 600)
    }

    @Test("With refunds, echoes never give more time than without any refund")
    func echoesAndRefunds() throws {
        try forAll("echoes and refunds", cases: 60) { random, place in
            var story = try Story()
            var now = try Timestamp("2026-01-01")
            for round in 0..<50 {
                now = now.moved(random.int(0...40 * 86_400_000))
                switch random.int(0...3) {
                case 0:
                    story = try story.buying(Shop.oneMonth, at: "\(now)", transaction: TransactionID("\(round)"))
                case 1:
                    story = try story.refunding(TransactionID("\(random.int(0...Int64(round)))"), at: "\(now)")
                default:
                    guard let end = story.replay().knownEnd(of: Shop.random) else { continue }
                    story = try story.asserting(until: end, at: "\(now)")
                }
            }
            let bought = story.ledger.records.filter { if case .purchase = Fact($0) { true } else { false } }
            let most = Replay(Facts(account: Ledger(bought)), catalog: story.catalog).timelines[Shop.random]
            let timeline = try #require(story.replay().timelines[Shop.random])
            try #require(try #require(most).covers(timeline), "\(place)")
        }
    }

    @Test("A recorded echo outlasts a later refund, so recording drops expiries that are already covered")
    func keptEcho() throws {
        let story = try Story().buying(Shop.threeMonths, at: "2026-01-01", transaction: "A")
            .asserting(until: "2026-04-01", at: "2026-02-01").refunding("A", at: "2026-03-01")
        #expect(story.replay().chains() == [days("2026-01-01", "2026-04-01")])
    }
}

extension Record {
    fileprivate var isAssertion: Bool { if case .assertion = Fact(self) { true } else { false } }
}
