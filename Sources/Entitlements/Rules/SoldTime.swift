/// What is known about the time in a non-renewing group, in the order of replay.
public enum TimelineInput: Hashable, Sendable {
    /// Time was sold.
    case sold(SoldTime)
    /// A system that keeps no purchases says until when the group is paid.
    case asserted(AssertedTime)
}

/// A purchase of time in a non-renewing group, with all that is known about it.
public struct SoldTime: Hashable, Sendable {
    /// The purchase.
    public let purchase: Purchase
    /// What was sold: duration × quantity, to be added at once.
    public let duration: CalendarDuration
    /// The bonus as sold, added after it.
    public let bonus: CalendarDuration
    /// From when on it counts nothing, if it was taken back.
    public let revokedAt: Timestamp?
    /// Who recorded it and what they then knew, in ascending order of replica.
    public let recordings: [Recording]
    /// Whether the remote held the purchase when it was last met; true where nobody keeps track of that.
    public let isAtRemote: Bool

    /// The end of what was sold if it begins at `start`.
    public func end(from start: Timestamp) -> Timestamp {
        start.adding(duration).adding(bonus)
    }

    /// The period from `start` to `end`, cut off at the revocation where there is one.
    public func period(from start: Timestamp, to end: Timestamp) -> Period {
        let cut = revokedAt.map { max(start, min($0, end)) } ?? end
        return Period(
            start: start, end: max(start, cut), origin: .purchase(purchase.transaction, purchase.product),
            revokedAt: revokedAt)
    }
}

/// An expiry that a system asserts which keeps no purchases.
public struct AssertedTime: Hashable, Sendable {
    /// The assertion.
    public let assertion: Assertion
    /// Whether the remote held the assertion when it was last met; true where nobody keeps track of that.
    public let isAtRemote: Bool

    /// The period that the assertion adds when `endSoFar` is the end of what is known before it: from the later of
    /// that end and the date of the statement to the asserted date; an empty one when nothing is left of it.
    public func period(after endSoFar: Timestamp) -> Period {
        let start = max(endSoFar, assertion.assertedAt)
        return Period(
            start: start, end: max(start, assertion.reference.until), origin: .assertion(assertion.reference))
    }
}

/// Time in a group that one fact gives: active from `start` on, no longer at `end`.
public struct Period: Hashable, Sendable {
    /// What gives a period.
    public enum Origin: Hashable, Sendable {
        /// A purchase of this product.
        case purchase(TransactionReference, ProductID)
        /// A store's grace after a failed payment for what this purchase gave.
        case grace(TransactionReference, ProductID)
        /// An expiry from a system that keeps no purchases.
        case assertion(Assertion.Reference)
    }

    /// The first instant.
    public var start: Timestamp
    /// The first instant after it; equal to ``start`` when nothing is left of it.
    public var end: Timestamp
    /// What gives it.
    public var origin: Origin
    /// When the purchase was revoked, if it was.
    public var revokedAt: Timestamp?
    /// The level of service in an auto-renewable group, 1 is the highest; `nil` in other groups.
    public var level: Int64?

    /// A period.
    public init(
        start: Timestamp, end: Timestamp, origin: Origin, revokedAt: Timestamp? = nil, level: Int64? = nil
    ) {
        self.start = start
        self.end = end
        self.origin = origin
        self.revokedAt = revokedAt
        self.level = level
    }

    /// The purchase, when one gives it.
    public var transaction: TransactionReference? {
        switch origin {
        case .purchase(let transaction, _), .grace(let transaction, _): transaction
        case .assertion: nil
        }
    }

    /// What was bought, when a purchase gives it.
    public var product: ProductID? {
        switch origin {
        case .purchase(_, let product), .grace(_, let product): product
        case .assertion: nil
        }
    }

    /// Whether nothing is left of it.
    public var isEmpty: Bool { start >= end }

    /// Whether `instant` lies in it: `start ≤ instant < end`.
    public func contains(_ instant: Timestamp) -> Bool { start <= instant && instant < end }
}
