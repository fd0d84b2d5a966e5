/// Each purchase is appended to what is left: it starts at the later of its date and the end so far. The default.
///
/// A revoked purchase keeps its period up to the revocation, possibly none, and what follows moves up. Adding a
/// purchase never uncovers an instant that was covered, in whatever order purchases become known.
public struct StackPurchases: ExpiryRule {
    /// `stackPurchases`.
    public let name = "stackPurchases"

    /// The rule.
    public init() {}

    /// One period a purchase, none overlapping another.
    public func periods(of purchases: [SoldTime]) -> [Period] {
        var endSoFar = Timestamp.earliest
        return purchases.map { sold in
            let start = max(sold.purchase.date, endSoFar)
            let period = sold.period(from: start, to: sold.end(from: start))
            endSoFar = max(endSoFar, period.end)
            return period
        }
    }
}

/// The tutorials' rule, for comparison and for apps that must keep it: each recording computes
/// max(known end, purchase date) + duration on its own, and the latest of all ends counts.
///
/// It loses paid time: two devices that each buy three months offline both compute the same end. A purchase that no
/// replica recorded (it came from a store, or from a history) counts as recorded by someone who knew all earlier ones.
public struct LatestExpiryWins: ExpiryRule {
    /// `latestExpiryWins`.
    public let name = "latestExpiryWins"

    /// The rule.
    public init() {}

    /// One period a purchase, from its date to the latest end that a recording of it computed; they may overlap.
    public func periods(of purchases: [SoldTime]) -> [Period] {
        var latest: Timestamp?
        return purchases.map { sold in
            let known = sold.recordings.isEmpty ? [latest] : sold.recordings.map(\.knownEnd)
            let starts = known.map { max($0 ?? sold.purchase.date, sold.purchase.date) }
            let end = starts.map(sold.end(from:)).max() ?? sold.purchase.date
            let period = sold.period(from: sold.purchase.date, to: end)
            latest = max(latest ?? period.end, period.end)
            return period
        }
    }
}
