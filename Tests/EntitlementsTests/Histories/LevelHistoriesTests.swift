import EntitlementsTestSupport
import Testing

@testable import Entitlements

@Suite("Access by level and by product in random subscriptions")
struct LevelHistoriesTests {
    private static let start = Timestamp(milliseconds: 1_767_225_600_000)  // 2026-01-01
    private static let day: Int64 = 86_400_000

    private static func catalog() throws -> Catalog {
        let levels = [(Selfies.oneWeekly, 2), (Selfies.oneYearly, 2), (Selfies.allWeekly, 1), (Selfies.allYearly, 1)]
        return try Catalog(
            products: levels.map { id, level in
                Product(
                    id: id,
                    kind: .autoRenewable(
                        group: Selfies.group, level: Int64(level), duration: CalendarDuration(days: 7),
                        introductory: nil))
            },
            entitlements: [
                Entitlement(id: "all", grantedBy: [.level(Selfies.group, 1)]),
                Entitlement(id: "one", grantedBy: [.level(Selfies.group, 2)]),
                Entitlement(id: "lowest", grantedBy: [.level(Selfies.group, 1_000)]),
                Entitlement(id: "any", grantedBy: [.group(Selfies.group)]),
                Entitlement(id: "weekly", grantedBy: [.product(Selfies.oneWeekly)]),
                Entitlement(id: "mixed", grantedBy: [.product(Selfies.oneYearly), .level(Selfies.group, 1)]),
            ])
    }

    /// Renewals, upgrades, downgrades, grace and refunds of two subscriptions, and often asserted time.
    private static func replay(_ catalog: Catalog, asserts: Bool, using random: inout SplitMix64) -> Replay {
        var facts: [Fact] = []
        var count: UInt64 = 0
        func time() -> LogicalTime {
            count += 1
            return LogicalTime(rawValue: count)
        }
        for line in ["a", "b"] {
            var date = start.moved(random.int(0...20) * day)
            for number in 0..<random.int(0...6) {
                let transaction = TransactionReference(store: .appStore, id: TransactionID("\(line)\(number)"))
                let product = random.pick(catalog.products).id
                let end = date.moved(random.pick([7, 7, 7, random.int(0...20)]) * day)
                facts.append(
                    .purchase(
                        Purchase(
                            transaction: transaction, product: product,
                            terms: random.chance(1, in: 3) ? nil : catalog.terms(of: product), date: date,
                            originalID: number == 0 ? nil : TransactionID("\(line)0"), storeExpiry: end,
                            stamp: Stamp(signedDate: date, logicalTime: time()))))
                if random.chance(1, in: 4) {
                    let isUpgrade = random.chance(1, in: 2)
                    let cut = date.moved(random.int(0...12) * day)
                    facts.append(
                        .revocation(
                            Revocation(
                                transaction: transaction, revokedAt: isUpgrade ? nil : cut,
                                upgradedAt: isUpgrade ? cut : nil,
                                stamp: Stamp(signedDate: cut, logicalTime: time()))))
                }
                if random.chance(1, in: 4) {
                    facts.append(
                        .renewalState(
                            RenewalState(
                                line: .store(TransactionID("\(line)0")), willRenew: true,
                                graceEnd: end.moved(random.int(-2...9) * day),
                                stamp: Stamp(signedDate: end, logicalTime: time()))))
                }
                date = random.chance(2, in: 3) ? end : date.moved(random.int(0...25) * day)
            }
        }
        for _ in 0..<(asserts ? random.int(0...2) : 0) {
            let date = start.moved(random.int(0...40) * day)
            facts.append(
                .assertion(
                    Assertion(
                        Assertion.Reference(
                            group: Selfies.group, source: "promotion", until: date.moved(random.int(0...20) * day)),
                        assertedAt: date, recordedAt: date, replica: .random(using: &random), logicalTime: time())))
        }
        return Replay(Facts(account: Ledger(facts.map(\.record))), catalog: catalog)
    }

    /// All instants at which something may change, those before and after, and some random ones, ascending.
    private static func instants(_ replay: Replay, using random: inout SplitMix64) -> [Timestamp] {
        let periods = replay.timelines[Selfies.group]?.contributions ?? []
        let edges = periods.flatMap { [$0.start, $0.end] + ($0.revokedAt.map { [$0] } ?? []) }
        return
            (edges.flatMap { [$0.moved(-1), $0, $0.moved(1)] }
            + (0..<4).map { _ in start.moved(random.int(-3...90) * day + random.int(0...day)) }).sorted()
    }

