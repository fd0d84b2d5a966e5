import Entitlements
import EntitlementsTestSupport
import Testing

@testable import SyncSimulation

@Suite("The model and the replay")
struct ModelAgreementTests {
    /// The number of interesting cases, which must not be zero: comparing empty results proves nothing.
    private struct Tally {
        var counts: [String: Int] = [:]

        mutating func note(_ name: String, _ happened: Bool) { counts[name, default: 0] += happened ? 1 : 0 }
    }

    @Test("The model and the replay agree on periods, ownership, units and access of random ledgers")
    func agreement() throws {
        var tally = Tally()
        let catalog = try RandomFacts.catalog()
        try forAll("model and replay agree", cases: 2_000, least: 2_000) { random, place in
            let world = RandomFacts(catalog, using: &random)
            let environment = random.pick([EnvironmentID.production, .production, .sandbox])
            let facts = Facts(account: world.account, device: world.device, server: world.server)
            let model = ModelReplay(
                account: try world.account.modelled, device: try world.device.modelled,
                server: try world.server.modelled, environment: ModelID(environment.rawValue),
                catalogue: RandomFacts.catalogue)
            let scope: ConsumableScope = random.pick([.deviceLocal, .shared])
            let replay = Replay(
                facts, catalog: catalog, environment: environment, rules: ConflictRules(consumables: scope))
            for instant in [.latest, Timestamp.near2026(using: &random)] {
                let snapshot = replay.snapshot(at: instant)
                try compare(snapshot, model, scope == .shared ? .shared : .deviceLocal, place)
                for entitlement in catalog.entitlements {
                    let expected = model.access(
                        to: entitlement, in: catalog, scope == .shared ? .shared : .deviceLocal,
                        at: instant.milliseconds)
                    let access = try #require(snapshot[access: entitlement.id])
                    try #require(
                        expected.agrees(with: access), "\(entitlement.id): \(access), not \(expected), \(place)")
                    tally.note("\(entitlement.id) paid", expected.isPaid)
                }
                tally.note("one, not all", snapshot.isGranted("one") && !snapshot.isGranted("all"))
                tally.note("one, not single", snapshot.isGranted("one") && !snapshot.isGranted("single"))
            }
            tally.note(
                "evidence",
                world.device.records.contains { if case .evidence = Fact($0) { true } else { false } }
                    && model.facts.policy == .verified && !model.sales.isEmpty)
            tally.note("overspent", replay.conflicts(at: .latest).contains { $0.isOverspent })
            for (group, timeline) in replay.timelines {
                let expected = timeline.chains.map {
                    ModelSpan(start: $0.start.milliseconds, end: $0.end.milliseconds)
                }
                try #require(model.coverage(of: group.rawValue) == expected, "\(group), \(place)")
            }
            note(replay, model, in: &tally)
        }
        for (name, count) in tally.counts.sorted(by: { $0.key < $1.key }) {
            #expect(count >= 5, "\(name): only \(count) of 2,000")
        }
    }

    private func compare(_ snapshot: Snapshot, _ model: ModelReplay, _ scope: ModelScope, _ place: String) throws {
        let instant = snapshot.at.milliseconds
        for group in snapshot.subscriptions {
            let name = group.group.rawValue
            try #require(model.isActive(name, at: instant) == group.isActive, "\(name) at \(snapshot.at), \(place)")
            // The snapshot has no end of a period that never ends.
            let end = model.end(name, at: instant).flatMap { $0 == ModelCalendar.latest ? nil : $0 }
            try #require(end == group.expires?.milliseconds, "\(name) at \(snapshot.at), \(place)")
        }
        let named = Set(RandomFacts.products + model.facts.purchases.map { ProductID("\($0.product)") })
            .union(model.facts.flags.map { ProductID("\($0.product)") })
        let owned = named.sorted().filter { model.owns($0.rawValue, at: instant) }
        try #require(owned == snapshot.owned, "at \(snapshot.at), \(place)")
        for product in named.sorted() {
            let units = model.balance(of: product.rawValue, scope, at: instant)
            try #require(
                units == snapshot[balance: product], "\(scope) \(product.rawValue) at \(snapshot.at), \(place)")
        }
    }

    private func note(_ replay: Replay, _ model: ModelReplay, in tally: inout Tally) {
        tally.note("verified", model.facts.policy == .verified)
        tally.note("verified purchase", model.sales.contains { model.facts.verified.contains($0.purchase.transaction) })
        tally.note(
            "unverified",
            model.facts.policy == .verified
                && model.facts.purchases.contains { !model.facts.verified.contains($0.transaction) })
        tally.note("two spans", model.coverage(of: "random").count > 1)
        tally.note("renewed", !model.coverage(of: "selfies").isEmpty)
        tally.note("saturated", model.coverage(of: "random").last?.end == ModelCalendar.latest)
        tally.note("catalogue's terms", model.sales.contains { $0.purchase.terms == nil })
        tally.note("quantity", model.sales.contains { $0.purchase.quantity > 1 && $0.terms.kind == .nonRenewing })
        tally.note("redated", model.sales.contains { $0.date != $0.purchase.date })
        tally.note("revoked", model.sales.contains { $0.revokedAt != nil && $0.terms.kind == .nonRenewing })
        tally.note(
            "overruled",
            model.sales.contains { sale in
                sale.revokedAt == nil
                    && model.facts.revocations.contains {
                        $0.transaction == sale.purchase.transaction && !$0.isReinstated && !$0.stamp.isSigned
                    }
            })
        tally.note(
            "reinstated",
            model.sales.contains { sale in
                model.facts.revocations.contains { $0.transaction == sale.purchase.transaction && $0.isReinstated }
            })
        let united = model.sales.filter { !$0.copies.isOne }
        tally.note("copies of a period", united.contains { $0.terms.kind == .autoRenewable })
        tally.note("copies of a non-consumable", united.contains { $0.terms.kind == .nonConsumable })
        tally.note(
            "revoked as another copy", united.contains { $0.isRevokedAsAnother(in: model.facts) })
        tally.note("upgraded", model.sales.contains { $0.upgradedAt != nil && $0.terms.kind == .autoRenewable })
        let periods = replay.timelines.values.flatMap(\.periods)
        tally.note("asserted", periods.contains { if case .assertion = $0.origin { true } else { false } })
        tally.note("grace", periods.contains { if case .grace = $0.origin { true } else { false } })
        tally.note("owned by purchase", model.sales.contains { $0.terms.kind == .nonConsumable && $0.revokedAt == nil })
        tally.note("marked", model.owns("a", at: ModelCalendar.earliest))
        tally.note(
            "reset", replay.environment == .sandbox && !model.facts.resets.isEmpty && !model.facts.purchases.isEmpty)
        tally.note("units", model.balance(of: "coins", .shared) > 0)
        tally.note("units on the device", model.balance(of: "coins", .deviceLocal) > 0)
        tally.note("kept unread", !model.facts.otherKeys.isEmpty)
    }

    @Test("The model and the replay read and skip the same records, including damaged and unknown ones")
    func reading() throws {
        let catalog = try RandomFacts.catalog()
        try forAll("model and facts read alike", cases: 1_000) { random, place in
            let world = RandomFacts(catalog, using: &random)
            for ledger in [world.account, world.device, world.server] {
                let model = try ledger.modelled.facts
                let facts = ledger.records.map { Fact($0) }
                try #require(model.otherKeys == facts.filter(\.saysNothing).map(\.record.key), "\(place)")
                try #require(model.purchases.map(\.words) == facts.compactMap(\.words), "\(place)")
                let spends = facts.compactMap { if case .spend(let spend) = $0 { spend } else { nil } }
                try #require(model.spends.map(\.id.description) == spends.map(\.id.rawValue), "\(place)")
                try #require(model.spends.map(\.time) == spends.map(\.logicalTime.rawValue), "\(place)")
                try #require(model.claim?.account == Facts(account: ledger).claim?.account, "\(place)")
            }
        }
    }
}

