import Testing

@testable import Entitlements

@Suite("A purchase that cannot count yet is kept")
struct SetAsideTests {
    private static func verdict(_ replay: Replay, _ transaction: TransactionID = "A") -> Replay.Verdict? {
        replay.verdict(on: TransactionReference(id: transaction))
    }

    @Test(
        "Quantities and durations out of bounds have no effect; those at the bounds count",
        arguments: [0, 10_001, .max])
    func outOfBoundsQuantity(quantity: Int64) throws {
        let story = try Story().buying(Shop.threeMonths, at: "2026-01-01", quantity: quantity, transaction: "A")
        #expect(Self.verdict(story.replay()) == .setAside(.outOfBounds))
        #expect(story.replay().chains() == [])
        #expect(story.replay().facts.purchases.map(\.quantity) == [quantity])
        let most = try Story().buying(Shop.threeMonths, at: "2026-01-01", quantity: 10_000, transaction: "A").replay()
        #expect(most.chains() == [days("2026-01-01", "4526-01-01")])
    }

    @Test(
        "Terms out of bounds have no effect",
        arguments: [
            Terms(kind: .nonRenewing(group: Shop.random, duration: .zero)),
            Terms(kind: .nonRenewing(group: Shop.random, duration: CalendarDuration(months: 1_201))),
            Terms(kind: .nonRenewing(group: Shop.random, duration: CalendarDuration(days: .max, seconds: .max))),
            Terms(
                kind: .nonRenewing(group: Shop.random, duration: CalendarDuration(months: 1)),
                bonus: CalendarDuration(days: 40_000)),
            Terms(
                kind: .autoRenewable(
                    group: Shop.random, level: 1, duration: CalendarDuration(months: .max), introductory: nil)),
            Terms(kind: .consumable(units: 0)), Terms(kind: .consumable(units: 1_000_001)),
        ])
    func outOfBoundsTerms(terms: Terms) throws {
        let story = try Story().buying("odd", at: "2026-01-01", transaction: "A", terms: terms)
        #expect(Self.verdict(story.replay()) == .setAside(.outOfBounds))
        #expect(story.replay().chains() == [])
        #expect(story.replay().balance(of: "odd", at: .latest) == 0)
        #expect(story.replay().facts.purchases.map(\.terms) == [terms])
    }

    @Test("A purchase of an unknown product counts once a later catalogue contains it")
    func unknownProduct() throws {
        let story = try Story().buying("new", at: "2026-01-01", transaction: "A")
        #expect(Self.verdict(story.replay()) == .setAside(.unknownProduct))
        let later = try Catalog(
            products: [
                Product(id: "new", kind: .nonRenewing(group: "news", duration: CalendarDuration(months: 1)))
            ], policy: Policy(bonus: CalendarDuration(days: 1)))
        #expect(story.replay(later).chains(of: "news") == [days("2026-01-01", "2026-02-02")])
    }

    @Test("A purchase of another environment counts there only")
    func otherEnvironment() throws {
        let story = try Story().buying(Shop.threeMonths, at: "2026-01-01", transaction: "A", environment: .sandbox)
            .buying(Shop.owl, at: "2026-01-01", transaction: "B", environment: .sandbox)
            .buying(Shop.coins, at: "2026-01-01", transaction: "C", environment: .sandbox)
        let now = try Timestamp("2026-02-01")
        let production = story.replay()
        #expect(production.chains() == [])
        #expect(!production.isOwned(Shop.owl, at: now))
        #expect(production.balance(of: Shop.coins, at: now) == 0)
        let sandbox = story.replay(environment: .sandbox)
        #expect(sandbox.chains() == [days("2026-01-01", "2026-04-01")])
        #expect(sandbox.isOwned(Shop.owl, at: now))
        #expect(sandbox.balance(of: Shop.coins, at: now) == 5)
        let reference = TransactionReference(environment: .sandbox, id: "A")
        #expect(production.verdict(on: reference) == .setAside(.otherEnvironment(.sandbox)))
    }

    @Test("The next boundary is the next instant at which the state may change, or nil if it will not")
    func nextBoundary() throws {
        let replay = try Story().buying(Shop.owl, at: "2026-01-01", transaction: "A")
            .buying(Shop.oneMonth, at: "2026-02-01", transaction: "B")
            .buying(Shop.threeMonths, at: "2030-01-01", quantity: 20_000, transaction: "C")
            .refunding("A", at: "2026-06-01").replay()
        var boundaries: [String] = []
        var instant = Timestamp.earliest
        while let next = replay.nextBoundary(after: instant) {
            boundaries.append("\(next)".prefix(10).description)
            instant = next
        }
        #expect(boundaries == ["2026-01-01", "2026-02-01", "2026-03-01", "2026-06-01"])
    }

    @Test("Permanent ownership has no boundary at the latest timestamp")
    func noBoundary() throws {
        let replay = try Story().buying(Shop.owl, at: "2026-01-01", transaction: "A").replay()
        #expect(replay.nextBoundary(after: try Timestamp("2026-01-01")) == nil)
    }
}
