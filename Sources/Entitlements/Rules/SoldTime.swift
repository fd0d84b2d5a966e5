/// A purchase or assertion of time in a non-renewing group, as an ``ExpiryRule`` receives it.
public enum TimelineInput: Hashable, Sendable {
    /// A purchase of time.
    case sold(SoldTime)
    /// An expiry asserted by a system that keeps no purchases.
    case asserted(AssertedTime)
}

/// A purchase of time in a non-renewing group, with its bonus, revocation and recordings.
public struct SoldTime: Hashable, Sendable {
    /// The purchase.
    public let purchase: Purchase
    /// The duration of the product multiplied by the quantity. It is added in one step: `P1M` × 3 is `P3M`.
    ///
    /// It and the bonus are as sold, or shorter in a test environment: see ``Policy/sandboxTime``.
    public let duration: CalendarDuration
    /// The bonus in force at the time of sale, added after ``duration``.
    public let bonus: CalendarDuration
    /// The date of the revocation; `nil` if the purchase is not revoked.
    public let revokedAt: Timestamp?
    /// The recordings of the purchase, in ascending order of replica.
    public let recordings: [Recording]
    /// A Boolean value that indicates whether the remote held the purchase at the last contact.
    ///
    /// `true` if the remote's state is not tracked.
    public let isAtRemote: Bool

    /// Returns the end of the purchased time if it begins at `start`.
    public func end(from start: Timestamp) -> Timestamp {
        start.adding(duration).adding(bonus)
    }

    /// Returns the period from `start` to `end`. A revocation ends it early.
    public func period(from start: Timestamp, to end: Timestamp) -> Period {
        let cut = revokedAt.map { max(start, min($0, end)) } ?? end
        return Period(
            start: start, end: max(start, cut), origin: .purchase(purchase.transaction, purchase.product),
            revokedAt: revokedAt)
    }
}

/// An assertion of an expiry date by a system that keeps no purchases.
public struct AssertedTime: Hashable, Sendable {
    /// The assertion.
    public let assertion: Assertion
    /// A Boolean value that indicates whether the remote held the assertion at the last contact.
    ///
    /// `true` if the remote's state is not tracked.
    public let isAtRemote: Bool

    /// Returns the period that the assertion adds after `endSoFar`.
    ///
    /// The period starts at `endSoFar` or the date of the assertion, whichever is later, and ends at the asserted date.
    /// It is empty if the asserted date is not after the start.
    ///
    /// - Parameter endSoFar: The end of all earlier periods; ``Timestamp/earliest`` if there are none.
    public func period(after endSoFar: Timestamp) -> Period {
        let start = max(endSoFar, assertion.assertedAt)
        return Period(
            start: start, end: max(start, assertion.reference.until), origin: .assertion(assertion.reference))
    }
}

/// A span of time in a group that one fact grants.
///
/// A period is half-open: it contains ``start`` but not ``end``.
public struct Period: Hashable, Sendable {
    /// The fact that grants a period.
    public enum Origin: Hashable, Sendable {
        /// A purchase of this product.
        case purchase(TransactionReference, ProductID)
        /// The grace period of a store after a failed payment, which extends this purchase.
        case grace(TransactionReference, ProductID)
        /// An expiry asserted by a system that keeps no purchases.
        case assertion(Assertion.Reference)
    }

    /// The first instant of the period.
    public var start: Timestamp
    /// The first instant after the period; equal to ``start`` if the period is empty, and ``Timestamp/latest`` if it
    /// never ends.
    public var end: Timestamp
    /// The fact that grants the period.
    public var origin: Origin
    /// The date on which the purchase was revoked; `nil` if it was not.
    public var revokedAt: Timestamp?
    /// The level of service in an auto-renewable group, where 1 is the highest; `nil` in other groups.
    public var level: Int64?

    /// Creates a period.
    public init(
        start: Timestamp, end: Timestamp, origin: Origin, revokedAt: Timestamp? = nil, level: Int64? = nil
    ) {
        self.start = start
        self.end = end
        self.origin = origin
        self.revokedAt = revokedAt
        self.level = level
    }

    /// The transaction of the purchase that grants the period; `nil` for an assertion.
    public var transaction: TransactionReference? {
        switch origin {
        case .purchase(let transaction, _), .grace(let transaction, _): transaction
        case .assertion: nil
        }
    }

    /// The product of the purchase that grants the period; `nil` for an assertion.
    public var product: ProductID? {
        switch origin {
        case .purchase(_, let product), .grace(_, let product): product
        case .assertion: nil
        }
    }

    /// A Boolean value that indicates whether the period contains no instant.
    public var isEmpty: Bool { start >= end }

    /// Returns `true` if `start ≤ instant < end`.
    public func contains(_ instant: Timestamp) -> Bool { start <= instant && instant < end }
}

extension Entitlement.Source {
    /// Returns `true` if the source counts `period`, one of its group or product.
    func counts(_ period: Period) -> Bool {
        switch self {
        case .group: true
        case .level(_, let level): period.level.map { $0 <= level } ?? false
        case .product(let product): period.level != nil && period.product == product
        case .units: false
        }
    }
}
