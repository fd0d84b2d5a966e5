/// An account adopted the ledger of nobody that this record stands in. From then on its facts can go to this account
/// only. There is one in a ledger; the first claim wins.
public struct Claim: Hashable, Sendable {
    /// The account's name.
    public var account: String
    /// Which life of the account.
    public var incarnation: String
    /// When, by the replica's clock.
    public var date: Timestamp
    /// Orders claims: the first wins.
    public var logicalTime: LogicalTime

    /// The key of the one claim that a ledger may hold.
    public static let recordKey = FactKey.claim.bytes

    /// A claim.
    public init(account: String, incarnation: String, date: Timestamp, logicalTime: LogicalTime) {
        self.account = account
        self.incarnation = incarnation
        self.date = date
        self.logicalTime = logicalTime
    }
}
