import Entitlements
import EntitlementsTestSupport
import Testing

@Suite("A purchase that arrives late never uncovers an instant that was covered")
struct CoverageTests {
    @Test("This holds for random histories with times of day, month ends, quantities, bonuses and refunds")
    func lateArrivals() throws {
        let catalog = try Shop.catalog()
        var gaps = 0
        var moved = 0
        let cases = try forAll("coverage", cases: 20_000) { random, place in
            let history = History(using: &random)
            let late = Int(random.int(0...Int64(history.purchases.count - 1)))
            let before = history.timeline(catalog, without: late)
            let after = history.timeline(catalog)
            for boundary in before.periods.flatMap({ [$0.start, $0.end] }) {
                for instant in [boundary.moved(-1), boundary, boundary.moved(1)] where before.isActive(at: instant) {
                    try #require(after.isActive(at: instant), "\(instant) was covered; \(place)")
                }
            }
            for chain in before.chains {
                let isCovered = after.chains.contains { $0.start <= chain.start && chain.end <= $0.end }
                try #require(isCovered, "\(chain) was one stretch; \(place)")
            }
            gaps += before.chains.count > 1 ? 1 : 0
            moved += after.chains.count > 0 && after.periods.last?.end != before.periods.last?.end ? 1 : 0
        }
        // The histories are not trivial: many have gaps, and in most of them the late purchase moves the end.
        #expect(gaps * 10 > cases)
        #expect(moved * 4 > cases)
    }

    @Test("Periods never overlap, and each has its purchased duration unless it was refunded")
    func periodsAreWhole() throws {
        let catalog = try Shop.catalog()
        try forAll("whole periods", cases: 5_000) { random, place in
            let history = History(using: &random)
            let periods = history.timeline(catalog).contributions
            try #require(periods.count == history.purchases.count, "\(place)")
            for (period, next) in zip(periods, periods.dropFirst()) {
                try #require(period.end <= next.start, "\(place)")
            }
            for period in periods {
                let purchase = try #require(history.purchases.first { $0.transaction == period.transaction })
                let bought = try #require(purchase.terms)
                guard case .nonRenewing(_, let duration) = bought.kind else { continue }
                let whole = period.start.adding(duration.multiplied(by: purchase.quantity)).adding(bought.bonus)
                let end = period.revokedAt.map { max(period.start, min($0, whole)) } ?? whole
                try #require(period.end == end, "\(place)")
                try #require(period.start >= purchase.date, "\(place)")
            }
        }
    }

    @Test("Facts that are neither purchases nor revocations change no period under stackPurchases")
    func otherFacts() throws {
        let catalog = try Shop.catalog()
        try forAll("other facts", cases: 3_000) { random, place in
            let history = History(using: &random)
            let fact = Fact.random(using: &random)
            switch fact {
            case .purchase, .revocation: return
            default: break
            }
            let replay = Replay(
                Facts(account: history.ledger.joined(with: Ledger([fact.record]))), catalog: catalog)
            try #require(replay.timelines[Shop.random] == history.timeline(catalog), "\(place)")
        }
    }
}

/// Purchases of one group within a month to two years, some of them refunded.
private struct History {
    var purchases: [Purchase] = []
    var revocations: [Fact] = []

    init(using random: inout SplitMix64) {
        let center = Timestamp(milliseconds: 1_767_225_600_000)  // 2026-01-01
        let years = random.int(0...2)
        for number in 1...random.int(1...7) {
            let transaction = TransactionReference(id: TransactionID("\(number)"))
            let date = Timestamp.near(center, years: years, using: &random)
            // Short durations move later purchases slightly, which exposes flaws in a rule for missing days.
            let duration = random.pick([
                CalendarDuration(months: 1), CalendarDuration(months: 3), CalendarDuration(months: 12),
                CalendarDuration(months: 1, days: 1, seconds: 1), CalendarDuration(days: 1),
                CalendarDuration(seconds: random.int(1...172_800)),
            ])
            let bonus = random.pick([.zero, CalendarDuration(days: 1), CalendarDuration(months: 1)])
            purchases.append(
                Purchase(
                    transaction: transaction, product: "time",
                    terms: Terms(kind: .nonRenewing(group: Shop.random, duration: duration), bonus: bonus), date: date,
                    quantity: random.pick([1, 1, 1, 2, 3]), stamp: Stamp(logicalTime: LogicalTime(rawValue: 1))))
            guard random.chance(1, in: 4) else { continue }
            revocations.append(
                .revocation(
                    Revocation(
                        transaction: transaction, revokedAt: .near(center, years: 3, using: &random),
                        stamp: Stamp(logicalTime: LogicalTime(rawValue: 2)))))
        }
    }

    var ledger: Ledger { Ledger((purchases.map { .purchase($0) } + revocations).map(\.record)) }

    func timeline(_ catalog: Catalog, without late: Int? = nil) -> Timeline {
        var history = self
        if let late { history.purchases.remove(at: late) }
        return Replay(Facts(account: history.ledger), catalog: catalog).timelines[Shop.random] ?? Timeline()
    }
}
