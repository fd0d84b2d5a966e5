import Entitlements
import EntitlementsTestSupport

@testable import SyncSimulation

/// Random ledgers of one buyer. Their facts share few dates, transactions and products, so that they often interact.
struct RandomFacts {
    var account = Ledger()
    var device = Ledger()
    var server = Ledger()

    static let products: [ProductID] = ["month", "quarter", "owl", "coins", "weekly", "single", "unlisted", "a", "🦉"]

    /// Returns a catalogue of all ``products`` except the last three.
    static func catalog() throws -> Catalog {
        try Catalog(
            products: [
                Product(id: "month", kind: .nonRenewing(group: "random", duration: CalendarDuration(months: 1))),
                Product(id: "quarter", kind: .nonRenewing(group: "random", duration: CalendarDuration(months: 3))),
                Product(id: "owl", kind: .nonConsumable),
                Product(id: "coins", kind: .consumable(units: 5)),
                Product(
                    id: "weekly",
                    kind: .autoRenewable(
                        group: "selfies", level: 1, duration: CalendarDuration(days: 7),
                        introductory: IntroductoryOffer(mode: .free, duration: CalendarDuration(days: 3)))),
                Product(
                    id: "single",
                    kind: .autoRenewable(
                        group: "selfies", level: 2, duration: CalendarDuration(months: 1), introductory: nil)),
            ],
            entitlements: [
                Entitlement(id: "all", grantedBy: [.level("selfies", 1)]),
                Entitlement(id: "one", grantedBy: [.level("selfies", 2), .product("owl")]),
                Entitlement(id: "single", grantedBy: [.product("single"), .units("coins")]),
                Entitlement(id: "any", grantedBy: [.product("weekly"), .group("random"), .group("selfies")]),
            ],
            policy: Policy(bonus: CalendarDuration(days: 1)))
    }

    /// The products of ``catalog()`` in the form of the model.
    static let catalogue: [ModelID: ModelTerms] = [
        "month": ModelTerms(
            kind: .nonRenewing, group: "random", duration: ModelDuration(months: 1), bonus: ModelDuration(days: 1)),
        "quarter": ModelTerms(
            kind: .nonRenewing, group: "random", duration: ModelDuration(months: 3), bonus: ModelDuration(days: 1)),
        "owl": ModelTerms(kind: .nonConsumable),
        "coins": ModelTerms(kind: .consumable, units: 5),
        "weekly": ModelTerms(
            kind: .autoRenewable, group: "selfies", duration: ModelDuration(days: 7), level: 1,
            introductory: ModelDuration(days: 3), bonus: ModelDuration(days: 1)),
        "single": ModelTerms(
            kind: .autoRenewable, group: "selfies", duration: ModelDuration(months: 1), level: 2,
            bonus: ModelDuration(days: 1)),
    ]

    init(_ catalog: Catalog, using random: inout SplitMix64) {
        var (inAccount, onDevice): ([Record], [Record]) = ([], [])
        for _ in 0..<random.int(0...30) {
            let record = Self.record(catalog, using: &random)
            let place = random.int(0...4)
            if place <= 3 { inAccount.append(record) }
            if place >= 3 { onDevice.append(record) }
        }
        if random.chance(1, in: 3) { inAccount += Self.encounter(catalog, using: &random).map(\.record) }
        account = random.chance(1, in: 50) ? .erased : Ledger(inAccount)
        device = Ledger(onDevice)
        for _ in 0..<random.int(0...2) where random.chance(1, in: 2) {
            device = device.joined(with: Ledger([Fact.evidence(.near(catalog, using: &random)).record]))
        }
        server = Self.server(catalog, using: &random)
        if random.chance(1, in: 5) { stateAnew(catalog, using: &random) }
    }

