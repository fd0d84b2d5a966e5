/// The access of an account on one device, as its server has signed it.
///
/// A server answers it at `GET /v1/grants`. It proves access without a request: see ``GrantVerifier``.
public struct SignedGrant: Hashable, Sendable {
    /// An entitlement that the server grants.
    public struct Item: Hashable, Sendable {
        /// The entitlement.
        public var entitlement: EntitlementID
        /// The end of the access; `nil` for permanent access, and for units.
        public var until: Timestamp?
        /// The number of units that are left, if units grant the access.
        public var units: Int64?

        /// Creates an item.
        public init(_ entitlement: EntitlementID, until: Timestamp?, units: Int64? = nil) {
            (self.entitlement, self.until, self.units) = (entitlement, until, units)
        }
    }

    /// The name of the server (`iss`).
    public var server: String
    /// The pseudonym of the account (`sub`). Computing it takes the account's incarnation, which is random.
    public var account: String
    /// The id of the device (`dev`).
    public var device: String
    /// The environment of the purchases that count (`env`).
    public var environment: EnvironmentID
    /// The time of the signature (`iat`), in whole seconds.
    public var issued: Timestamp
    /// The time at which the grant expires (`exp`), in whole seconds.
    public var expires: Timestamp
    /// The entitlements that are granted, in ascending order.
    public var items: [Item]

    /// Creates a grant.
    public init(
        server: String, account: String, device: String, environment: EnvironmentID, issued: Timestamp,
        expires: Timestamp, items: [Item]
    ) {
        (self.server, self.account, self.device, self.environment) = (server, account, device, environment)
        (self.issued, self.expires, self.items) = (issued, expires, items)
    }

    /// The largest grant, in bytes.
    package static let maximumByteCount = 65_536
    /// The `typ` of a grant.
    package static let type = "entitlement-grant+jwt"
    /// The `typ` of the statement of a root about a key.
    package static let keyType = "entitlement-key+jwt"

    /// The text whose SHA-256, in hexadecimal, is the pseudonym of an account.
    package static func pseudonymSource(server: String, name: String, incarnation: String) -> String {
        "\(type)\n\(server)\n\(incarnation)\n\(name)"
    }

    /// The access that the grant proves. Units prove none: a device spends them, so no earlier statement bounds them.
    ///
    /// - Parameter grace: The time after ``expires`` for which a device without a connection still accepts the grant,
    ///   in milliseconds.
    public func limit(grace: Int64 = 0) -> AccessLimit {
        let ends = items.filter { $0.units == nil }.map { ($0.entitlement, $0.until ?? .latest) }
        return AccessLimit(
            ends: Dictionary(ends) { max($0, $1) }, until: Timestamp(milliseconds: expires.milliseconds + max(0, grace))
        )
    }
}

/// The most access that a decision may grant: see ``AccessContext/limit``.
public struct AccessLimit: Hashable, Sendable {
    /// The end of each entitlement; `Timestamp.latest` for permanent access. An entitlement that is absent is denied.
    public var ends: [EntitlementID: Timestamp]
    /// The instant at which everything ends.
    public var until: Timestamp

    /// Creates a limit.
    public init(ends: [EntitlementID: Timestamp], until: Timestamp) {
        (self.ends, self.until) = (ends, until)
    }

    /// A limit that denies everything.
    public static let nothing = AccessLimit(ends: [:], until: .earliest)

    /// Returns the next instant after `instant` at which the limit denies more; `nil` if there is none.
    package func nextBoundary(after instant: Timestamp) -> Timestamp? {
        (Array(ends.values) + [until]).filter { $0 > instant && $0 < .latest }.min()
    }

    /// Returns the decision that remains of `grant`.
    func limiting(
        _ grant: Access.Grant, of entitlement: EntitlementID, at instant: Timestamp, isSignedIn: Bool
    ) -> Access {
        guard let end = ends[entitlement], instant < until else {
            return .denied(isSignedIn ? .unverified : .signInNeeded)
        }
        // The facts grant more than the server has confirmed.
        guard instant < end else { return .denied(.unverified) }
        var grant = grant
        if end < .latest { grant.until = min(grant.until ?? end, end) }
        return .granted(grant)
    }
}

/// A verifier of the grants of a server.
public protocol GrantVerifier: Sendable {
    /// Verifies that a server signed `grant` for this account and device.
    ///
    /// The caller compares ``SignedGrant/issued``, ``SignedGrant/expires`` and ``SignedGrant/environment``.
    ///
    /// - Parameters:
    ///   - grant: The grant as the server sent it: a JSON Web Signature in compact form.
    ///   - account: The name and the incarnation of the account.
    ///   - device: The id of this device, as it was sent in the request.
    /// - Throws: ``GrantError`` with the check that failed.
    func verify(
        _ grant: [UInt8], account: (name: String, incarnation: String), device: String
    ) throws(GrantError) -> SignedGrant
}

/// The refusal of a grant. It names the check that failed.
public struct GrantError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The checks that a grant must pass, in their order.
    public enum Check: String, Hashable, Sendable, CaseIterable {
        /// The grant is longer than 65,536 bytes.
        case size
        /// The encoding: the number of segments, base64, JSON, repeated members, a member that is missing or wrong.
        case format
        /// The algorithm is not EdDSA.
        case algorithm
        /// The statement is of another type, for example an access token.
        case type
        /// No pinned root has signed the statement about the server's key.
        case root
        /// The server's key was not valid when the grant was signed, or the grant outlives it.
        case key
        /// The server's key has not signed the grant.
        case signature
        /// The grant is for another account.
        case account
        /// The grant is for another device.
        case device
        /// The grant is for another environment.
        case environment
        /// The grant was signed in the future, or has expired.
        case time
    }

    /// The check that failed.
    public var check: Check
    /// The reason, as a clause without a final period.
    public var reason: String

    /// Creates a refusal.
    package init(_ check: Check, _ reason: String) { (self.check, self.reason) = (check, reason) }

    /// The check and the reason, on one line.
    public var description: String { "\(check.rawValue): \(reason)" }
}
