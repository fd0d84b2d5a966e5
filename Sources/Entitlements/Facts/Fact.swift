/// An event, as stated by one replica.
///
/// Facts are never changed and never deleted. Active periods, ownership and balances are derived from them by
/// ``Replay``.
public enum Fact: Hashable, Sendable {
    /// A product was bought.
    case purchase(Purchase)
    /// A replica recorded a purchase in its ledger.
    case recording(Recording)
    /// A purchase was revoked or reinstated.
    case revocation(Revocation)
    /// A store stated how a subscription that it renews continues.
    case renewalState(RenewalState)
    /// A system that keeps no purchases asserted the date until which a group is paid.
    case assertion(Assertion)
    /// A product was marked as owned or not owned, without a transaction.
    case flag(Flag)
    /// Units of a consumable were used.
    case spend(Spend)
    /// An account adopted an anonymous ledger.
    case claim(Claim)
    /// The account's server decided about a purchase.
    case acceptance(Acceptance)
    /// A requested purchase awaits approval.
    case pending(PendingPurchase)
    /// A test environment was reset.
    case reset(EnvironmentReset)
    /// One transaction was stated with two different contents.
    indirect case contradiction(Contradiction)  // By far the largest, and rare.
    /// The account's server stated its trust policy.
    case policy(PolicyStatement)
    /// This device verified evidence that the account's server has not answered yet.
    case evidence(StoredEvidence)
    /// A record that this version cannot read. It is preserved and synced, and has no effect.
    case unreadable(Record, reason: String)
}

/// The strength of a statement among statements about the same subject.
///
/// Signed statements are stronger than unsigned ones; among signed statements the later signature is stronger;
/// otherwise the later logical time.
public struct Stamp: Hashable, Comparable, Sendable {
    /// The date of the store's signature; `nil` if the statement is unsigned.
    public var signedDate: Timestamp?
    /// The logical time at which the statement was recorded.
    public var logicalTime: LogicalTime

    /// Creates a stamp.
    public init(signedDate: Timestamp? = nil, logicalTime: LogicalTime) {
        self.signedDate = signedDate
        self.logicalTime = logicalTime
    }

    /// The stamp of a statement that a store signed at `date`.
    ///
    /// The logical time is derived from the date: records of the same statement are equal, in whatever order and on
    /// whichever server they are made.
    public static func signed(at date: Timestamp) -> Stamp {
        Stamp(signedDate: date, logicalTime: LogicalTime.zero.next(at: date))
    }

    /// Returns `true` if `left` is the weaker statement.
    public static func < (left: Stamp, right: Stamp) -> Bool {
        switch (left.signedDate, right.signedDate) {
        case (nil, _?): true
        case (_?, nil): false
        case (let leftDate?, let rightDate?) where leftDate != rightDate: leftDate < rightDate
        default: left.logicalTime < right.logicalTime
        }
    }
}

/// A purchase of a product.
public struct Purchase: Hashable, Sendable {
    /// The valid range of quantities. A purchase with any other quantity is kept but has no effect.
    package static let quantityRange: ClosedRange<Int64> = 1...10_000

    /// The identity of the purchase.
    public var transaction: TransactionReference
    /// The product that was bought.
    public var product: ProductID
    /// The terms at the time of sale; `nil` if no available catalogue contained the product.
    public var terms: Terms?
    /// The purchase date, as stated by the store if a store sold it.
    public var date: Timestamp
    /// The quantity, 1 to 10,000.
    public var quantity: Int64
    /// The first transaction of the subscription that this purchase renews; `nil` for a first purchase.
    public var originalID: TransactionID?
    /// The end stated by the store, for an auto-renewable subscription.
    public var storeExpiry: Timestamp?
    /// A Boolean value that indicates whether the purchase was sold at the introductory offer of its terms.
    ///
    /// It determines the duration if the store stated no end.
    public var isIntroductory: Bool
    /// A Boolean value that indicates whether the store stated that the product is a non-consumable.
    ///
    /// Statements about one non-consumable name the same original transaction.
    public var isNonConsumable: Bool
    /// The store's id of the paid period of a subscription, which is the same on all devices; `nil` if the store stated
    /// none.
    ///
    /// The App Store gives a purchase a new transaction each time it is restored on another device. Statements with one
    /// line item are about one purchase.
    public var lineItemID: TransactionID?
    /// The signature and time of the statement.
    public var stamp: Stamp

    /// Creates a purchase.
    public init(
        transaction: TransactionReference, product: ProductID, terms: Terms?, date: Timestamp, quantity: Int64 = 1,
        originalID: TransactionID? = nil, storeExpiry: Timestamp? = nil, isIntroductory: Bool = false,
        lineItemID: TransactionID? = nil, isNonConsumable: Bool = false, stamp: Stamp
    ) {
        self.transaction = transaction
        self.product = product
        self.terms = terms
        self.date = date
        self.quantity = quantity
        self.originalID = originalID
        self.storeExpiry = storeExpiry
        self.isIntroductory = isIntroductory
        self.lineItemID = lineItemID
        self.isNonConsumable = isNonConsumable
        self.stamp = stamp
    }

    /// The subscription that this purchase began or renews, identified by its first transaction.
    public var line: TransactionReference {
        TransactionReference(
            store: transaction.store, environment: transaction.environment, id: originalID ?? transaction.id)
    }
}

