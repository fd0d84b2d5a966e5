import EntitlementsTestSupport
import Testing

@testable import Entitlements

@Suite("Units are replayed in logical order, and a balance is never negative")
struct BalanceTests {
    private static let now = "2026-06-01"

    private static func shared() throws -> Catalog { try Shop.catalog(rules: ConflictRules(consumables: .shared)) }

    private static func units(_ replay: Replay, at date: String = now) throws -> Int64 {
        replay.balance(of: Shop.coins, at: try Timestamp(date))
    }

    @Test("The balance is bought units minus spent units")
    func sums() throws {
        let story = try Story().buying(Shop.coins, at: "2026-01-01", quantity: 3, transaction: "A")
            .spending(4, id: "s1", at: "2026-01-02")
        #expect(try Self.units(story.replay()) == 11)
        #expect(try story.replay().snapshot(at: Timestamp(Self.now))[balance: Shop.coins] == 11)
    }

    @Test("One spend id spends once, however often it arrives")
    func idempotentSpends() throws {
        let story = try Story().buying(Shop.coins, at: "2026-01-01", transaction: "A")
            .spending(1, id: "s1", at: "2026-01-02").spending(1, id: "s1", at: "2026-01-03")
        #expect(try Self.units(story.replay()) == 4)
    }

    @Test("Units that two offline devices overspent are written off once, and the next purchase is whole")
    func overspend() throws {
        let start = try Story(Self.shared(), replica: 1).buying(Shop.coins, at: "2026-01-01", transaction: "A")
        let phone = try start.spending(4, id: "phone", at: "2026-02-01")
        let tablet = try Story(Self.shared(), replica: 2, knowing: start.ledger).spending(
            4, id: "tablet", at: "2026-02-02")
        let both = phone.synced(with: tablet)
        #expect(try Self.units(both.replay()) == 0)
        let steps = both.replay().balanceSteps(of: Shop.coins, at: try Timestamp(Self.now))
        #expect(steps.map(\.balance) == [5, 1, 0])
        #expect(steps.map(\.writtenOff) == [0, 0, 3])
        let next = try both.buying(Shop.coins, at: "2026-03-01", transaction: "B")
        #expect(try Self.units(next.replay()) == 5)
    }

    @Test("Overspent units are written off once, even with a third device or a restored backup")
    func overspendIsWrittenOffOnce() throws {
        let start = try Story(Self.shared(), replica: 1).buying(Shop.coins, at: "2026-01-01", transaction: "A")
        let phone = try start.spending(4, id: "phone", at: "2026-02-01")
        let tablet = try Story(Self.shared(), replica: 2, knowing: start.ledger).spending(
            4, id: "tablet", at: "2026-02-02")
        // The phone restores its backup of January and repeats the same spend under the same key.
        let putBack = try Story(Self.shared(), replica: 1, knowing: start.ledger)
            .spending(4, id: "phone", at: "2026-02-03")
        for order in orders(of: [phone, tablet, putBack, start]) {
            let all = order.dropFirst().reduce(order[0]) { $0.synced(with: $1) }
            #expect(try Self.units(all.replay()) == 0)
            let steps = all.replay().balanceSteps(of: Shop.coins, at: try Timestamp(Self.now))
            #expect(steps.map(\.writtenOff).reduce(0, +) == 3)
            let next = try all.buying(Shop.coins, at: "2026-03-01", transaction: "B")
            #expect(try Self.units(next.replay()) == 5)
            #expect(try Self.units(next.synced(with: phone).synced(with: tablet).replay()) == 5)
        }
    }

    @Test("A running balance is never negative, and never exceeds the bought units")
    func bounds() throws {
        let catalog = try Self.shared()
        try forAll("balances", cases: 2_000) { random, place in
            var story = try Story(catalog)
            var bought: Int64 = 0
            for number in 0..<random.int(0...8) {
                let date = "2026-0\(random.int(1...5))-1\(random.int(0...9))"
                if random.chance(1, in: 2) {
                    let quantity = random.int(1...3)
                    bought += 5 * quantity
                    story = try story.buying(
                        Shop.coins, at: date, quantity: quantity, transaction: TransactionID("\(number)"))
                } else {
                    story = try story.spending(random.pick([1, 3, .max]), id: SpendID("\(number)"), at: date)
                }
            }
            let steps = story.replay().balanceSteps(of: Shop.coins, at: .latest)
            try #require(steps.allSatisfy { (0...bought).contains($0.balance) }, "\(place)")
            var model: Int64 = 0
            for step in steps {
                if case .grant = step.cause { model += step.units } else { model -= min(model, step.units) }
                try #require(step.balance == model, "\(place)")
            }
        }
    }