    /// Adds a purchase that the server and evidence on the device state with equal stamps, which rarely meet by chance.
    private mutating func stateAnew(_ catalog: Catalog, using random: inout SplitMix64) {
        var purchase = Purchase.near(catalog, using: &random)
        server = server.joined(with: Ledger([Fact.purchase(purchase).record]))
        (purchase.terms, purchase.date) = (nil, .near(using: &random))
        let evidence = StoredEvidence(
            kind: "app-store-transaction", subject: "\(purchase.transaction.id)", data: [3],
            facts: Ledger([Fact.purchase(purchase).record]), stamp: .near(using: &random))
        device = device.joined(with: Ledger([Fact.evidence(evidence).record]))
    }

    /// Returns a server ledger with decisions, and often with verified statements and a policy.
    private static func server(_ catalog: Catalog, using random: inout SplitMix64) -> Ledger {
        var records = (0..<random.int(0...3)).map { _ in Fact.acceptance(.near(using: &random)).record }
        if random.chance(1, in: 2) { return Ledger(records) }
        for _ in 0..<random.int(0...12) { records.append(record(catalog, using: &random)) }
        if random.chance(2, in: 3) {
            let policy = random.pick([TrustPolicy.trusted, .verified, .verified])
            records.append(Fact.policy(PolicyStatement(policy, logicalTime: .near(using: &random))).record)
        }
        return Ledger(records)
    }

    /// Returns facts that would rarely meet by chance: a restored purchase with a status of one of its transactions, a
    /// subscription in its grace period, or a purchase that never ends.
    private static func encounter(_ catalog: Catalog, using random: inout SplitMix64) -> [Fact] {
        var purchase = Purchase.near(catalog, using: &random)
        purchase.transaction = TransactionReference(id: "t0")
        switch random.int(0...3) {
        case 0, 1:
            purchase = .copy(catalog, using: &random)
            (purchase.product, purchase.originalID) = (random.pick(["weekly", "owl"]), "t0")
            purchase.terms = catalog.terms(of: purchase.product)
            var other = purchase
            (purchase.transaction.id, other.transaction.id) = ("t6", "t7")
            other.stamp = .near(using: &random)
            let status = Revocation(
                transaction: random.pick([purchase, other]).transaction, revokedAt: .near(using: &random),
                reason: "refund", upgradedAt: random.chance(1, in: 2) ? .near(using: &random) : nil,
                stamp: Stamp(signedDate: .near(using: &random), logicalTime: .near(using: &random)))
            return [.purchase(purchase), .purchase(other)] + (random.chance(3, in: 4) ? [.revocation(status)] : [])
        case 2:
            (purchase.product, purchase.originalID, purchase.lineItemID) = ("weekly", "t0", nil)
            (purchase.terms, purchase.quantity, purchase.storeExpiry) = (catalog.terms(of: "weekly"), 1, nil)
            let graceEnd = Timestamp(milliseconds: purchase.date.milliseconds + random.int(9...40) * 86_400_000)
            return [
                .purchase(purchase),
                .renewalState(
                    RenewalState(
                        line: purchase.line, willRenew: true, graceEnd: graceEnd, stamp: .near(using: &random))),
            ]
        default:
            let duration = CalendarDuration(months: 1_200)
            (purchase.product, purchase.quantity) = ("month", 10_000)
            purchase.terms = Terms(kind: .nonRenewing(group: "random", duration: duration))
            return [.purchase(purchase)]
        }
    }

    private static func record(_ catalog: Catalog, using random: inout SplitMix64) -> Record {
        if random.chance(1, in: 10) { return Fact(.random(using: &random)).record }
        if random.chance(1, in: 10) { return Fact.random(using: &random).record }
        var record = Fact.near(catalog, using: &random).record
        if random.chance(1, in: 15) { record.damage(using: &random) }
        return record
    }
}