extension Timestamp {
    fileprivate static func near2026(using random: inout SplitMix64) -> Timestamp {
        near(Timestamp(milliseconds: 1_767_225_600_000), years: 4, using: &random)
    }
}

extension ModelAccess {
    fileprivate var isPaid: Bool { if case .paid = self { true } else { false } }
}

extension Snapshot {
    fileprivate func isGranted(_ entitlement: EntitlementID) -> Bool { self[access: entitlement]?.isGranted == true }
}

extension Conflict {
    fileprivate var isOverspent: Bool { if case .overspent = self { true } else { false } }
}

extension Fact {
    /// True if the model ignores the fact.
    fileprivate var saysNothing: Bool {
        switch self {
        case .unreadable, .contradiction: true
        default: false
        }
    }

    /// A purchase in words.
    fileprivate var words: String? {
        guard case .purchase(let purchase) = self else { return nil }
        return "\(purchase.transaction) \(purchase.product) \(purchase.date.milliseconds) \(purchase.quantity) "
            + "\(purchase.line.id) \(purchase.isIntroductory) \(purchase.stamp.logicalTime.rawValue) "
            + "\(purchase.storeExpiry?.milliseconds ?? 0) \(purchase.stamp.signedDate?.milliseconds ?? 0) "
            + "\(purchase.terms?.kind.group?.rawValue ?? "-") \(purchase.terms != nil)"
    }
}

extension ModelPurchase {
    fileprivate var words: String {
        "\(transaction) \(product) \(date) \(quantity) \(line.id) \(isIntroductory) \(stamp.time) "
            + "\(storeExpiry ?? 0) \(stamp.signedAt ?? 0) \(terms?.group.map { "\($0)" } ?? "-") \(terms != nil)"
    }
}

extension Ledger {
    /// The ledger as the model decodes its document.
    var modelled: ModelLedger {
        get throws {
            let bytes = LedgerDocument(ledger: self, localSection: [1, 2, 3]).encoded()
            return try #require(ModelLedger(document: bytes))
        }
    }
}

extension ModelSale {
    /// True if the purchase is revoked by a statement about a copy that does not count.
    fileprivate func isRevokedAsAnother(in facts: ModelFacts) -> Bool {
        revokedAt != nil && facts.effectiveStatus(of: copies)?.transaction != purchase.transaction
    }
}
