import Entitlements
import Testing

@Suite("Facts of test environments count only on request, and a reset discards them")
struct EnvironmentTests {
    private static let now = "2026-02-01"

    private static func tested() throws -> Story {
        try Story()
            .buying(Shop.threeMonths, at: "2026-01-01", transaction: "A", environment: .sandbox)
            .buying(Shop.coins, at: "2026-01-01", transaction: "C", environment: .sandbox)
            .spending(2, in: .sandbox, at: "2026-01-02").flagging(Shop.owl, in: .sandbox, at: "2026-01-03")
            .asserting(until: Timestamp("2026-05-01"), at: "2026-01-10", environment: .sandbox)
            .buyingFromStore(
                Shop.weekly, at: "2026-01-28", transaction: "W", expires: "2026-02-04", environment: .sandbox
            )
            .stating(
                renewalOf: "W", at: "2026-01-29", graceEnd: "2026-02-10", isInBillingRetry: true,
                environment: .sandbox)
    }

    @Test("Purchases, marks, spends, assertions and renewal states of the sandbox count only in the sandbox")
    func sandbox() throws {
        let story = try Self.tested()
        let now = try Timestamp(Self.now)
        #expect(story.replay().snapshot(at: now) == (try Story().replay().snapshot(at: now)))
        let sandbox = story.replay(environment: .sandbox)
        #expect(sandbox.chains() == [days("2026-01-01", "2026-05-01")])
        #expect(sandbox.chains(of: Shop.selfies) == [days("2026-01-28", "2026-02-10")])
        #expect(sandbox.isOwned(Shop.owl, at: now))
        #expect(sandbox.balance(of: Shop.coins, at: now) == 3)
        #expect(sandbox.snapshot(at: now)[group: Shop.selfies]?.renewal?.isInBillingRetry == true)
        let explained = try #require(story.replay().explanation(of: Shop.randomOwls, at: now))
        #expect(
            explained.sections.flatMap(\.lines).allSatisfy { $0.effect == .setAside(.otherEnvironment(.sandbox)) })
        #expect(explained.sections.map(\.lines.count) == [2, 2])
    }

    @Test("A reset discards earlier facts; later facts count")
    func reset() throws {
        let story = try Self.tested().resetting(at: "2026-02-01")
        let now = try Timestamp("2026-02-02")
        let empty = story.replay(environment: .sandbox).snapshot(at: now)
        #expect(empty == (try Story().replay(environment: .sandbox).snapshot(at: now)))
        let explained = try #require(story.replay(environment: .sandbox).explanation(of: Shop.randomOwls, at: now))
        #expect(explained.sections.flatMap(\.lines).allSatisfy { $0.effect == .setAside(.precedesReset) })
        let again = try story.buying(Shop.oneMonth, at: "2026-02-02", transaction: "N", environment: .sandbox)
            .flagging(Shop.owl, in: .sandbox, at: "2026-02-02")
        #expect(again.replay(environment: .sandbox).chains() == [days("2026-02-02", "2026-03-02")])
        #expect(again.replay(environment: .sandbox).isOwned(Shop.owl, at: now))
        // A device that missed the reset syncs its old facts, and they still do not count.
        #expect(again.synced(with: try Self.tested()).replay(environment: .sandbox).chains() == again.sandboxChains)
    }

    @Test("A refund and a renewal state from before a reset do not affect later purchases")
    func statementsBehind() throws {
        let story = try Story().refunding(
            TransactionReference(environment: .sandbox, id: "N"), at: "2026-01-20"
        ).stating(renewalOf: "W", at: "2026-01-20", graceEnd: "2026-03-01", environment: .sandbox)
            .resetting(at: "2026-02-01")
            .buying(Shop.oneMonth, at: "2026-02-02", transaction: "N", environment: .sandbox)
            .buyingFromStore(
                Shop.weekly, at: "2026-01-10", transaction: "V", original: "W", expires: "2026-02-10",
                environment: .sandbox)
        #expect(story.sandboxChains == [days("2026-02-02", "2026-03-02")])
        let replay = story.replay(environment: .sandbox)
        #expect(replay.chains(of: Shop.selfies) == [days("2026-01-10", "2026-02-10")])
        #expect(try replay.snapshot(at: Timestamp("2026-02-03"))[group: Shop.selfies]?.renewal == nil)
        let lines = try #require(replay.explanation(of: Shop.randomOwls, at: Timestamp("2026-02-03"))).sections[0].lines
        #expect(lines.map(\.effect).last == .setAside(.precedesReset))
    }

    @Test("A reset of production has no effect")
    func production() throws {
        let story = try Story().buying(Shop.threeMonths, at: "2026-01-01", transaction: "A")
            .resetting(.production, at: "2026-02-01")
        #expect(story.replay().chains() == [days("2026-01-01", "2026-04-01")])
        #expect(story.replay().facts.unreadable.count == 1)
        #expect(story.replay().facts.resets.isEmpty)
    }
}

extension Story {
    fileprivate var sandboxChains: [String] { replay(environment: .sandbox).chains() }

    fileprivate func spending(_ units: Int64, in environment: EnvironmentID, at date: String) throws -> Story {
        try stating(at: date) { date, time in
            .spend(
                Spend(
                    id: "s", product: Shop.coins, units: units, environment: environment, date: date,
                    replica: replica, logicalTime: time))
        }
    }

    fileprivate func flagging(_ product: ProductID, in environment: EnvironmentID, at date: String) throws -> Story {
        try stating(at: date) { date, time in
            .flag(
                Flag(
                    product: product, environment: environment, isSet: true, date: date, replica: replica,
                    logicalTime: time))
        }
    }
}
