/// A place where things are sold; only a tag for ``StoreID``.
public enum Marketplace {}
/// A kind of sale, real or for tests; only a tag for ``EnvironmentID``.
public enum SaleEnvironment {}

/// The store that a transaction belongs to: transaction ids are unique within one.
public typealias StoreID = Identifier<Marketplace>
/// The store's environment: what testers buy is no purchase in `production`.
public typealias EnvironmentID = Identifier<SaleEnvironment>

extension Identifier where Subject == Marketplace {
    /// Purchases reported by hand or by a system of one's own.
    public static let reported = StoreID("reported")
    /// Apple's App Store.
    public static let appStore = StoreID("app-store")
}

extension Identifier where Subject == SaleEnvironment {
    /// Real sales; the only ones that count unless asked.
    public static let production = EnvironmentID("production")
    /// Sales to testers.
    public static let sandbox = EnvironmentID("sandbox")
}

/// Names a purchase everywhere: the same transaction, seen by phone and tablet, is one purchase.
public struct TransactionReference: Hashable, Comparable, Sendable, CustomStringConvertible {
    /// The store that sold it.
    public var store: StoreID
    /// The store's environment.
    public var environment: EnvironmentID
    /// The store's id of the transaction.
    public var id: TransactionID

    /// The transaction `id` of a store.
    public init(store: StoreID = .reported, environment: EnvironmentID = .production, id: TransactionID) {
        self.store = store
        self.environment = environment
        self.id = id
    }

    /// Whether `left` comes first: by store, environment and id.
    public static func < (left: TransactionReference, right: TransactionReference) -> Bool {
        if left.store != right.store { return left.store < right.store }
        if left.environment != right.environment { return left.environment < right.environment }
        return left.id < right.id
    }

    /// `store/environment/id`.
    public var description: String { "\(store)/\(environment)/\(id)" }
}

/// A device, process or server that writes facts: 16 random bytes, chosen once for each local store.
public struct ReplicaID: Hashable, Comparable, Sendable, CustomStringConvertible {
    /// The id's 16 bytes.
    public let bytes: [UInt8]

    /// The id of the given 16 bytes, `nil` for any other number of them.
    public init?(bytes: some Collection<UInt8>) {
        guard bytes.count == 16 else { return nil }
        self.bytes = Array(bytes)
    }

    /// A new id from `generator`.
    public static func random(using generator: inout some RandomNumberGenerator) -> ReplicaID {
        var bytes: [UInt8] = []
        bytes.appendBigEndian(generator.next())
        bytes.appendBigEndian(generator.next())
        return ReplicaID(unchecked: bytes)
    }

    private init(unchecked bytes: [UInt8]) {
        self.bytes = bytes
    }

    /// Whether `left` comes first, byte by byte.
    public static func < (left: ReplicaID, right: ReplicaID) -> Bool {
        left.bytes.lexicographicallyPrecedes(right.bytes)
    }

    /// The bytes in hexadecimal, lower case.
    public var description: String {
        bytes.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
    }
}
