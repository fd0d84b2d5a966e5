/// Something that happened, as one replica states it. Facts are never changed and never deleted; what is active, owned
/// or left is derived from them by replay.
public enum Fact: Hashable, Sendable {
    /// Something was bought.
    case purchase(Purchase)
    /// A replica entered a purchase into its ledger.
    case recording(Recording)
    /// A purchase was taken back.
    case revocation(Revocation)
    /// A store says how a subscription that it renews goes on.
    case renewalState(RenewalState)
    /// A system that keeps no purchases says until when a group is paid.
    case assertion(Assertion)
    /// A product was marked as owned, or no longer so, without a transaction.
    case flag(Flag)
    /// Units were used up.
    case spend(Spend)
    /// An account adopted the ledger of nobody.
    case claim(Claim)
    /// The account's server decided something about a purchase.
    case acceptance(Acceptance)
    /// A purchase waits for somebody's approval.
    case pending(PendingPurchase)
    /// All facts of a test environment were put behind.
    case reset(EnvironmentReset)
    /// One transaction was stated with two contents.
    case contradiction(Contradiction)
    /// A record that this version cannot read. It is kept, travels on, and counts nothing.
    case unreadable(Record, reason: String)
}

/// When a statement was made, and whether a store signed it. Orders statements about one thing: signed before
/// unsigned, then by the date of the signature, then by logical time.
public struct Stamp: Hashable, Comparable, Sendable {
    /// When the store signed the statement, `nil` when nobody did.
    public var signedDate: Timestamp?
    /// When it was entered into a ledger.
    public var logicalTime: LogicalTime

    /// A stamp.
    public init(signedDate: Timestamp? = nil, logicalTime: LogicalTime) {
        self.signedDate = signedDate
        self.logicalTime = logicalTime
    }

    /// Whether `left` is the weaker statement.
    public static func < (left: Stamp, right: Stamp) -> Bool {
        switch (left.signedDate, right.signedDate) {
        case (nil, _?): true
        case (_?, nil): false
        case (let leftDate?, let rightDate?) where leftDate != rightDate: leftDate < rightDate
        default: left.logicalTime < right.logicalTime
        }
    }
}

/// Something was bought.
public struct Purchase: Hashable, Sendable {
    /// How many may be bought at once; outside of it a purchase is kept and counts nothing.
    public static let quantityRange: ClosedRange<Int64> = 1...10_000

    /// Names the purchase.
    public var transaction: TransactionReference
    /// What was bought.
    public var product: ProductID
    /// The terms as sold; `nil` when no catalogue at hand knew the product.
    public var terms: Terms?
    /// When it was bought, by the store's word where there is one.
    public var date: Timestamp
    /// How many, 1 to 10,000.
    public var quantity: Int64
    /// The first transaction of a subscription that this one renews.
    public var originalID: TransactionID?
    /// The end that the store gave, for a subscription that it renews.
    public var storeExpiry: Timestamp?
    /// Whether it was sold at the terms' introductory offer. Tells how long it lasts where the store gave no end.
    public var isIntroductory: Bool
    /// Who says so, and when.
    public var stamp: Stamp

    /// A purchase.
    public init(
        transaction: TransactionReference, product: ProductID, terms: Terms?, date: Timestamp, quantity: Int64 = 1,
        originalID: TransactionID? = nil, storeExpiry: Timestamp? = nil, isIntroductory: Bool = false, stamp: Stamp
    ) {
        self.transaction = transaction
        self.product = product
        self.terms = terms
        self.date = date
        self.quantity = quantity
        self.originalID = originalID
        self.storeExpiry = storeExpiry
        self.isIntroductory = isIntroductory
        self.stamp = stamp
    }

    /// The subscription that this purchase began or renews: its first transaction.
    public var line: TransactionReference {
        TransactionReference(
            store: transaction.store, environment: transaction.environment, id: originalID ?? transaction.id)
    }
}

/// A replica entered a purchase into its ledger. What it then knew is what the tutorials' rule computes with.
public struct Recording: Hashable, Sendable {
    /// The purchase.
    public var transaction: TransactionReference
    /// Who entered it.
    public var replica: ReplicaID
    /// When, by the replica's clock.
    public var recordedAt: Timestamp
    /// The end of the group as this replica knew it just before; `nil` when it knew none.
    public var knownEnd: Timestamp?
    /// Orders recordings of one purchase by one replica: the first counts, so that a replica which forgot and records
    /// the purchase once more does not move its units behind what was spent of them.
    public var logicalTime: LogicalTime

    /// A recording.
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

/// A purchase was taken back: refunded, or withdrawn from a family. Or that was taken back in its turn.
///
/// Of several statements about one purchase the strongest counts, as its ``Stamp`` says: one that a store signed before
/// one that nobody signed, then the later.
public struct Revocation: Hashable, Sendable {
    /// The purchase, which may not be known yet.
    public var transaction: TransactionReference
    /// From when on it counts nothing; `nil` when it counts again, because the store reversed the refund.
    public var revokedAt: Timestamp?
    /// Why, in the store's words; empty when it gave none.
    public var reason: String
    /// Who says so, and when.
    public var stamp: Stamp

    /// A revocation, or a reinstatement when `revokedAt` is `nil`.
    public init(transaction: TransactionReference, revokedAt: Timestamp?, reason: String = "", stamp: Stamp) {
        self.transaction = transaction
        self.revokedAt = revokedAt
        self.reason = reason
        self.stamp = stamp
    }
}

/// A product was marked as owned (`isSet`), or no longer so, without a transaction. Both marks are kept side by side;
/// a rule decides which counts.
public struct Flag: Hashable, Sendable {
    /// The product, a non-consumable.
    public var product: ProductID
    /// Where it counts.
    public var environment: EnvironmentID
    /// Whether this mark sets or clears.
    public var isSet: Bool
    /// When it was made, by the replica's clock.
    public var date: Timestamp
    /// Who made it.
    public var replica: ReplicaID
    /// Orders marks.
    public var logicalTime: LogicalTime

    /// A mark.
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

/// Units were used up. An event with an id of its own, never a counter: a backup that is put back, or a cloned device,
/// cannot turn it back.
public struct Spend: Hashable, Sendable {
    /// A UUID, or the caller's idempotency key: the same id spends once.
    public var id: SpendID
    /// Whose units.
    public var product: ProductID
    /// How many, 1 or more.
    public var units: Int64
    /// Where it counts.
    public var environment: EnvironmentID
    /// When, by the replica's clock.
    public var date: Timestamp
    /// Who spent them.
    public var replica: ReplicaID
    /// Orders grants and spends.
    public var logicalTime: LogicalTime

    /// A spend.
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

/// A purchase was asked for and waits for somebody's approval ("Ask to Buy"). Stays on the device that asked.
///
/// It is over when a later purchase of the product arrives, or when it is withdrawn.
public struct PendingPurchase: Hashable, Sendable {
    /// What was asked for.
    public var product: ProductID
    /// When, by the replica's clock.
    public var requestedAt: Timestamp
    /// Whether the request was declined or taken back.
    public var isWithdrawn: Bool
    /// Orders requests, withdrawals and purchases.
    public var logicalTime: LogicalTime

    /// A request, or its withdrawal.
    public init(product: ProductID, requestedAt: Timestamp, isWithdrawn: Bool = false, logicalTime: LogicalTime) {
        self.product = product
        self.requestedAt = requestedAt
        self.isWithdrawn = isWithdrawn
        self.logicalTime = logicalTime
    }
}
