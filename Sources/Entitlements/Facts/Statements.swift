/// A store's word on how a subscription that it renews goes on. Each later statement replaces the one before.
public struct RenewalState: Hashable, Sendable {
    /// The subscription: its first transaction.
    public var line: TransactionReference
    /// Whether the store will renew it.
    public var willRenew: Bool
    /// Until when access goes on although a payment failed; `nil` when the store grants no such grace.
    public var graceEnd: Timestamp?
    /// Whether a payment failed and the store keeps trying.
    public var isInBillingRetry: Bool
    /// What it renews as, when that is another product: a downgrade that waits for the end of the period.
    public var pendingProduct: ProductID?
    /// Who says so, and when.
    public var stamp: Stamp

    /// A statement about the subscription that began with `line`.
    public init(
        line: TransactionReference, willRenew: Bool, graceEnd: Timestamp? = nil, isInBillingRetry: Bool = false,
        pendingProduct: ProductID? = nil, stamp: Stamp
    ) {
        self.line = line
        self.willRenew = willRenew
        self.graceEnd = graceEnd
        self.isInBillingRetry = isInBillingRetry
        self.pendingProduct = pendingProduct
        self.stamp = stamp
    }
}

/// Names a system that asserts expiries: `parse`, `userdefaults`, `promotion`, …
public typealias SourceID = Identifier<Assertion>

/// A bare date until which a group is paid, from a system that keeps no purchases: the tutorials' expiry, or a
/// promotion.
///
/// Replay sorts it in by ``assertedAt``, after purchases of that date. It adds the time from the end so far to its
/// date, if there is any; it never adds a duration and never shortens. Said twice it counts as said first.
public struct Assertion: Hashable, Sendable {
    /// What it says, and who says it: the identity of an assertion.
    public struct Reference: Hashable, Comparable, Sendable {
        /// The group that is paid.
        public var group: GroupID
        /// Who says so.
        public var source: SourceID
        /// Until when.
        public var until: Timestamp
        /// Where it counts.
        public var environment: EnvironmentID

        /// The assertion by `source` that `group` is paid until `until`.
        public init(group: GroupID, source: SourceID, until: Timestamp, environment: EnvironmentID = .production) {
            self.group = group
            self.source = source
            self.until = until
            self.environment = environment
        }

        /// By group, date, source, environment.
        public static func < (left: Reference, right: Reference) -> Bool {
            (left.group, left.until, left.source, left.environment)
                < (right.group, right.until, right.source, right.environment)
        }
    }

    /// What it says, and who says it.
    public var reference: Reference
    /// As of when it is said: the later of the source's own time and the date of the latest purchase in the ledger
    /// that recorded it, so that the echo of an expiry that we computed ourselves adds nothing.
    public var assertedAt: Timestamp
    /// When it was recorded, by the replica's clock.
    public var recordedAt: Timestamp
    /// Who recorded it.
    public var replica: ReplicaID
    /// When it was entered into the ledger. Does not order assertions; a reset looks at it.
    public var logicalTime: LogicalTime

    /// An assertion.
    public init(
        _ reference: Reference, assertedAt: Timestamp, recordedAt: Timestamp, replica: ReplicaID,
        logicalTime: LogicalTime
    ) {
        self.reference = reference
        self.assertedAt = assertedAt
        self.recordedAt = recordedAt
        self.replica = replica
        self.logicalTime = logicalTime
    }
}

/// A decision of the account's server about a purchase. Written only by the server, into a ledger of its own; one that
/// stands in any other ledger counts nothing.
public struct Acceptance: Hashable, Sendable {
    /// What the server decided.
    public enum Decision: Hashable, Sendable {
        /// The purchase counts as of this date instead of its own: it was dated later than the server's time.
        case countsAsOf(Timestamp)
        /// The purchase counts nothing, for this reason.
        case refused(String)
        /// The purchase belongs to the account of this name now, and counts nothing here.
        case transferred(to: String)
        /// The purchase counts as it stands.
        case accepted
    }

    /// The purchase.
    public var transaction: TransactionReference
    /// What was decided.
    public var decision: Decision
    /// When, by the server's clock.
    public var date: Timestamp
    /// Orders decisions about one purchase.
    public var logicalTime: LogicalTime

    /// A decision.
    public init(
        transaction: TransactionReference, decision: Decision, date: Timestamp, logicalTime: LogicalTime
    ) {
        self.transaction = transaction
        self.decision = decision
        self.date = date
        self.logicalTime = logicalTime
    }
}

/// Everything that a test environment held up to now counts nothing any more. There is none for `production`: one in
/// a ledger is set aside.
public struct EnvironmentReset: Hashable, Sendable {
    /// The environment.
    public var environment: EnvironmentID
    /// When, by the replica's clock.
    public var date: Timestamp
    /// What was entered by then counts nothing.
    public var logicalTime: LogicalTime

    /// A reset.
    public init(environment: EnvironmentID, date: Timestamp, logicalTime: LogicalTime) {
        self.environment = environment
        self.date = date
        self.logicalTime = logicalTime
    }
}
