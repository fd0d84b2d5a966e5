/// A purchase in an auto-renewable group, with its level and its end.
struct SoldRenewal: Hashable {
    let purchase: Purchase
    let level: Int64
    /// The end that the store stated, or else the end that the terms give.
    let end: Timestamp
    let revokedAt: Timestamp?
    /// The date by which an upgrade had replaced the purchase.
    let upgradedAt: Timestamp?
}

/// Turns the purchases of one auto-renewable group into periods.
///
/// Purchases state their own ends, so none is appended to another. The purchases of one subscription form its line. If
/// another product follows in a line, the earlier purchase ends at the start of the later one: an upgrade takes effect
/// at once, and the store refunds the rest; a downgrade begins at the end of the period anyway. Products that begin at
/// the same time do not follow each other, and none is taken over by a later period of the other: the subscription
/// sells them together.
///
/// After a failed payment the store may grant grace. The grace extends the purchase that was the last of the line when
/// the store stated it, and ends when another product follows.
struct RenewalLines {
    let sold: [SoldRenewal]
    let facts: Facts

    /// Returns one period for each purchase, and one for each grace. Linear in the number of purchases, except for
    /// sorting the lines.
    func periods() -> [Period] {
        var lines: [TransactionReference: [SoldRenewal]] = [:]
        for renewal in sold { lines[renewal.purchase.line, default: []].append(renewal) }
        return lines.keys.sorted().flatMap { line in periods(of: lines[line] ?? []) }
    }

    /// - Parameter line: The purchases of one subscription, in ascending order of date.
    private func periods(of line: [SoldRenewal]) -> [Period] {
        let takeovers = Self.takeovers(in: line)
        var periods = zip(line, takeovers).map { renewal, takeover in
            var end = max(renewal.end, renewal.purchase.date)
            if let takeover, takeover < end {
                end = takeover
            } else if let upgradedAt = renewal.upgradedAt {
                // The successor is not known yet.
                end = min(end, max(upgradedAt, renewal.purchase.date))
            }
            if let revokedAt = renewal.revokedAt { end = min(end, max(revokedAt, renewal.purchase.date)) }
            return Period(
                start: renewal.purchase.date, end: end,
                origin: .purchase(renewal.purchase.transaction, renewal.purchase.product),
                revokedAt: renewal.revokedAt, level: renewal.level)
        }
        if let (index, graceEnd) = grace(in: line) {
            let (start, end) = (periods[index].end, min(graceEnd, takeovers[index] ?? graceEnd))
            let purchase = line[index].purchase
            if start < end {
                periods.append(
                    Period(
                        start: start, end: end, origin: .grace(purchase.transaction, purchase.product),
                        level: line[index].level))
            }
        }
        return periods
    }

    /// Returns for each purchase the start of the next later purchase of a product that does not begin together with
    /// it. Linear in the number of purchases.
    private static func takeovers(in line: [SoldRenewal]) -> [Timestamp?] {
        // Blocks of purchases that begin together.
        let starts = line.indices.filter { $0 == 0 || line[$0 - 1].purchase.date != line[$0].purchase.date }
        func block(_ number: Int) -> Range<Int> {
            starts[number]..<(number + 1 < starts.count ? starts[number + 1] : line.count)
        }
        var takeovers = [Timestamp?](repeating: nil, count: line.count)
        // The next block that takes over each block. All blocks between them have no other products.
        var next = [Int](repeating: starts.count, count: starts.count)
        for number in starts.indices.reversed() {
            let own = Set(block(number).map { line[$0].purchase.product })
            var other = number + 1
            while other < starts.count, block(other).allSatisfy({ own.contains(line[$0].purchase.product) }) {
                other = next[other]
            }
            next[number] = other
            guard other < starts.count else { continue }
            for index in block(number) { takeovers[index] = line[starts[other]].purchase.date }
        }
        return takeovers
    }

    /// Returns the purchase that the store extends after a failed payment, and the end of the grace. It is the last
    /// purchase made before the store's statement, because later purchases were paid.
    private func grace(in line: [SoldRenewal]) -> (index: Int, end: Timestamp)? {
        guard let last = line.last, let known = facts.renewalStates[last.purchase.line], let end = known.graceEnd
        else { return nil }
        let stated = known.stamp.signedDate ?? .latest
        guard let index = line.lastIndex(where: { $0.purchase.date <= stated }), line[index].revokedAt == nil,
            line[index].upgradedAt == nil, facts.renewalState(of: line[index].purchase) != nil,
            line[index].purchase.bounds(end)
        else { return nil }
        return (index, end)
    }
}

extension Purchase {
    /// Returns `true` if `end` is at most 100 years after the purchase.
    func bounds(_ end: Timestamp) -> Bool { Self.bounds(end, from: date) }

    /// Returns `true` if `end` is at most 100 years after `start`.
    static func bounds(_ end: Timestamp, from start: Timestamp) -> Bool {
        end <= start.adding(CalendarDuration(months: CalendarDuration.longestYears * 12))
    }
}

extension Snapshot {
    /// The renewal of the subscription that counts in a group, as last stated by its store.
    public struct Renewal: Hashable, Sendable {
        /// A Boolean value that indicates whether the store will renew the subscription.
        public var willRenew: Bool
        /// The end of the grace that the store grants after a failed payment; `nil` if it grants none.
        public var graceEnd: Timestamp?
        /// A Boolean value that indicates whether a payment failed and the store is retrying it.
        public var isInBillingRetry: Bool
        /// The product to which the subscription changes at the next renewal; `nil` if it stays the same.
        public var pendingProduct: ProductID?
    }
}

extension Replay {
    /// Returns the period that counts at `instant`: among active periods the one with the highest level, then the
    /// latest end. If none is active, returns the period that ended last.
    func leadingPeriod(of timeline: Timeline, at instant: Timestamp) -> Period? {
        // By position, because copying periods costs more than comparing them.
        let periods = timeline.periods
        let begun = periods.indices.lazy.filter { periods[$0].start <= instant }
        let leading =
            begun.filter { periods[$0].contains(instant) }.min { left, right in
                (periods[left].level ?? .max, periods[right].end) < (periods[right].level ?? .max, periods[left].end)
            } ?? begun.max { periods[$0].end < periods[$1].end }
        return leading.map { periods[$0] }
    }

    /// Returns the renewal state of the subscription that `period` belongs to.
    func renewal(of period: Period?) -> Snapshot.Renewal? {
        guard let transaction = period?.transaction, period?.level != nil, let purchase = facts[transaction],
            let state = facts.renewalState(of: purchase)
        else { return nil }
        return Snapshot.Renewal(
            willRenew: state.willRenew, graceEnd: state.graceEnd, isInBillingRetry: state.isInBillingRetry,
            pendingProduct: state.pendingProduct)
    }
}
