import EntitlementsTestSupport
import Foundation
import Testing

@testable import Entitlements

@Suite("Malicious facts do no harm")
struct HostileFactsTests {
    /// Numbers at the limits of `Int64`, and dates at the limits of ``Timestamp`` (the years 1 and 9999).
    private static let edges: [Int64] = [.min, .min + 1, -62_135_596_800_000, -1, 0, 1, 253_402_300_799_999, .max]

    @Test("Replaying and explaining random facts with extreme dates and numbers does not trap")
    func limits() throws {
        let catalog = try Shop.catalog(bonus: CalendarDuration(days: 1))
        try forAll("facts at their limits", cases: 2_000) { random, place in
            var facts: [Fact] = []
            for _ in 0..<random.int(1...12) { facts.append(Self.fact(using: &random)) }
            let ledger = Ledger(facts.map(\.record))
            let read = Facts(account: ledger, device: ledger, server: ledger, remote: ledger)
            for rule in ConflictRules.expiryRules {
                let rules = ConflictRules(expiry: rule, flags: LastWriterWins(), consumables: .shared)
                let replay = Replay(
                    read, catalog: catalog, environment: random.pick([.production, .sandbox]), rules: rules)
                for instant in [Timestamp.earliest, Timestamp(milliseconds: 0), .latest] {
                    let snapshot = replay.snapshot(at: instant)
                    try #require(snapshot.balances.allSatisfy { $0.units >= 0 }, "\(place)")
                    try #require(snapshot.subscriptions.allSatisfy { $0.daysRemaining >= 0 }, "\(place)")
                    for entitlement in catalog.entitlements {
                        try #require(replay.explanation(of: entitlement.id, at: instant) != nil, "\(place)")
                    }
                    _ = replay.end(afterBuying: Shop.threeMonths, quantity: 10_000, at: instant)
                    if let next = replay.nextBoundary(after: instant) { try #require(next > instant, "\(place)") }
                }
                for timeline in replay.timelines.values {
                    try #require(timeline.contributions.allSatisfy { $0.start <= $0.end }, "\(place)")
                }
            }
        }
    }

    private static func fact(using random: inout SplitMix64) -> Fact {
        guard random.chance(2, in: 3) else { return .random(using: &random) }
        let date = Timestamp(milliseconds: random.pick(edges))
        let other = Timestamp(milliseconds: random.pick(edges))
        let time = LogicalTime(rawValue: random.pick([0, 1, .max - 1, .max]))
        let stamp = Stamp(signedDate: random.chance(1, in: 2) ? nil : other, logicalTime: time)
        let transaction = TransactionReference(
            store: random.pick([.reported, "preview"]), id: random.pick(["preview", "A", "B"]))
        let replica = ReplicaID.random(using: &random)
        switch random.int(0...4) {
        case 0, 1:
            return .purchase(
                Purchase(
                    transaction: transaction,
                    product: random.pick([Shop.threeMonths, Shop.weekly, Shop.owl, Shop.coins]), terms: nil,
                    date: date, quantity: random.pick([0, 1, 10_000, .max]),
                    originalID: random.pick([nil, "A", "B"]), storeExpiry: random.pick([nil, other]),
                    isIntroductory: random.chance(1, in: 2), stamp: stamp))
        case 2: return .revocation(Revocation(transaction: transaction, revokedAt: other, stamp: stamp))
        case 3:
            return .renewalState(
                RenewalState(
                    line: transaction, willRenew: true, graceEnd: other, pendingProduct: "none", stamp: stamp))
        default:
            return .assertion(
                Assertion(
                    Assertion.Reference(group: random.pick([Shop.random, Shop.selfies]), source: "x", until: other),
                    assertedAt: date, recordedAt: date, replica: replica, logicalTime: time))
        }
    }

    @Test("A purchase or refund that uses the preview's transaction id does not affect the preview")
    func preview() throws {
        let now = try Timestamp("2026-03-01")
        let end = try Timestamp("2026-06-01")
        let forged = TransactionReference(store: "preview", id: "preview")
        let story = try Story().stating(at: "2026-01-01") { date, time in
            .purchase(
                Purchase(
                    transaction: forged, product: Shop.owl, terms: Terms(kind: .nonConsumable), date: date,
                    stamp: Stamp(logicalTime: time)))
        }.refunding(forged, at: "2026-01-01")
        #expect(story.replay().end(afterBuying: Shop.threeMonths, at: now) == end)
        #expect(
            try Story().refunding(forged, at: "2020-01-01").replay().end(afterBuying: Shop.threeMonths, at: now) == end)
    }

