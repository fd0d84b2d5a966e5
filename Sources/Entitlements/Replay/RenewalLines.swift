/// A purchase in an auto-renewable group, valued.
struct SoldRenewal: Hashable {
    let purchase: Purchase
    let level: Int64
    /// The store's own end where it gave one, else what the terms give.
    let end: Timestamp
    let revokedAt: Timestamp?
}

/// Turns the purchases of one auto-renewable group into periods.
///
/// They bring their own ends, so nothing is appended. The purchases of one subscription are its line: where another
/// product follows in it, what came before ends at its start (an upgrade takes over at once, and the store pays the
/// rest back; a downgrade begins where the period ends anyway). After a failed payment the store may grant grace: it
/// goes on from the end of the purchase that was the line's last when the store said so, and ends where another
/// product follows, as that purchase does.
struct RenewalLines {
    let sold: [SoldRenewal]
    let facts: Facts

    /// One period a purchase, and one for each grace. Linear in the number of purchases.
    func periods() -> [Period] {
        var lines: [TransactionReference: [SoldRenewal]] = [:]
        for renewal in sold { lines[renewal.purchase.line, default: []].append(renewal) }
        return lines.keys.sorted().flatMap { line in periods(of: lines[line] ?? []) }
    }

    /// `line` is in ascending order of date.
    private func periods(of line: [SoldRenewal]) -> [Period] {
        let takeovers = Self.takeovers(in: line)
        var periods = zip(line, takeovers).map { renewal, takeover in
            var end = max(renewal.end, renewal.purchase.date)
            if let takeover { end = min(end, takeover) }
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

    /// For each purchase the start of the first one after it that is of another product.
    private static func takeovers(in line: [SoldRenewal]) -> [Timestamp?] {
        var takeovers = [Timestamp?](repeating: nil, count: line.count)
        for index in line.indices.dropLast().reversed() {
            let next = line[index + 1].purchase
            takeovers[index] = next.product == line[index].purchase.product ? takeovers[index + 1] : next.date
        }
        return takeovers
    }

    /// The purchase that the store prolongs after a failed payment, and until when: the last one that was made when the
    /// store said so. What came later was paid.
    private func grace(in line: [SoldRenewal]) -> (index: Int, end: Timestamp)? {
        guard let last = line.last, let known = facts.renewalStates[last.purchase.line], let end = known.graceEnd
        else { return nil }
        let stated = known.stamp.signedDate ?? .latest
        guard let index = line.lastIndex(where: { $0.purchase.date <= stated }), line[index].revokedAt == nil,
            facts.renewalState(of: line[index].purchase) != nil,
            line[index].purchase.bounds(end)
        else { return nil }
        return (index, end)
    }
}

extension Purchase {
    /// Whether an end that a store gives is not more than 100 years away.
    func bounds(_ end: Timestamp) -> Bool {
        end <= date.adding(CalendarDuration(months: CalendarDuration.longestYears * 12))
    }
}

extension Snapshot {
    /// How the subscription goes on that counts in a group, by its store's latest word.
    public struct Renewal: Hashable, Sendable {
        /// Whether the store will renew it.
        public var willRenew: Bool
        /// Until when access goes on although a payment failed, if the store grants that.
        public var graceEnd: Timestamp?
        /// Whether a payment failed and the store keeps trying.
        public var isInBillingRetry: Bool
        /// What it renews as, when that is another product.
        public var pendingProduct: ProductID?
    }
}

extension Replay {
    /// Of the periods of `group` at `instant` the one that counts: the highest level, then the latest end. When nothing
    /// is active, the one that ended last.
    func leadingPeriod(of timeline: Timeline, at instant: Timestamp) -> Period? {
        let active = timeline.periods.filter { $0.contains(instant) }
        if !active.isEmpty {
            return active.min { left, right in
                (left.level ?? .max, right.end) < (right.level ?? .max, left.end)
            }
        }
        return timeline.periods.filter { $0.start <= instant }.max { $0.end < $1.end }
    }

    /// What the store says about the subscription that `period` belongs to.
    func renewal(of period: Period?) -> Snapshot.Renewal? {
        guard let transaction = period?.transaction, period?.level != nil, let purchase = facts[transaction],
            let state = facts.renewalState(of: purchase)
        else { return nil }
        return Snapshot.Renewal(
            willRenew: state.willRenew, graceEnd: state.graceEnd, isInBillingRetry: state.isInBillingRetry,
            pendingProduct: state.pendingProduct)
    }
}
