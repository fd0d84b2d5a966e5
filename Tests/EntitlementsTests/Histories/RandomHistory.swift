import EntitlementsTestSupport

@testable import Entitlements

/// A small random history of one account: the facts known at first, and facts that become known later, one at a time.
/// The late facts revoke nothing.
struct RandomHistory {
    /// Facts of any kind, including refunds and refusals.
    private(set) var early: [Fact] = []
    /// Facts that revoke nothing, in the order of their arrival.
    private(set) var late: [Fact] = []
    /// The records of all facts, early ones first.
    private var records: [Record] = []

    private let center: Timestamp
    private let years: Int64
    private var count: UInt64 = 0

    init(early earlyCount: ClosedRange<Int64>, late lateCount: ClosedRange<Int64>, using random: inout SplitMix64) {
        center = Timestamp(milliseconds: 1_767_225_600_000)  // 2026-01-01
        years = random.int(0...2)
        for _ in 0..<random.int(earlyCount) {
            early.append(random.chance(1, in: 4) ? takingBack(using: &random) : adding(using: &random))
        }
        for _ in 0..<random.int(lateCount) { late.append(adding(using: &random)) }
        records = (early + late).map(\.record)
    }

    /// The facts known after `count` of the late ones have arrived, on a device without a ledger of its own.
    func facts(late count: Int, remote: Ledger? = nil) -> Facts {
        let known = early + late.prefix(count)
        return Facts(
            account: Ledger(known.filter { !$0.isServers }.map(\.record)),
            server: Ledger(known.filter(\.isServers).map(\.record)), remote: remote)
    }

    /// The same facts without encoding and decoding, which would dominate the time of many histories.
    func factsAsTheyAre(late count: Int) -> Facts {
        let known = early + late.prefix(count)
        var winners: [Int] = []
        for index in known.indices {
            if let place = winners.firstIndex(where: { records[$0].key == records[index].key }) {
                if records[winners[place]].precedes(records[index]) { winners[place] = index }
            } else {
                winners.append(index)
            }
        }
        let facts = winners.map { known[$0] }
        return Facts(facts.filter { !$0.isServers }, server: facts.filter(\.isServers))
    }

    /// Only the entries that the histories need, because there are many histories.
    static func catalog(rules: ConflictRules = ConflictRules()) throws -> Catalog {
        let threeMonths = ProductKind.nonRenewing(group: Shop.random, duration: CalendarDuration(months: 3))
        return try Catalog(
            products: [
                Product(id: Shop.threeMonths, kind: threeMonths), Product(id: Shop.owl, kind: .nonConsumable),
                Product(id: Shop.coins, kind: .consumable(units: 5)),
                Product(id: Cinema.basic, kind: film(level: 2)), Product(id: Cinema.premium, kind: film(level: 1)),
            ],
            entitlements: [
                Entitlement(id: "all", grantedBy: [.group(Shop.random), .product(Shop.owl), .units(Shop.coins)]),
                Entitlement(
                    id: "films", grantedBy: [.level(Cinema.films, 1), .product(Cinema.basic), .group(Cinema.films)]),
            ], policy: Policy(bonus: CalendarDuration(days: 1), rules: rules))
    }

    private static func film(level: Int64) -> ProductKind {
        .autoRenewable(group: Cinema.films, level: level, duration: CalendarDuration(months: 1), introductory: nil)
    }

    /// Later than all earlier times, so that the later of two statements about one subject counts.
    private mutating func time() -> LogicalTime {
        count += 1
        return LogicalTime(rawValue: count)
    }

    private static func id(using random: inout SplitMix64) -> TransactionID {
        TransactionID(random.pick(["1", "2", "3", "4", "5", "6"]))
    }

    private mutating func takingBack(using random: inout SplitMix64) -> Fact {
        let transaction = TransactionReference(
            store: random.chance(1, in: 4) ? .appStore : .reported, id: Self.id(using: &random))
        guard random.chance(3, in: 4) else {
            return .acceptance(
                Acceptance(
                    transaction: transaction, decision: random.pick([.refused("no"), .transferred(to: "bob")]),
                    date: center, logicalTime: time()))
        }
        let isSigned = transaction.store == .appStore && random.chance(1, in: 2)
        return .revocation(
            Revocation(
                transaction: transaction, revokedAt: .near(center, years: 3, using: &random),
                stamp: Stamp(signedDate: isSigned ? center : nil, logicalTime: time())))
    }

    private mutating func adding(using random: inout SplitMix64) -> Fact {
        switch random.int(0...13) {
        case 0...4: return .purchase(purchase(using: &random))
        case 5, 6: return .assertion(assertion(using: &random))
        case 7: return .purchase(renewal(using: &random))
        case 12, 13: return .purchase(film(using: &random))
        case 8:
            let isSigned = random.chance(1, in: 2)
            let store: StoreID = isSigned ? .appStore : .reported
            return .revocation(
                Revocation(
                    transaction: TransactionReference(store: store, id: Self.id(using: &random)), revokedAt: nil,
                    stamp: Stamp(signedDate: isSigned ? center.moved(1) : nil, logicalTime: time())))
        case 9:
            return .acceptance(
                Acceptance(
                    transaction: TransactionReference(id: Self.id(using: &random)), decision: .accepted, date: center,
                    logicalTime: time()))
        default: return other(using: &random)
        }
    }

