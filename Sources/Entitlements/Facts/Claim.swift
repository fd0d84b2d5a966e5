/// The adoption of an anonymous ledger by an account.
///
/// After the claim, the facts of the ledger can be transferred only to this account. A ledger contains at most one
/// claim, and the first claim wins.
public struct Claim: Hashable, Sendable {
    /// The name of the account.
    public var account: String
    /// The incarnation of the account. An account that is created again after erasure has a new one.
    public var incarnation: String
    /// The date of the claim by the replica's clock.
    public var date: Timestamp
    /// The logical time that orders claims; the earliest claim wins.
    public var logicalTime: LogicalTime

    /// The key of the record of a claim, of which a ledger has at most one.
    package static let recordKey = FactKey.claim.bytes

    /// Creates a claim.
    public init(account: String, incarnation: String, date: Timestamp, logicalTime: LogicalTime) {
        self.account = account
        self.incarnation = incarnation
        self.date = date
        self.logicalTime = logicalTime
    }
}
