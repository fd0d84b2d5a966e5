/// The limits of one address and of one account. The defaults are far above the use of an app's devices; they protect
/// against programs out of control and against attacks.
///
/// `nil` means unlimited. The operator's token has no limits. The limits of addresses do not apply to loopback
/// addresses, which belong to the operator's own programs, or to a proxy that does not name its clients.
package struct CallerLimits: Hashable, Sendable {
    /// Requests of one address, of any kind. Many people may share an address.
    package var addressRequests: Rate? = Rate(perSecond: 2_000, burst: 20_000)
    /// Requests of one address without a valid token: the catalogue, waiting devices, rejected tokens.
    package var unauthenticatedRequests: Rate? = Rate(perSecond: 200, burst: 2_000)
    /// Log-ins and refreshed sessions of one address. Wrong passwords have lower limits of their own.
    package var logIns: Rate? = Rate(perSecond: 20, burst: 300)
    /// New accounts from one address.
    package var signUps: Rate? = Rate(perSecond: 1, burst: 100)
    /// Requests of one account that change nothing.
    package var accountReads: Rate? = Rate(perSecond: 200, burst: 2_000)
    /// Requests of one account that may change something. A request with a long body counts as one for each 64 KiB.
    package var accountWrites: Rate? = Rate(perSecond: 100, burst: 1_000)
    /// Concurrent requests of one account, 1 or more.
    package var accountRequests: Int? = 128
    /// Open event streams of one account, 1 or more.
    package var accountStreams: Int? = 32
    /// Devices that wait for approval at the same time, 1 or more.
    package var waitingDevices: Int? = 10_000
    /// Devices of one address that wait for approval at the same time, 1 or more.
    package var addressWaitingDevices: Int? = 64
    /// Keys that one account may have beside its ledger, 0 or more.
    package var accountKeys: Int? = 1_000
    /// Bytes of the values under those keys, 0 or more.
    package var accountBytes: Int? = 32 << 20

    /// The number of addresses, and of accounts, that are remembered. A holder that is forgotten gets its whole burst
    /// back; holders that already have it are forgotten first. A power of two; 64 bytes each.
    static let capacity = 32_768

    /// The default limits.
    package init() {}
}

/// A rate limit as a token bucket: a burst at once, and a number per second after that.
package struct Rate: Hashable, Sendable, CustomStringConvertible {
    /// The sustained number per second: above 0, up to 1,000,000.
    package let perSecond: Double
    /// The burst: 1 to 1,000,000.
    package let burst: Int

    /// A rate. Values outside their ranges are clamped.
    package init(perSecond: Double, burst: Int) {
        self.perSecond = min(max(perSecond, 0.000_1), 1_000_000)
        self.burst = min(max(burst, 1), 1_000_000)
    }

    /// Reads `100/1000`: 100 a second, 1,000 at once. `nil` for anything else.
    package init?(_ text: String) {
        let parts = text.split(separator: "/", omittingEmptySubsequences: false)
        guard parts.count == 2, let perSecond = Double(parts[0]), let burst = Int(parts[1]),
            (0.000_1...1_000_000).contains(perSecond), (1...1_000_000).contains(burst)
        else { return nil }
        self.init(perSecond: perSecond, burst: burst)
    }

    /// The text form, in the format of ``init(_:)``.
    package var description: String {
        let isWhole = perSecond == perSecond.rounded()
        return (isWhole ? "\(Int64(perSecond))" : "\(perSecond)") + "/\(burst)"
    }

    /// The time in which one unit is recovered, in microseconds.
    var interval: Int64 { Int64((1_000_000 / perSecond).rounded(.up)) }
}

/// The reason why a request was refused without being read, as named in metrics.
package enum Refusal: String, Hashable, Sendable, CaseIterable {
    /// An address sends too many requests.
    case addressRate = "address_rate"
    /// An address has too many requests in progress.
    case addressConcurrency = "address_concurrency"
    /// An account sends too many requests.
    case accountRate = "account_rate"
    /// An account has too many requests in progress, or too many open streams.
    case accountConcurrency = "account_concurrency"
    /// An account has reached its quota.
    case quota
    /// A long body from an unknown sender, or at a path that accepts none.
    case body
    /// The server has too many requests in progress.
    case overload
    /// Input that is not a valid request, or a header that is too long.
    case malformed
    /// A connection beyond the limit.
    case connections
    /// A client that was too slow.
    case slow
}
