import EntitlementSync
import Entitlements

/// A transaction as the simulated store signed it at one moment.
///
/// The store signs a transaction again when it is refunded, and when the refund is reversed. The statement with the
/// latest signature counts, in whatever order statements arrive.
public struct StoreStatement: Codable, Hashable, Sendable {
    /// The id of the transaction.
    public var transaction: String
    /// The product's id.
    public var product: String
    /// The date of purchase, in milliseconds since the start of the run.
    public var date: Int64
    /// The date of the signature, in milliseconds since the start of the run.
    public var signedAt: Int64
    /// The date of a refund that was not reversed by then, in milliseconds since the start of the run.
    public var revokedAt: Int64?
    /// The end of the period of a subscription that the store renews, in milliseconds since the start of the run.
    public var expires: Int64?
    /// The first transaction of the subscription that this one renews.
    public var original: String?
    /// The account whose token the app attached to the purchase.
    public var account: String?

    /// Creates a statement.
    public init(
        _ transaction: String, of product: String, date: Int64, signedAt: Int64, revokedAt: Int64? = nil,
        expires: Int64? = nil, original: String? = nil, account: String? = nil
    ) {
        self.transaction = transaction
        self.product = product
        self.date = date
        self.signedAt = signedAt
        self.revokedAt = revokedAt
        self.expires = expires
        self.original = original
        self.account = account
    }
}

/// A statement that a client writes although it is false.
public enum ClientClaim: Codable, Hashable, Sendable {
    /// A purchase under any transaction id, with a signature date in the year 9999.
    case purchase(String, of: String)
    /// A flag that marks a product as owned.
    case flag(String)
    /// An expiry of a group, 400 days after the claim.
    case expiry(group: String)
    /// The reversal of a refund, with a signature date in the year 9999.
    case reversal(String)
    /// A refund. It takes away only from the account that states it.
    case refund(String)
    /// A grace period of 300 days for the subscription that began with this transaction.
    case grace(String)
    /// Evidence that the store did not sign.
    case evidence(StoreStatement)
}

extension StoreStatement {
    var reference: TransactionReference { TransactionReference(store: .appStore, id: TransactionID(transaction)) }

    /// The subscription, identified by its first transaction.
    var line: TransactionReference {
        TransactionReference(store: .appStore, id: TransactionID(original ?? transaction))
    }

    /// The facts that the statement proves: the purchase, and its revocation or the absence of one.
    var facts: [Fact] {
        let stamp = Stamp.signed(at: Self.date(signedAt))
        let purchase = Purchase(
            transaction: reference, product: ProductID(product), terms: nil, date: Self.date(date),
            originalID: original.map { TransactionID($0) }, storeExpiry: expires.map(Self.date), stamp: stamp)
        return [
            .purchase(purchase),
            .revocation(Revocation(transaction: reference, revokedAt: revokedAt.map(Self.date), stamp: stamp)),
        ]
    }

    private static func date(_ milliseconds: Int64) -> Timestamp {
        Timestamp(milliseconds: World.epoch + milliseconds)
    }

    /// The bytes that a device sends. Only the simulated store and its server know what they mean.
    func data(isForged: Bool = false) -> [UInt8] {
        let state = revokedAt.map { "revoked \($0)" } ?? "valid"
        return Array("\"\(isForged ? "forged " : "")\(transaction) \(product) \(date) \(signedAt) \(state)\"".utf8)
    }

    /// The statement as a device keeps it.
    func verified(isForged: Bool = false) -> VerifiedStatement {
        VerifiedStatement(
            kind: "app-store-transaction", subject: "production/\(transaction)", data: data(isForged: isForged),
            facts: facts, signedDate: Self.date(signedAt))
    }

    /// The record under which a device keeps the statement.
    func record(isForged: Bool = false) -> ModelRecord {
        ModelRecord(Fact.evidence(verified(isForged: isForged).evidence).record)
    }
}

extension ModelRecord {
    init(_ record: Record) {
        self.init(key: record.key, order: record.order, payload: record.payload)
    }
}

extension Scenario {
    /// The transactions that the store signed, that were forged, or that clients claimed.
    var statedTransactions: Set<String> {
        var ids: Set<String> = []
        for step in steps {
            if let statement = step.action.statement { ids.insert(statement.transaction) }
            if case .claim(.purchase(let id, _), _) = step.action { ids.insert(id) }
        }
        return ids
    }
}

extension Action {
    /// The statement of the store; `nil` if the action has none.
    var statement: StoreStatement? {
        get {
            switch self {
            case .present(let statement, _), .forge(let statement), .notify(let statement): statement
            default: nil
            }
        }
        set {
            guard let newValue else { return }
            switch self {
            case .present(_, let isRestore): self = .present(newValue, isRestore: isRestore)
            case .forge: self = .forge(newValue)
            case .notify: self = .notify(newValue)
            default: break
            }
        }
    }
}
