/// A purchase of time in a non-renewing group, with all that is known about it.
public struct SoldTime: Hashable, Sendable {
    /// The purchase.
    public let purchase: Purchase
    /// What was sold: duration × quantity, to be added at once.
    public let duration: CalendarDuration
    /// The bonus as sold, added after it.
    public let bonus: CalendarDuration
    /// The revocation, if it was taken back.
    public let revocation: Revocation?
    /// Who recorded it and what they then knew, in ascending order of replica.
    public let recordings: [Recording]

    /// The end of what was sold if it begins at `start`.
    public func end(from start: Timestamp) -> Timestamp {
        start.adding(duration).adding(bonus)
    }

    /// The period from `start` to `end`, cut off at the revocation where there is one.
    public func period(from start: Timestamp, to end: Timestamp) -> Period {
        let cut = revocation.map { max(start, min($0.revokedAt, end)) } ?? end
        return Period(
            start: start, end: max(start, cut), transaction: purchase.transaction, product: purchase.product,
            revokedAt: revocation?.revokedAt)
    }
}

/// Time in a group that one purchase gives: active from `start` on, no longer at `end`.
public struct Period: Hashable, Sendable {
    /// The first instant.
    public var start: Timestamp
    /// The first instant after it; equal to ``start`` when nothing is left of it.
    public var end: Timestamp
    /// The purchase.
    public var transaction: TransactionReference
    /// What was bought.
    public var product: ProductID
    /// When the purchase was revoked, if it was.
    public var revokedAt: Timestamp?

    /// A period.
    public init(
        start: Timestamp, end: Timestamp, transaction: TransactionReference, product: ProductID,
        revokedAt: Timestamp? = nil
    ) {
        self.start = start
        self.end = end
        self.transaction = transaction
        self.product = product
        self.revokedAt = revokedAt
    }

    /// Whether nothing is left of it.
    public var isEmpty: Bool { start >= end }

    /// Whether `instant` lies in it: `start ≤ instant < end`.
    public func contains(_ instant: Timestamp) -> Bool { start <= instant && instant < end }
}
