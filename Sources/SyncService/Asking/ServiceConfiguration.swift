public import Entitlements

/// How a server behaves.
public struct ServiceConfiguration: Sendable {
    /// The server's name: issuer and audience of its tokens. Changing it ends all access tokens.
    public var name: String
    /// What is sold, for `/v1/catalog` and `/v1/entitlements`; `nil` for a server that only keeps ledgers.
    public var catalog: Catalog?
    /// The catalogue as it is handed out.
    public var catalogJSON: [UInt8]
    /// Whether anybody may make an account. Beside another issuer of tokens it had better be `false`: a name that
    /// somebody has taken here is none that the issuer's user of that name can have.
    public var allowsSignUp = true
    /// The origins of web pages that may ask (`https://shop.example.com`), byte for byte.
    public var origins: [String] = []
    /// The address of the page on which a person approves a device, for the device grant (RFC 8628). The server's own
    /// first page unless set.
    public var approvalPage: String
    /// How many devices may wait to be approved at once, by the device grant, 1 or more.
    public var waitingDeviceCount = 10_000
    /// The token that reaches every key but the server's own; `nil` for none.
    public var operatorToken: String?
    /// Who owns a transaction that two accounts claim.
    public var ownership = Ownership.keepWithFirst
    /// How long an access token counts, in seconds.
    public var accessTokenLifetime = 600
    /// How long a session lives that is not refreshed, in seconds.
    public var sessionLifetime = 180 * 86_400
    /// Whether the clock is right although the store has seen later times; for one start, after the clock was ahead.
    public var isClockAccepted = false
    /// How much one request may ask for.
    public var limits = KeyValueService.Limits()
    /// How often an address or an account may ask, and how much an account may have.
    public var callerLimits = CallerLimits()

    /// Whose a transaction is that two accounts have recorded.
    public enum Ownership: String, Hashable, Sendable, CaseIterable {
        /// Whoever came first, for good, or until his account is erased.
        case keepWithFirst
        /// Both.
        case share
    }

    /// The usual configuration of a server called `name`.
    public init(name: String, catalog: Catalog? = nil, catalogJSON: [UInt8] = []) {
        (self.name, self.catalog, self.catalogJSON) = (name, catalog, catalogJSON)
        approvalPage = name.hasSuffix("/") ? name : name + "/"
    }

    /// ``sessionLifetime`` in milliseconds.
    var sessionMilliseconds: Int64 { Int64(sessionLifetime) * 1_000 }
}
