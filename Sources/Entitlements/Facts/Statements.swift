/// A store's statement on how a subscription that it renews continues. A stronger statement replaces a weaker one.
public struct RenewalState: Hashable, Sendable {
    /// The subscription, identified by its first transaction.
    public var line: TransactionReference
    /// A Boolean value that indicates whether the store will renew the subscription.
    public var willRenew: Bool
    /// The end of the grace after a failed payment; `nil` if the store grants none.
    public var graceEnd: Timestamp?
    /// A Boolean value that indicates whether a payment failed and the store is retrying it.
    public var isInBillingRetry: Bool
    /// The product of the next renewal if it differs, for example after a downgrade; otherwise `nil`.
    public var pendingProduct: ProductID?
    /// The signature and time of the statement.
    public var stamp: Stamp

    /// Creates a statement about the subscription that began with `line`.
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

/// The identity of a system that asserts expiries, for example `parse`, `userdefaults` or `promotion`.
public typealias SourceID = Identifier<Assertion>

/// An expiry date of a group, asserted by a system that keeps no purchases, or given as a promotion.
///
/// Replay orders an assertion by ``assertedAt``, after purchases of that date. The assertion adds the time from the
/// end so far to its date, if there is any. It adds no duration and never shortens access. If it is stated twice, the
/// first statement counts.
public struct Assertion: Hashable, Sendable {
    /// The identity of an assertion: its content and its source.
    public struct Reference: Hashable, Comparable, Sendable {
        /// The group that is paid.
        public var group: GroupID
        /// The system that asserts it.
        public var source: SourceID
        /// The date until which the group is paid.
        public var until: Timestamp
        /// The environment in which it counts.
        public var environment: EnvironmentID

        /// Creates a reference to the assertion by `source` that `group` is paid until `until`.
        public init(group: GroupID, source: SourceID, until: Timestamp, environment: EnvironmentID = .production) {
            self.group = group
            self.source = source
            self.until = until
            self.environment = environment
        }

        /// Orders references by group, date, source, and environment.
        public static func < (left: Reference, right: Reference) -> Bool {
            (left.group, left.until, left.source, left.environment)
                < (right.group, right.until, right.source, right.environment)
        }
    }

    /// The content and source of the assertion.
    public var reference: Reference
    /// The date as of which the assertion is made: the later of the source's own time and the date of the latest
    /// purchase in the ledger that recorded it. An expiry that was computed from these purchases and is echoed back
    /// therefore adds nothing.
    public var assertedAt: Timestamp
    /// The date of recording by the replica's clock.
    public var recordedAt: Timestamp
    /// The replica that recorded the assertion.
    public var replica: ReplicaID
    /// The logical time of recording. It does not order assertions, but a reset uses it.
    public var logicalTime: LogicalTime

    /// Creates an assertion.
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

/// A decision of the account's server about a purchase.
///
/// Only the server writes decisions, into a ledger of its own. In any other ledger they have no effect. A device keeps
/// the refusals of evidence that it sent in its device ledger, where they only explain denied access.
public struct Acceptance: Hashable, Sendable {
    /// The content of a decision.
    public enum Decision: Hashable, Sendable {
        /// The purchase counts as of this date, because its own date was later than the server's time.
        case countsAsOf(Timestamp)
        /// The purchase is refused for this reason and has no effect.
        case refused(String)
        /// The purchase now belongs to the account with this name, and has no effect here.
        case transferred(to: String)
        /// The purchase counts as it stands.
        case accepted
    }

    /// The reason of a refusal: another account's client reported the transaction first.
    package static let recordedByAnother = "another account recorded this transaction first"
    /// The reason of a refusal: another account has evidence of the purchase.
    package static let provedByAnother = "another account has proved this purchase"
    /// The reasons of refusals that end once no other account owns the purchase.
    package static let ownershipRefusals = [recordedByAnother, provedByAnother]

    /// The transaction of the purchase.
    public var transaction: TransactionReference
    /// The content of the decision.
    public var decision: Decision
    /// The date of the decision by the server's clock.
    public var date: Timestamp
    /// The logical time that orders decisions about one purchase.
    public var logicalTime: LogicalTime

    /// Creates a decision.
    public init(
        transaction: TransactionReference, decision: Decision, date: Timestamp, logicalTime: LogicalTime
    ) {
        self.transaction = transaction
        self.decision = decision
        self.date = date
        self.logicalTime = logicalTime
    }
}

/// A reset of a test environment, after which none of its earlier facts count.
///
/// The environment `production` cannot be reset; such a record is set aside.
public struct EnvironmentReset: Hashable, Sendable {
    /// The environment.
    public var environment: EnvironmentID
    /// The date of the reset by the replica's clock.
    public var date: Timestamp
    /// The logical time of the reset. Facts recorded up to this time do not count.
    public var logicalTime: LogicalTime

    /// Creates a reset.
    public init(environment: EnvironmentID, date: Timestamp, logicalTime: LogicalTime) {
        self.environment = environment
        self.date = date
        self.logicalTime = logicalTime
    }
}