    /// Returns 11 facts for each of `count` seconds.
    ///
    /// They form one long line of renewals, `count` lines of a single purchase with grace, refunded timed purchases,
    /// assertions, and pending purchases. Units are bought and spent both of one product and of `count` products.
    private static func flood(_ count: Int) -> Facts {
        let replica = ReplicaID(bytes: [UInt8](repeating: 1, count: 16))
        let facts = (1...count).flatMap { number -> [Fact] in
            let date = Timestamp(milliseconds: Int64(number) * 1_000)
            let stamp = Stamp(logicalTime: LogicalTime(rawValue: UInt64(number)))
            let gem = ProductID("gem\(number)")
            func purchase(_ product: ProductID, _ kind: String, original: TransactionID? = nil, terms: Terms? = nil)
                -> Fact
            {
                .purchase(
                    Purchase(
                        transaction: TransactionReference(id: TransactionID("\(kind)\(number)")), product: product,
                        terms: terms, date: date, originalID: original, stamp: stamp))
            }
            func spend(_ product: ProductID, _ id: String, by replica: ReplicaID) -> Fact {
                .spend(
                    Spend(
                        id: SpendID(id), product: product, units: 1, date: date, replica: replica,
                        logicalTime: stamp.logicalTime))
            }
            guard let replica else { return [] }
            return [
                purchase(Shop.weekly, "r", original: "r"), purchase(Shop.weekly, "s"),
                purchase(Shop.threeMonths, "t"), purchase(Shop.coins, "c"),
                purchase(gem, "g", terms: Terms(kind: .consumable(units: 5))),
                .pending(PendingPurchase(product: gem, requestedAt: date, logicalTime: stamp.logicalTime)),
                spend(Shop.coins, "\(number)", by: replica), spend(gem, "g\(number)", by: replica),
                .revocation(
                    Revocation(
                        transaction: TransactionReference(id: TransactionID("t\(number)")), revokedAt: date,
                        stamp: stamp)),
                .renewalState(
                    RenewalState(
                        line: TransactionReference(id: TransactionID("s\(number)")), willRenew: true,
                        graceEnd: date.adding(CalendarDuration(days: 9)), stamp: stamp)),
                .assertion(
                    Assertion(
                        Assertion.Reference(
                            group: number.isMultiple(of: 2) ? Shop.random : Shop.selfies, source: "x",
                            until: date.adding(CalendarDuration(days: 30))),
                        assertedAt: date, recordedAt: date, replica: replica, logicalTime: stamp.logicalTime)),
            ]
        }
        return Facts(facts, device: facts)
    }

    @Test("The cost of replay, snapshot, explanation and preview grows almost linearly with the number of facts")
    func nearLinear() throws {
        let catalog = try Shop.catalog()
        let now = Timestamp(milliseconds: 1_000_000)
        func operations(_ facts: Facts) -> [() -> Void] {
            let replay = Replay(facts, catalog: catalog)
            return [
                { _ = Replay(facts, catalog: catalog) }, { _ = replay.snapshot(at: now) },
                { _ = replay.explanation(of: Shop.randomOwls, at: now) },
                { _ = replay.explanation(of: "selfies", at: now) },
                { _ = replay.end(afterBuying: Shop.oneMonth, at: now) },
            ]
        }
        let (small, large) = (operations(Self.flood(500)), operations(Self.flood(2_000)))
        for (number, (small, large)) in zip(small, large).enumerated() {
            let growth = Growth(of: small, to: large, limit: 10)
            print("flood: operation \(number), 5,500 facts \(growth.small), 22,000 facts \(growth.large)")
            #expect(growth.ratio < 10, "operation \(number): \(growth); quadratic growth would be 16")
        }
    }

    @Test("A 16-fold increase in processor time is detected regardless of other load")
    func quadratic() {
        func work(_ count: Int) -> () -> Void {
            { #expect((0..<count * count).reduce(into: 0) { $0 ^= $1 } >= 0) }
        }
        let growth = Growth(of: work(100), to: work(400), limit: 10)
        #expect(growth.ratio >= 10, "\(growth)")
    }
}

/// The processor time of the same work on a small and a large input.
///
/// Each time is the minimum of several runs, so that other load on the machine does not matter.
private struct Growth {
    private(set) var small = Duration.seconds(86_400)
    private(set) var large = Duration.seconds(86_400)
    var ratio: Double { large / small }

    /// Runs both alternately, 3 to 20 times, and stops once `large` takes less than `limit` times as long as `small`.
    /// A minimum never falls below the true cost, so further runs do not hide real slowness.
    init(of small: () -> Void, to large: () -> Void, limit: Double) {
        for round in 0..<20 where round < 3 || ratio >= limit {
            self.small = min(self.small, Self.processorTime(of: small))
            self.large = min(self.large, Self.processorTime(of: large))
        }
    }

    /// Returns the processor time of this thread, which excludes other tests and waiting.
    private static func processorTime(of work: () -> Void) -> Duration {
        func spent() -> Duration {
            var time = timespec()
            clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
            return .seconds(time.tv_sec) + .nanoseconds(time.tv_nsec)
        }
        let start = spent()
        work()
        return spent() - start
    }
}
