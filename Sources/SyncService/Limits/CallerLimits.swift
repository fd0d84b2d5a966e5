/// What one address and one account may do before they have to wait. The usual values are far from whatever an app's
/// devices do; they are against programs that have gone wild, and against attacks.
///
/// A limit that is `nil` does not exist. The operator's token has none. Addresses of the server's own machine have none
/// of those for addresses: they are the operator's programs, or a proxy that does not say for whom it asks.
public struct CallerLimits: Hashable, Sendable {
    /// Requests of one address, of whatever kind. Many people may share one.
    public var addressRequests: Rate? = Rate(perSecond: 2_000, burst: 20_000)
    /// Requests of one address without a token that counts: the catalogue, devices that wait, refused tokens.
    public var strangerRequests: Rate? = Rate(perSecond: 200, burst: 2_000)
    /// Log-ins and refreshed sessions of one address. Wrong passwords have lower limits of their own.
    public var logIns: Rate? = Rate(perSecond: 20, burst: 300)
    /// New accounts of one address.
    public var signUps: Rate? = Rate(perSecond: 1, burst: 100)
    /// Requests of one account that change nothing.
    public var accountReads: Rate? = Rate(perSecond: 200, burst: 2_000)
    /// Requests of one account that may change something. One that is long counts as one for each 64 KiB.
    public var accountWrites: Rate? = Rate(perSecond: 100, burst: 1_000)
    /// Requests of one account under way at once, 1 or more.
    public var accountRequests: Int? = 128
    /// Open streams of events of one account, 1 or more.
    public var accountStreams: Int? = 32
    /// Devices that may wait for approval at once, 1 or more.
    public var deviceGrants: Int? = 10_000
    /// Devices of one address that may wait for approval at once, 1 or more.
    public var addressDeviceGrants: Int? = 64
    /// Keys that one account may have beside its ledger, 0 or more.
    public var accountKeys: Int? = 1_000
    /// Bytes of the values under those keys, 0 or more.
    public var accountBytes: Int? = 32 << 20

    /// How many addresses are remembered at once; the same number of accounts. Whoever is forgotten has his whole burst
    /// again; those who have it anyway are forgotten first. A power of two; 64 bytes each.
    static let capacity = 32_768

    /// The usual limits.
    public init() {}
}

/// How often something may be done: so often at once, and so often a second from then on (a token bucket).
public struct Rate: Hashable, Sendable, CustomStringConvertible {
    /// How often in a second, in the long run: above 0, up to 1,000,000.
    public let perSecond: Double
    /// How often at once: 1 to 1,000,000.
    public let burst: Int

    /// A rate; values outside of their ranges are taken for the nearest inside.
    public init(perSecond: Double, burst: Int) {
        self.perSecond = min(max(perSecond, 0.000_1), 1_000_000)
        self.burst = min(max(burst, 1), 1_000_000)
    }

    /// Reads `100/1000`: so many a second, so many at once. `nil` for anything else.
    public init?(_ text: String) {
        let parts = text.split(separator: "/", omittingEmptySubsequences: false)
        guard parts.count == 2, let perSecond = Double(parts[0]), let burst = Int(parts[1]),
            (0.000_1...1_000_000).contains(perSecond), (1...1_000_000).contains(burst)
        else { return nil }
        self.init(perSecond: perSecond, burst: burst)
    }

    /// As ``init(_:)`` reads it.
    public var description: String {
        let isWhole = perSecond == perSecond.rounded()
        return (isWhole ? "\(Int64(perSecond))" : "\(perSecond)") + "/\(burst)"
    }

    /// What one costs, in microseconds of waiting.
    var interval: Int64 { Int64((1_000_000 / perSecond).rounded(.up)) }
}

/// Why a request was refused without being looked at, as the figures of a server have it.
public enum Refusal: String, Hashable, Sendable, CaseIterable {
    /// An address asked too often.
    case addressRate = "address_rate"
    /// An address has too much under way.
    case addressConcurrency = "address_concurrency"
    /// An account asked too often.
    case accountRate = "account_rate"
    /// An account has too many requests under way, or streams open.
    case accountConcurrency = "account_concurrency"
    /// An account has as much as it may have.
    case quota
    /// A long body of nobody who is known, or where none belongs.
    case body
    /// The server has too much under way.
    case overload
    /// A request that is none, or whose header is too long.
    case malformed
    /// One connection too many.
    case connections
    /// A client that was too slow.
    case slow
}