/// A replica recorded a purchase in its ledger.
public struct Recording: Hashable, Sendable {
    /// The transaction of the purchase.
    public var transaction: TransactionReference
    /// The replica that recorded the purchase.
    public var replica: ReplicaID
    /// The date by the replica's clock.
    public var recordedAt: Timestamp
    /// The latest end of the group that the replica knew before recording; `nil` if it knew none, or one that never
    /// comes.
    public var knownEnd: Timestamp?
    /// The logical time that orders recordings of one purchase by one replica. The first recording counts, so a
    /// replica that records a purchase again does not move its units behind spends that already used them.
    public var logicalTime: LogicalTime

    /// Creates a recording.
    public init(
        transaction: TransactionReference, replica: ReplicaID, recordedAt: Timestamp, knownEnd: Timestamp?,
        logicalTime: LogicalTime
    ) {
        self.transaction = transaction
        self.replica = replica
        self.recordedAt = recordedAt
        self.knownEnd = knownEnd
        self.logicalTime = logicalTime
    }
}

/// A revocation (a refund, or a withdrawal from family sharing), or the reinstatement of a revoked purchase.
///
/// The strongest of several statements about one purchase counts, in the order of ``Stamp``.
public struct Revocation: Hashable, Sendable {
    /// The transaction of the purchase, which may be unknown.
    public var transaction: TransactionReference
    /// The date of the revocation; `nil` for a reinstatement, for example after a reversed refund.
    public var revokedAt: Timestamp?
    /// The reason stated by the store; empty if there is none.
    public var reason: String
    /// A date at which the store reported the purchase as upgraded; `nil` if it has not.
    ///
    /// The purchase ends where its successor starts. Until the successor is known, it ends at this date.
    public var upgradedAt: Timestamp?
    /// The signature and time of the statement.
    public var stamp: Stamp

    /// Creates a revocation, or a reinstatement if `revokedAt` is `nil`.
    public init(
        transaction: TransactionReference, revokedAt: Timestamp?, reason: String = "",
        upgradedAt: Timestamp? = nil, stamp: Stamp
    ) {
        self.transaction = transaction
        self.revokedAt = revokedAt
        self.reason = reason
        self.upgradedAt = upgradedAt
        self.stamp = stamp
    }
}

/// A mark that sets or clears the ownership of a product without a transaction.
///
/// Both marks are kept side by side, and a ``FlagRule`` decides which of them counts.
public struct Flag: Hashable, Sendable {
    /// The product, a non-consumable.
    public var product: ProductID
    /// The environment in which it counts.
    public var environment: EnvironmentID
    /// A Boolean value that indicates whether the mark sets (`true`) or clears (`false`) ownership.
    public var isSet: Bool
    /// The date of the mark by the replica's clock.
    public var date: Timestamp
    /// The replica that made the mark.
    public var replica: ReplicaID
    /// The logical time that orders marks.
    public var logicalTime: LogicalTime

    /// Creates a mark.
    public init(
        product: ProductID, environment: EnvironmentID = .production, isSet: Bool, date: Timestamp, replica: ReplicaID,
        logicalTime: LogicalTime
    ) {
        self.product = product
        self.environment = environment
        self.isSet = isSet
        self.date = date
        self.replica = replica
        self.logicalTime = logicalTime
    }
}

/// Units of a consumable were used.
public struct Spend: Hashable, Sendable {
    /// The identity of the spend: a UUID or the caller's idempotency key. The same id spends only once.
    public var id: SpendID
    /// The consumable whose units were used.
    public var product: ProductID
    /// The number of units, 1 or more.
    public var units: Int64
    /// The environment in which it counts.
    public var environment: EnvironmentID
    /// The date by the replica's clock.
    public var date: Timestamp
    /// The replica that spent the units.
    public var replica: ReplicaID
    /// The logical time that orders grants and spends.
    public var logicalTime: LogicalTime

    /// Creates a spend.
    public init(
        id: SpendID, product: ProductID, units: Int64, environment: EnvironmentID = .production, date: Timestamp,
        replica: ReplicaID, logicalTime: LogicalTime
    ) {
        self.id = id
        self.product = product
        self.environment = environment
        self.units = units
        self.date = date
        self.replica = replica
        self.logicalTime = logicalTime
    }
}

/// A request for a purchase that awaits approval ("Ask to Buy"). It stays on the device that made it.
///
/// The request ends when a later purchase of the product arrives or when the request is withdrawn.
public struct PendingPurchase: Hashable, Sendable {
    /// The requested product.
    public var product: ProductID
    /// The date by the replica's clock.
    public var requestedAt: Timestamp
    /// A Boolean value that indicates whether the request was declined or withdrawn.
    public var isWithdrawn: Bool
    /// The logical time that orders requests, withdrawals and purchases.
    public var logicalTime: LogicalTime

    /// Creates a request or its withdrawal.
    public init(product: ProductID, requestedAt: Timestamp, isWithdrawn: Bool = false, logicalTime: LogicalTime) {
        self.product = product
        self.requestedAt = requestedAt
        self.isWithdrawn = isWithdrawn
        self.logicalTime = logicalTime
    }
}