    @Test("deviceLocal counts the device's ledger; shared counts the account's ledger")
    func scopes() throws {
        let here = try Story(replica: 1).buying(Shop.coins, at: "2026-01-01", transaction: "A")
            .spending(1, id: "s1", at: "2026-01-02").ledger
        let elsewhere = try Story(replica: 2).buying(Shop.coins, at: "2026-01-01", quantity: 2, transaction: "B")
            .spending(2, id: "s2", at: "2026-01-02").ledger
        let facts = Facts(account: elsewhere, device: here)
        #expect(try Self.units(Replay(facts, catalog: Shop.catalog())) == 4)
        #expect(try Self.units(Replay(facts, catalog: Self.shared())) == 12)
        let local = Replay(facts, catalog: try Shop.catalog())
        #expect(local.verdict(on: TransactionReference(id: "B")) == .setAside(.otherDevice))
        #expect(try Self.units(Replay(Facts(account: here.joined(with: elsewhere)), catalog: Shop.catalog())) == 0)
    }

    @Test("Recording a purchase again on another device does not move its units behind spends")
    func recordingAgainElsewhere() throws {
        let phone = try Story(Self.shared(), replica: 1).buying(Shop.coins, at: "2026-01-01", transaction: "A")
            .spending(5, id: "s1", at: "2026-01-02")
        let tablet = try Story(Self.shared(), replica: 2).buying(Shop.coins, at: "2026-02-01", transaction: "A")
        #expect(try Self.units(phone.synced(with: tablet).replay()) == 0)
        #expect(try Self.units(tablet.synced(with: phone).replay()) == 0)
    }

    @Test("A device that restores a backup and records its purchase again gains no units")
    func recordingAgainAfterABackup() throws {
        let bought = try Story(Self.shared()).buying(Shop.coins, at: "2026-01-01", transaction: "A")
        let spent = try bought.spending(5, id: "s1", at: "2026-01-02")
        let putBack = try Story(Self.shared()).buying(Shop.coins, at: "2026-02-01", transaction: "A")
        #expect(try Self.units(spent.synced(with: putBack).replay()) == 0)
        #expect(try Self.units(spent.buying(Shop.coins, at: "2026-02-01", transaction: "A").replay()) == 0)
    }

    @Test("Units count from the purchase's date and up to its refund")
    func dates() throws {
        let replay = try Story().buying(Shop.coins, at: "2026-02-01", transaction: "A")
            .refunding("A", at: "2026-03-01").replay()
        #expect(try Self.units(replay, at: "2026-01-31T23:59:59.999Z") == 0)
        #expect(try Self.units(replay, at: "2026-02-01") == 5)
        #expect(try Self.units(replay, at: "2026-02-28T23:59:59.999Z") == 5)
        #expect(try Self.units(replay, at: "2026-03-01") == 0)
    }

    @Test("A refund of spent units leaves a balance of 0, and the next purchase is whole")
    func refundOfSpentUnits() throws {
        let story = try Story().buying(Shop.coins, at: "2026-01-01", transaction: "A")
            .spending(3, id: "s1", at: "2026-01-02").refunding("A", at: "2026-01-03")
        #expect(try Self.units(story.replay()) == 0)
        #expect(try Self.units(story.buying(Shop.coins, at: "2026-01-04", transaction: "B").replay()) == 5)
    }

    @Test("Consumables are listed when the catalogue or a purchase names them")
    func consumables() throws {
        let story = try Story().buying(
            "gems", at: "2026-01-01", transaction: "A", terms: Terms(kind: .consumable(units: 2)))
        #expect(story.replay().consumables == [Shop.coins, "gems"])
        #expect(story.replay().balance(of: "gems", at: .latest) == 2)
        #expect(story.replay().balance(of: "unheard of", at: .latest) == 0)
    }
}
