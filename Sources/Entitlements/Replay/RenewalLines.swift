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
/// goes on from the end of the line's last purchase.
struct RenewalLines {
    let sold: [SoldRenewal]
    let states: [TransactionReference: RenewalState]

    /// One period a purchase, and one for each grace.
    func periods() -> [Period] {
        var lines: [TransactionReference: [SoldRenewal]] = [:]
        for renewal in sold { lines[renewal.purchase.line, default: []].append(renewal) }
        return lines.keys.sorted().flatMap { line in periods(of: lines[line] ?? [], state: states[line]) }
    }

    /// `line` is in ascending order of date.
    private func periods(of line: [SoldRenewal], state: RenewalState?) -> [Period] {
        var periods = line.indices.map { index in
            let renewal = line[index]
            let successor = line[(index + 1)...].first { $0.purchase.product != renewal.purchase.product }
            var end = max(renewal.end, renewal.purchase.date)
            if let successor { end = min(end, successor.purchase.date) }
            if let revokedAt = renewal.revokedAt { end = min(end, max(revokedAt, renewal.purchase.date)) }
            return Period(
                start: renewal.purchase.date, end: end,
                origin: .purchase(renewal.purchase.transaction, renewal.purchase.product),
                revokedAt: renewal.revokedAt, level: renewal.level)
        }
        if let last = line.last, last.revokedAt == nil, let graceEnd = state?.graceEnd, let end = periods.last?.end,
            graceEnd > end
        {
            periods.append(
                Period(
                    start: end, end: graceEnd, origin: .grace(last.purchase.transaction, last.purchase.product),
                    level: last.level))
        }
        return periods
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
            let state = facts.renewalStates[purchase.line]
        else { return nil }
        return Snapshot.Renewal(
            willRenew: state.willRenew, graceEnd: state.graceEnd, isInBillingRetry: state.isInBillingRetry,
            pendingProduct: state.pendingProduct)
    }
}