    /// The end of the access that the periods give at `instant`, found by going from period to period.
    private static func end(of periods: [Period], at instant: Timestamp) -> Timestamp? {
        var end = instant
        while let next = periods.first(where: { $0.start <= end && end < $0.end }) { end = next.end }
        return end == instant ? nil : end
    }

    @Test("A level grants while a period of it or of a higher one is active, until the last of them ends")
    func naive() throws {
        let catalog = try Self.catalog()
        var granted: [EntitlementID: Int] = [:]
        var (oneOnly, chained) = (0, 0)
        let cases = try forAll("levels and products grant as their periods", cases: 2_000) { random, place in
            let replay = Self.replay(catalog, asserts: random.chance(1, in: 2), using: &random)
            let periods = replay.timelines[Selfies.group]?.periods ?? []
            func isPaid(_ levels: ClosedRange<Int64>, _ period: Period) -> Bool {
                period.level.map(levels.contains) ?? false
            }
            let expected: [(EntitlementID, (Period) -> Bool)] = [
                ("all", { isPaid(1...1, $0) }), ("one", { isPaid(1...2, $0) }), ("lowest", { isPaid(1...2, $0) }),
                ("any", { _ in true }), ("weekly", { $0.product == Selfies.oneWeekly }),
            ]
            for instant in Self.instants(replay, using: &random) {
                for (entitlement, counts) in expected {
                    let end = Self.end(of: periods.filter(counts), at: instant)
                    let access = replay.access(to: entitlement, at: instant)
                    switch access {
                    case .granted(let grant):
                        try #require(grant.until == end, "\(entitlement) at \(instant), \(place)")
                        granted[entitlement, default: 0] += 1
                        if periods.contains(where: { counts($0) && $0.end == instant }) { chained += 1 }
                    case .denied(.expired(let date)):
                        let ends = periods.filter { counts($0) && $0.end <= instant }.map(\.end)
                        try #require(end == nil && date == ends.max(), "\(entitlement) at \(instant), \(place)")
                    default: try #require(end == nil, "\(entitlement) at \(instant), \(place)")
                    }
                }
                let isOne = replay.access(to: "one", at: instant)?.isGranted == true
                if isOne, replay.access(to: "all", at: instant)?.isGranted == false { oneOnly += 1 }
            }
        }
        for (entitlement, count) in granted { #expect(count * 20 >= cases, "\(entitlement)") }
        #expect(granted.count == 5 && oneOnly * 20 >= cases && chained * 20 >= cases)
    }

    @Test("Without asserted time the lowest level grants exactly as the group")
    func lowestLevel() throws {
        let catalog = try Self.catalog()
        try forAll("the lowest level is the group", cases: 1_000) { random, place in
            let replay = Self.replay(catalog, asserts: false, using: &random)
            for instant in Self.instants(replay, using: &random) {
                let (level, group) = (replay.access(to: "lowest", at: instant), replay.access(to: "any", at: instant))
                if case .granted(let left) = level, case .granted(let right) = group {
                    try #require(left.until == right.until, "at \(instant), \(place)")
                } else {
                    try #require(level == group, "at \(instant), \(place)")
                }
            }
        }
    }

    @Test("Access never changes before the next boundary")
    func boundaries() throws {
        let catalog = try Self.catalog()
        var changes = 0
        let cases = try forAll("boundaries of levels", cases: 1_000) { random, place in
            let replay = Self.replay(catalog, asserts: random.chance(1, in: 2), using: &random)
            let instants = Self.instants(replay, using: &random)
            for (earlier, later) in zip(instants, instants.dropFirst()) {
                let (before, after) = (replay.snapshot(at: earlier).access, replay.snapshot(at: later).access)
                guard before != after else { continue }
                changes += 1
                let boundary = replay.nextBoundary(after: earlier)
                try #require(
                    boundary.map { earlier < $0 && $0 <= later } == true,
                    "from \(earlier) to \(later): \(boundary?.description ?? "none"), \(place)")
            }
        }
        #expect(changes >= cases)
    }
}
