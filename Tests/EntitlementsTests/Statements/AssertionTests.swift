import Entitlements
import EntitlementsTestSupport
import Testing

@Suite("An expiry from a system that keeps no purchases adds what is missing up to its date, once")
struct AssertionTests {
    @Test("Imported any number of times, by any device, in any order, it counts as said first")
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

    @Test("Said by another source, or until another date, it adds only what is later")
    func otherSources() throws {
        let story = try Story().asserting(until: "2026-05-01", at: "2026-01-10")
            .asserting(until: "2026-05-01", source: "promotion", at: "2026-01-11")
            .asserting(until: "2026-04-01", at: "2026-01-12").asserting(until: "2026-05-03", at: "2026-01-13")
        #expect(story.replay().chains() == [days("2026-01-10", "2026-05-03")])
        #expect(story.replay().facts.assertions.count == 4)
    }

    @Test("What a migrated user buys next is appended in full, and a refund of it leaves what was migrated")
    func nextPurchase() throws {
        let story = try Story().asserting(until: "2026-05-01", at: "2026-01-10")
            .buying(Shop.threeMonths, at: "2026-02-01", transaction: "A")
        #expect(story.replay().chains() == [days("2026-01-10", "2026-08-01")])
        #expect(
            try story.refunding("A", at: "2026-03-01").replay().chains() == [days("2026-01-10", "2026-05-01")])
    }

    @Test("One that was over when it was said gives nothing, and says so")
    func expired() throws {
        let replay = try Story().asserting(until: "2025-12-01", at: "2026-01-10").replay()
        #expect(replay.chains() == [])
        let now = try Timestamp("2026-01-11")
        #expect(replay.access(to: Shop.randomOwls, at: now) == .denied(.notPurchased))
        let line = try #require(replay.explanation(of: Shop.randomOwls, at: now)?.sections.first?.lines.first)
        #expect(line.effect == .setAside(.covered))
    }

    @Test("Said at the date of a purchase it stands after it: what was bought is no echo on top")
    func tie() throws {
        let story = try Story().asserting(until: "2026-03-01", at: "2026-01-01")
            .buying(Shop.threeMonths, at: "2026-01-01", transaction: "A")
        #expect(story.replay().chains() == [days("2026-01-01", "2026-04-01")])
        let earlier = try Story().asserting(until: "2026-03-01", at: "2025-12-31T23:59:59.999Z")
            .buying(Shop.threeMonths, at: "2026-01-01", transaction: "A")
        #expect(
            earlier.replay().chains() == ["2025-12-31T23:59:59.999Z – 2026-06-01T00:00:00.000Z"])
    }

    @Test("In a group that a store renews it stands beside: nothing is appended to either")
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

    @Test("A server that echoes each expiry of two devices to either adds nothing in 50 rounds")
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

    @Test("With refunds too, echoes never give more than if nothing had been refunded")
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

    @Test("An echo that was kept stands against a later refund: recording keeps none of what is covered anyway")
    func keptEcho() throws {
        let story = try Story().buying(Shop.threeMonths, at: "2026-01-01", transaction: "A")
            .asserting(until: "2026-04-01", at: "2026-02-01").refunding("A", at: "2026-03-01")
        #expect(story.replay().chains() == [days("2026-01-01", "2026-04-01")])
    }
}

extension Record {
    fileprivate var isAssertion: Bool { if case .assertion = Fact(self) { true } else { false } }
}
