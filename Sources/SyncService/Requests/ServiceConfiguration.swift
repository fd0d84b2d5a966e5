package import Entitlements

/// A rule about the purchases that a façade records for its clients, in a store of its own.
package struct FacadeRule: Sendable {
    /// The store of these purchases. Accounts without such a purchase cost nothing.
    package var store: StoreID
    /// Adds decisions to the server ledger, whenever one of the account's two ledgers changes.
    package var decide: @Sendable (_ server: inout ServerLedger, _ account: Ledger, _ now: Timestamp) -> Void

    /// A rule about the purchases of `store`.
    package init(
        store: StoreID, decide: @escaping @Sendable (inout ServerLedger, _ account: Ledger, _ now: Timestamp) -> Void
    ) {
        (self.store, self.decide) = (store, decide)
    }

    /// Returns `true` if the ledger has a purchase of the façade.
    func concerns(_ account: Ledger) -> Bool {
        account.records.contains { $0.purchase?.transaction.store == store }
    }
}

/// The configuration of a service.
package struct ServiceConfiguration: Sendable {
    /// The server's name: the issuer and the audience of its tokens. Changing it invalidates all access tokens.
    package var name: String
    /// The version of the program, for operators; empty if it is unknown.
    package var version = ""
    /// The products, for `/v1/catalog` and `/v1/entitlements`; `nil` for a server that only keeps ledgers.
    package var catalog: Catalog?
    /// The catalogue as it is served.
    package var catalogJSON: [UInt8]
    /// True if anyone may create an account. Set it to `false` if another issuer's tokens are accepted as well: a name
    /// that is taken here is not available to the issuer's user of that name.
    package var allowsSignUp = true
    /// The origins of web pages that may send requests (`https://shop.example.com`), compared byte by byte.
    package var origins: [String] = []
    /// The address of the page on which a person approves a device, for the device grant (RFC 8628). The default is the
    /// server's own start page.
    package var approvalPage: String
    /// The token that gives access to every key except the server's own; `nil` for none.
    package var operatorToken: String?
    /// The owner of a transaction that two accounts claim.
    package var ownership = Ownership.keepWithFirst
    /// The rule of a façade that serves the same accounts; `nil` without one.
    package var facade: FacadeRule?
    /// The trust in what clients report.
    package var policy = TrustPolicy.trusted
    /// The verifiers of what stores sign.
    package var evidence = EvidenceConfiguration()
    /// The environment whose purchases open content.
    package var contentEnvironment = EnvironmentID.production
    /// The signing of grants; `nil` for a server that signs none.
    package var grants: GrantConfiguration?
    /// The lifetime of an access token, in seconds.
    package var accessTokenLifetime = 600
    /// The lifetime of a session without refresh, in seconds.
    package var sessionLifetime = 180 * 86_400
    /// True if the clock is accepted although the store has seen later times. Meant for one start, after the clock was
    /// ahead.
    package var isClockAccepted = false
    /// The limits of one request.
    package var limits = KeyValueService.Limits()
    /// The limits of an address and of an account.
    package var callerLimits = CallerLimits()

    /// The rule for a transaction that two accounts have recorded.
    package enum Ownership: String, Hashable, Sendable, CaseIterable {
        /// The account that recorded it first owns it until it is erased.
        case keepWithFirst
        /// Like ``keepWithFirst``, but an explicit restore moves a verified purchase to the account that is logged in,
        /// at most once a day.
        case transfer
        /// Both accounts own it.
        case share
    }

    /// The usual configuration of a server called `name`.
    package init(name: String, catalog: Catalog? = nil, catalogJSON: [UInt8] = []) {
        (self.name, self.catalog, self.catalogJSON) = (name, catalog, catalogJSON)
        approvalPage = name.hasSuffix("/") ? name : name + "/"
    }

    /// The rules for pages of ``origins``.
    var crossOrigin: CrossOrigin { CrossOrigin(origins: origins) }

    /// ``sessionLifetime`` in milliseconds.
    var sessionMilliseconds: Int64 { Int64(sessionLifetime) * 1_000 }
}
