import Entitlements
import EntitlementsTestSupport
import Testing

@Suite("A preview equals the end after the actual purchase")
struct PreviewTests {
    @Test("A preview equals the result of buying, over random histories and both rules")
    func agreesWithBuying() throws {
        for rule in ConflictRules.expiryRules {
            let catalog = try Shop.catalog(bonus: CalendarDuration(days: 1), rules: ConflictRules(expiry: rule))
            try forAll("previews under \(rule.name)", cases: 1_000) { random, place in
                var story = try Story(catalog)
                for number in 0..<random.int(0...4) {
                    story = try story.buying(
                        random.pick([Shop.oneMonth, Shop.threeMonths]),
                        at: "2026-0\(random.int(1...9))-\(random.int(10...28))T\(random.int(10...23)):00:00Z",
                        quantity: random.int(1...2), transaction: TransactionID("\(number)"))
                }
                let now = Timestamp.near(try Timestamp("2026-01-01"), years: 1, using: &random)
                let quantity = random.int(1...3)
                let preview = story.replay().end(afterBuying: Shop.oneMonth, quantity: quantity, at: now)
                let bought = try story.buying(Shop.oneMonth, at: "\(now)", quantity: quantity, transaction: "new")
                let end = bought.replay().snapshot(at: now)[group: Shop.random]?.expires
                try #require(preview == end, "\(place)")
                try #require(preview != nil, "\(place)")
            }
        }
    }

    @Test("The preview of an early renewal is the appended end; that of a new purchase is its own end")
    func ends() throws {
        let story = try Story().buying(Shop.threeMonths, at: "2026-01-01", transaction: "A")
        let (early, late) = (try Timestamp("2026-03-01"), try Timestamp("2026-05-01"))
        #expect(story.replay().end(afterBuying: Shop.oneMonth, at: early) == (try Timestamp("2026-05-01")))
        #expect(story.replay().end(afterBuying: Shop.oneMonth, at: late) == (try Timestamp("2026-06-01")))
    }

    @Test("Only known non-renewing subscriptions in valid quantities have a preview")
    func nothingElse() throws {
        let replay = try Story().replay()
        let now = try Timestamp("2026-01-01")
        for product in [Shop.owl, Shop.coins, Shop.weekly, "unknown"] {
            #expect(replay.end(afterBuying: product, at: now) == nil)
        }
        #expect(replay.end(afterBuying: Shop.oneMonth, quantity: 0, at: now) == nil)
        #expect(replay.end(afterBuying: Shop.oneMonth, quantity: 10_001, at: now) == nil)
        #expect(replay.end(afterBuying: Shop.oneMonth, quantity: 10_000, at: now) == (try Timestamp("2859-05-01")))
    }

    @Test("A preview changes nothing")
    func pure() throws {
        let replay = try Story().buying(Shop.oneMonth, at: "2026-01-01", transaction: "A").replay()
        let before = replay.snapshot(at: try Timestamp("2026-01-15"))
        _ = replay.end(afterBuying: Shop.threeMonths, at: try Timestamp("2026-01-15"))
        #expect(replay.snapshot(at: try Timestamp("2026-01-15")) == before)
    }
}
