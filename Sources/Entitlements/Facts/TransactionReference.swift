/// The subject of ``StoreID``. The type has no values.
public enum Marketplace {}
/// The subject of ``EnvironmentID``. The type has no values.
public enum SaleEnvironment {}

/// The identity of a store. Transaction ids are unique within a store and environment.
public typealias StoreID = Identifier<Marketplace>
/// The identity of a store's environment. Purchases of testers do not count in `production`.
public typealias EnvironmentID = Identifier<SaleEnvironment>

extension Identifier where Subject == Marketplace {
    /// Purchases reported manually or by the developer's own system.
    public static let reported = StoreID("reported")
    /// Time that support gave away.
    public static let support = StoreID("support")
    /// Apple's App Store.
    public static let appStore = StoreID("app-store")
    /// Google Play.
    public static let googlePlay = StoreID("google-play")
    /// Stripe.
    public static let stripe = StoreID("stripe")
}

extension Identifier where Subject == SaleEnvironment {
    /// Real sales, the default environment.
    public static let production = EnvironmentID("production")
    /// Sales to testers.
    public static let sandbox = EnvironmentID("sandbox")
    /// Purchases made in Xcode with a StoreKit configuration.
    public static let xcode = EnvironmentID("xcode")
    /// Test purchases of Google Play, and Stripe's test mode.
    public static let test = EnvironmentID("test")
}

/// The identity of a purchase on all devices. The same transaction, seen by a phone and a tablet, is one purchase.
public struct TransactionReference: Hashable, Comparable, Sendable, CustomStringConvertible {
    /// The store that sold the product.
    public var store: StoreID
    /// The store's environment.
    public var environment: EnvironmentID
    /// The id that the store gave the transaction.
    public var id: TransactionID

    /// Creates a reference to the transaction `id` of a store.
    public init(store: StoreID = .reported, environment: EnvironmentID = .production, id: TransactionID) {
        self.store = store
        self.environment = environment
        self.id = id
    }

    /// Orders references by store, environment, and id.
    public static func < (left: TransactionReference, right: TransactionReference) -> Bool {
        if left.store != right.store { return left.store < right.store }
        if left.environment != right.environment { return left.environment < right.environment }
        return left.id < right.id
    }

    /// The reference in the form `store/environment/id`.
    public var description: String { "\(store)/\(environment)/\(id)" }
}

/// The identity of a device, process or server that writes facts: 16 random bytes, chosen once per local store.
public struct ReplicaID: Hashable, Comparable, Sendable, CustomStringConvertible {
    /// The bytes as one big-endian number, which needs no memory of its own.
    private let number: UInt128

    /// The 16 bytes of the id.
    public var bytes: [UInt8] { withUnsafeBytes(of: number.bigEndian) { Array($0) } }

    /// Creates an id from 16 bytes; `nil` for any other number of bytes.
    public init?(bytes: some Collection<UInt8>) {
        guard bytes.count == 16 else { return nil }
        var number: UInt128 = 0
        withUnsafeMutableBytes(of: &number) { $0.copyBytes(from: bytes) }
        self.number = UInt128(bigEndian: number)
    }

    /// Returns a new random id from `generator`.
    public static func random(using generator: inout some RandomNumberGenerator) -> ReplicaID {
        let (high, low): (UInt64, UInt64) = (generator.next(), generator.next())
        return ReplicaID(number: UInt128(high) << 64 | UInt128(low))
    }

    private init(number: UInt128) {
        self.number = number
    }

    /// The replica of facts that no device states: those of support, and those of checks that write nothing.
    package static let placeholder = ReplicaID(number: 0)

    /// The replica of facts that a server records for a client without a ledger. It is the same for all servers, so
    /// that a repeated request finds what the first one recorded.
    package static let server = ReplicaID(number: 1)

    /// Orders ids byte by byte.
    public static func < (left: ReplicaID, right: ReplicaID) -> Bool {
        left.number < right.number
    }

    /// The bytes in lower-case hexadecimal.
    public var description: String {
        bytes.hexadecimal
    }
}
