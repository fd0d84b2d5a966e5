import EntitlementsTestSupport
import Testing

@testable import Entitlements

@Suite("An explanation lists every fact that concerns a source and agrees with the decision")
struct ExplanationHistoriesTests {
    private static let center = Timestamp(milliseconds: 1_767_225_600_000)

    /// A random history with renewal states and refunds among its facts, its replay and an instant.
    private static func replay(using random: inout SplitMix64) throws -> (replay: Replay, now: Timestamp) {
        let rules = ConflictRules(
            expiry: random.pick(ConflictRules.expiryRules), flags: random.pick(ConflictRules.flagRules),
            consumables: random.pick(ConsumableScope.allCases))
        let history = RandomHistory(early: 1...8, late: 0...4, using: &random)
        var account = history.early + history.late
        for _ in 0..<random.int(0...2) {
            let isSandbox = random.chance(1, in: 3)
            account.append(
                .renewalState(
                    RenewalState(
                        line: TransactionReference(
                            store: .appStore, environment: isSandbox ? .sandbox : .production,
                            id: random.pick(["r0", "r1", "2", "f0", "f1"])), willRenew: true,
                        graceEnd: random.chance(1, in: 4) ? nil : .near(center, years: 3, using: &random),
                        stamp: .random(using: &random))))
        }
        let server = account.filter { if case .acceptance = $0 { random.chance(2, in: 3) } else { false } }
        let mine = Ledger(account.filter { !server.contains($0) }.map(\.record))
        let remote = Ledger(mine.records.filter { _ in random.chance(1, in: 2) })
        let facts = Facts(
            account: mine, device: random.chance(1, in: 2) ? mine : Ledger(), server: Ledger(server.map(\.record)),
            remote: random.chance(1, in: 3) ? remote : nil)
        let replay = Replay(
            facts, catalog: try RandomHistory.catalog(),
            environment: random.pick([.production, .production, .sandbox]),
            rules: rules)
        return (replay, .near(center, years: 3, using: &random))
    }

    /// The facts that concern a source, found independently of the explaining code.
    private static func concerned(_ source: Entitlement.Source, in replay: Replay) -> Set<Fact> {
        let facts = replay.facts
        let purchases = facts.purchases.filter { purchase in
            switch source {
            case .group(let group), .level(let group, _):
                (purchase.terms ?? replay.catalog.terms(of: purchase.product))?.kind.group == group
            case .product(let product), .units(let product): purchase.product == product
            }
        }
        var found = Set(purchases.map(Fact.purchase))
        for purchase in purchases {
            if let revocation = facts.status(of: purchase) { found.insert(.revocation(revocation)) }
            if let acceptance = facts.acceptance(of: purchase) { found.insert(.acceptance(acceptance)) }
            for case .acceptance(let acceptance) in facts.unreadable
            where acceptance.transaction == purchase.transaction { found.insert(.acceptance(acceptance)) }
            if ![.product(Shop.owl), .units(Shop.coins)].contains(source),
                let state = facts.renewalStates[purchase.line]
            {
                found.insert(.renewalState(state))
            }
        }
        switch source {
        case .group(let group), .level(let group, _):
            found.formUnion(facts.assertions.filter { $0.reference.group == group }.map(Fact.assertion))
        case .product(let product):
            for (reference, marks) in facts.flags where reference.product == product {
                found.formUnion([marks.set, marks.cleared].compactMap { $0 }.map(Fact.flag))
            }
        case .units(let product):
            found.formUnion(facts.spends.filter { $0.product == product }.map(Fact.spend))
        }
        return found
    }

    @Test("An explanation lists every relevant fact and no other")
    func complete() throws {
        var reasons: Set<String> = []
        try forAll("explanations are complete", cases: 3_000) { random, place in
            let (replay, now) = try Self.replay(using: &random)
            let explanations = replay.catalog.entitlements.compactMap { replay.explanation(of: $0.id, at: now) }
            for section in explanations.flatMap(\.sections) {
                let named = Set(section.lines.map(\.fact))
                let concerned = Self.concerned(section.source, in: replay)
                try #require(named == concerned, "\(section.source): \(named.symmetricDifference(concerned)); \(place)")
                for line in section.lines {
                    guard case .setAside(let reason) = line.effect else { continue }
                    reasons.insert("\(reason)".prefix { $0 != ":" && !$0.isNumber }.description)
                }
            }
        }
        #expect(reasons.count >= 10, "\(reasons)")
    }

    @Test("Explained periods, ownership and balances equal those of the decision, each once")
    func agreement() throws {
        try forAll("explanations agree", cases: 3_000) { random, place in
            let (replay, now) = try Self.replay(using: &random)
            for entitlement in ["all", "films"] as [EntitlementID] {
                let explanation = try #require(replay.explanation(of: entitlement, at: now))
                try #require(explanation.access == replay.access(to: entitlement, at: now), "\(place)")
                for section in explanation.sections { try compare(section, replay, at: now, place) }
            }
        }
    }

    private func compare(
        _ section: Explanation.Section, _ replay: Replay, at now: Timestamp, _ place: String
    ) throws {
        let told = section.lines.compactMap { line -> Period? in
            if case .period(let period) = line.effect { !period.isEmpty ? period : nil } else { nil }
        }
        switch section.source {
        case .group, .level, .product(Cinema.basic):
            let periods = replay.timelines.values.flatMap(\.periods).filter { section.source.matches($0, replay) }
            try #require(Timeline(told).chains == Timeline(periods).chains, "\(section.source): \(place)")
            try #require(told.count == periods.count, "\(section.source): \(place)")
        case .product(let product):
            let isTold = section.lines.contains { line in
                switch line.effect {
                case .ownership(let period): period.contains(now)
                case .flagCounts: true
                default: false
                }
            }
            try #require(isTold == replay.isOwned(product, at: now), "\(place)")
        case .units(let product):
            let balances = section.lines.compactMap { line -> Int64? in
                switch line.effect {
                case .units(_, let balance), .spent(_, _, let balance): balance
                default: nil
                }
            }
            try #require(balances.last ?? 0 == replay.balance(of: product, at: now), "\(place)")
        }
    }

    @Test("Refunded and future purchases of units, and those sold as another kind, are explained")
    func units() throws {
        let story = try Story().buying(Shop.coins, at: "2026-01-01", transaction: "A")
            .refunding("A", at: "2026-02-01").buying(Shop.coins, at: "2026-09-01", transaction: "B")
            .buying(Shop.coins, at: "2026-01-01", transaction: "C", terms: Terms(kind: .nonConsumable))
        let explanation = try #require(
            story.replay().explanation(of: Shop.randomOwls, at: Timestamp("2026-03-01")))
        #expect(
            explanation.sections[1].lines.map(\.effect) == [
                .setAside(.revoked(try Timestamp("2026-02-01"))), .revokes,
                .setAside(.otherKind("nonConsumable")), .notYet,
            ])
    }
}

extension Entitlement.Source {
    /// Returns `true` if the source counts `period`, as its definition says.
    fileprivate func matches(_ period: Period, _ replay: Replay) -> Bool {
        let group = replay.timelines.first { $0.value.periods.contains(period) }?.key
        return switch self {
        case .group(let id): group == id
        case .level(let id, let level): group == id && period.level != nil && period.level ?? 0 <= level
        case .product(let product): period.product == product
        case .units: false
        }
    }
}