extension Record {
    /// Changes, removes or inserts one byte of the record's key, order or payload.
    fileprivate mutating func damage(using random: inout SplitMix64) {
        let part = random.pick([\Record.key, \Record.order, \Record.payload, \Record.payload])
        guard !self[keyPath: part].isEmpty else { return }
        let index = Int(random.int(0...Int64(self[keyPath: part].count - 1)))
        switch random.int(0...3) {
        case 0: self[keyPath: part][index] = random.pick([0, 1, 0x7F, 0x80, 0xFF])
        case 1: self[keyPath: part][index] ^= 1 << UInt8(random.int(0...7))
        case 2 where self[keyPath: part].count > 1: self[keyPath: part].remove(at: index)
        default: self[keyPath: part].insert(random.pick([0, 1, 0x80]), at: index)
        }
    }
}

extension Timestamp {
    /// Returns a random date in 2026, 2027 or 2028, often at the end of a month.
    fileprivate static func near(using random: inout SplitMix64) -> Timestamp {
        near(Timestamp(milliseconds: 1_767_225_600_000), years: 3, using: &random)
    }
}

extension LogicalTime {
    fileprivate static func near(using random: inout SplitMix64) -> LogicalTime {
        LogicalTime(rawValue: UInt64(random.int(0...30)))
    }
}

extension Stamp {
    fileprivate static func near(using random: inout SplitMix64) -> Stamp {
        Stamp(signedDate: random.chance(1, in: 3) ? .near(using: &random) : nil, logicalTime: .near(using: &random))
    }
}

extension TransactionReference {
    fileprivate static func near(using random: inout SplitMix64) -> TransactionReference {
        TransactionReference(
            store: random.pick([.reported, .reported, .appStore, .appStore]),
            environment: random.pick([.production, .production, .production, .sandbox]),
            id: TransactionID("t\(random.int(0...8))"))
    }
}

extension Acceptance {
    fileprivate static func near(using random: inout SplitMix64) -> Acceptance {
        Acceptance(
            transaction: .near(using: &random),
            decision: random.pick([
                .accepted, .countsAsOf(.near(using: &random)), .refused("no"), .transferred(to: "b"),
            ]),
            date: .near(using: &random), logicalTime: .near(using: &random))
    }
}

extension StoredEvidence {
    fileprivate static func near(_ catalog: Catalog, using random: inout SplitMix64) -> StoredEvidence {
        let facts = (0..<random.int(1...3)).map { _ in Fact.near(catalog, using: &random).record }
        return StoredEvidence(
            kind: "app-store-transaction", subject: "t\(random.int(0...3))", data: [1, 2], facts: Ledger(facts),
            stamp: .near(using: &random))
    }
}

extension Purchase {
    fileprivate static func near(_ catalog: Catalog, using random: inout SplitMix64) -> Purchase {
        let product = random.pick(
            ["month", "month", "quarter", "quarter", "weekly", "weekly", "weekly", "single", "single", "coins"]
                + RandomFacts.products)
        let date = Timestamp.near(using: &random)
        var terms = catalog.terms(of: product)
        if random.chance(1, in: 4) { terms = nil }
        if random.chance(1, in: 4) {
            let kinds: [ProductKind] = [
                .nonRenewing(
                    group: "random",
                    duration: CalendarDuration(
                        months: random.int(0...14), days: random.int(0...40), seconds: random.int(0...90_000))),
                .nonRenewing(
                    group: "random", duration: CalendarDuration(months: random.pick([12, 1_200, 1_200, 1_201]))),
                .autoRenewable(
                    group: random.pick(["random", "selfies"]), level: random.int(0...2),
                    duration: CalendarDuration(months: random.int(0...2)), introductory: nil),
            ]
            terms = Terms(
                kind: random.pick(kinds),
                bonus: random.pick([.zero, CalendarDuration(days: 1), .random(using: &random)]))
        }
        return Purchase(
            transaction: .near(using: &random), product: product, terms: terms, date: date,
            quantity: random.chance(3, in: 4) ? 1 : random.pick([2, 3, 12, 10_000, 10_000, 10_001, 0]),
            originalID: random.chance(1, in: 2) ? nil : TransactionID("t\(random.int(0...2))"),
            storeExpiry: random.chance(1, in: 5) ? .near(using: &random) : nil,
            isIntroductory: random.chance(1, in: 5),
            lineItemID: random.chance(1, in: 4) ? TransactionID("l\(random.int(0...2))") : nil,
            isNonConsumable: random.chance(1, in: 8), stamp: .near(using: &random))
    }
}