    /// Every transaction occurs once, because the same transaction is the same purchase.
    private mutating func purchase(using random: inout SplitMix64) -> Purchase {
        let number = count + 1
        let product = random.pick([Shop.threeMonths, Shop.threeMonths, Shop.threeMonths, Shop.owl, Shop.coins, "new"])
        // Short durations move later purchases slightly, which exposes flaws in a rule for missing days.
        let duration = random.pick([
            CalendarDuration(months: 1), CalendarDuration(months: 3), CalendarDuration(months: 12),
            CalendarDuration(months: 1, days: 1, seconds: 1), CalendarDuration(days: 1),
            CalendarDuration(seconds: random.int(1...172_800)),
            random.chance(1, in: 4) ? .forever : CalendarDuration(days: 2),
        ])
        var terms: Terms?
        switch product {
        case Shop.owl: terms = Terms(kind: .nonConsumable)
        case Shop.coins: terms = Terms(kind: .consumable(units: 5))
        case Shop.threeMonths where random.chance(7, in: 8):
            terms = Terms(
                kind: .nonRenewing(group: Shop.random, duration: duration),
                bonus: random.pick([.zero, CalendarDuration(days: 1), CalendarDuration(months: 1)]))
        default: break  // Unknown terms; the catalogue supplies those of the three months.
        }
        let isSigned = random.chance(1, in: 4)
        let time = time()
        return Purchase(
            transaction: TransactionReference(
                store: isSigned ? .appStore : .reported, environment: random.chance(1, in: 10) ? .sandbox : .production,
                id: number <= 6 ? TransactionID("\(number)") : TransactionID("n\(number)")),
            product: product, terms: terms, date: .near(center, years: years, using: &random),
            quantity: random.pick([1, 1, 1, 2, 3, 0]),
            stamp: Stamp(signedDate: isSigned ? center : nil, logicalTime: time))
    }

    /// A renewal of one product, in the same group, so that both timelines meet.
    private mutating func renewal(using random: inout SplitMix64) -> Purchase {
        let kind = ProductKind.autoRenewable(
            group: Shop.random, level: 1, duration: CalendarDuration(months: 1), introductory: nil)
        let date = Timestamp.near(center, years: years, using: &random)
        let time = time()
        return Purchase(
            transaction: TransactionReference(store: .appStore, id: TransactionID("r\(time.rawValue)")),
            product: "monthly", terms: Terms(kind: kind), date: date, originalID: "r0",
            storeExpiry: random.chance(1, in: 2) ? nil : date.moved(random.int(-1...40) * 86_400_000),
            stamp: Stamp(signedDate: center, logicalTime: time))
    }

    /// A period of a subscription with two levels, which changes the level at any time.
    private mutating func film(using random: inout SplitMix64) -> Purchase {
        let isPremium = random.chance(1, in: 2)
        let time = time()
        return Purchase(
            transaction: TransactionReference(store: .appStore, id: TransactionID("f\(time.rawValue)")),
            product: isPremium ? Cinema.premium : Cinema.basic,
            terms: random.chance(1, in: 4) ? nil : Terms(kind: Self.film(level: isPremium ? 1 : 2)),
            date: .near(center, years: years, using: &random), originalID: random.pick(["f0", "f0", "f1"]),
            stamp: Stamp(signedDate: center, logicalTime: time))
    }

    /// One of a few dates, so that the same assertion is repeated, also as of an earlier time.
    private mutating func assertion(using random: inout SplitMix64) -> Assertion {
        let until = center.adding(CalendarDuration(months: random.int(-2...12) + 2, days: random.pick([0, 30])))
        let date = Timestamp.near(center, years: years, using: &random)
        return Assertion(
            Assertion.Reference(
                group: random.pick([Shop.random, Shop.random, Cinema.films]),
                source: random.pick(["parse", "promotion"]), until: until,
                environment: random.chance(1, in: 10) ? .sandbox : .production),
            assertedAt: random.pick([date, center]), recordedAt: center, replica: Self.replica, logicalTime: time())
    }

    private mutating func other(using random: inout SplitMix64) -> Fact {
        let transaction = TransactionReference(id: Self.id(using: &random))
        switch random.int(0...4) {
        case 0:
            return .recording(
                Recording(
                    transaction: transaction, replica: Self.replica, recordedAt: center,
                    knownEnd: .near(center, years: years, using: &random), logicalTime: time()))
        case 1, 2:
            return .flag(
                Flag(
                    product: Shop.owl, isSet: random.chance(1, in: 2), date: center, replica: Self.replica,
                    logicalTime: time()))
        case 3:
            let time = time()
            return .spend(
                Spend(
                    id: SpendID("\(time.rawValue)"), product: Shop.coins, units: random.int(1...7), date: center,
                    replica: Self.replica, logicalTime: time))
        default:
            // A reset of production has no effect.
            return .reset(EnvironmentReset(environment: .production, date: center, logicalTime: time()))
        }
    }

    private static let replica: ReplicaID = {
        var random = SplitMix64(seed: 1)
        return ReplicaID.random(using: &random)
    }()
}

extension Fact {
    fileprivate var isServers: Bool { if case .acceptance = self { true } else { false } }
}

extension Timeline {
    /// Returns `true` if every instant that `other` covers is covered. Chains are maximal, so each lies within one
    /// chain.
    func covers(_ other: Timeline) -> Bool {
        other.chains.allSatisfy { inner in
            chains.contains { $0.start <= inner.start && inner.end <= $0.end }
        }
    }
}