extension Purchase {
    /// Returns one of a few purchases of the App Store under one of several transactions.
    fileprivate static func copy(_ catalog: Catalog, using random: inout SplitMix64) -> Purchase {
        var copy = Purchase.near(catalog, using: &random)
        copy.transaction = TransactionReference(store: .appStore, id: TransactionID("t\(random.int(0...5))"))
        copy.product = random.pick(["weekly", "weekly", "owl", "owl", "month", "unlisted"])
        copy.terms = random.chance(1, in: 3) ? nil : catalog.terms(of: copy.product)
        copy.originalID = random.pick(["t0", "t0", "t1", nil])
        let start: Int64 = random.pick([1_798_761_600_000, 1_801_440_000_000])
        copy.date = Timestamp(milliseconds: start + random.pick([0, 0, 1, 999, 1_000]))
        return copy
    }
}

extension Fact {
    fileprivate static func near(_ catalog: Catalog, using random: inout SplitMix64) -> Fact {
        let replica = random.pick(replicas)
        let date = Timestamp.near(using: &random)
        let time = LogicalTime.near(using: &random)
        let environment = random.pick([EnvironmentID.production, .production, .sandbox])
        switch random.int(0...20) {
        case 0...4: return .purchase(.near(catalog, using: &random))
        case 5...7: return .purchase(.copy(catalog, using: &random))
        case 8:
            return .recording(
                Recording(
                    transaction: .near(using: &random), replica: replica, recordedAt: date, knownEnd: nil,
                    logicalTime: time))
        case 9...11:
            return .revocation(
                Revocation(
                    transaction: random.chance(1, in: 2)
                        ? .near(using: &random)
                        : TransactionReference(store: .appStore, id: TransactionID("t\(random.int(0...4))")),
                    revokedAt: random.chance(1, in: 4) ? nil : date,
                    reason: "refund", upgradedAt: random.chance(1, in: 4) ? .near(using: &random) : nil,
                    stamp: .near(using: &random)))
        case 12, 13:
            let reference = Assertion.Reference(
                group: "random", source: random.pick(["parse", "app"]), until: .near(using: &random),
                environment: environment)
            return .assertion(
                Assertion(reference, assertedAt: date, recordedAt: date, replica: replica, logicalTime: time))
        case 14:
            return .flag(
                Flag(
                    product: random.pick(["owl", "a"]), environment: environment, isSet: random.chance(1, in: 2),
                    date: date, replica: replica, logicalTime: time))
        case 15, 16:
            return .spend(
                Spend(
                    id: SpendID("s\(random.int(0...9))"), product: "coins", units: random.pick([0, 1, 3, 8, .max]),
                    environment: environment, date: date, replica: replica, logicalTime: time))
        case 17, 18:
            let line = TransactionReference(id: TransactionID("t\(random.int(0...2))"))
            return .renewalState(
                RenewalState(
                    line: line, willRenew: true, graceEnd: random.chance(1, in: 4) ? nil : date,
                    stamp: .near(using: &random)))
        case 19: return .acceptance(.near(using: &random))
        default: return .reset(EnvironmentReset(environment: environment, date: date, logicalTime: time))
        }
    }

    private static let replicas: [ReplicaID] = {
        var random = SplitMix64(seed: 1)
        return (0..<3).map { _ in ReplicaID.random(using: &random) }
    }()
}
