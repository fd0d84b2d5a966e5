/// Another service whose tokens the server accepts.
package protocol TokenIssuer: Sendable {
    /// The issuer's name. A token's `iss` must equal it.
    var name: String { get }

    /// The content of a token that names this issuer, if it is valid at `now` (milliseconds since 1970 UTC) and for
    /// this audience, and was signed with one of the issuer's keys, by the algorithm of that key.
    ///
    /// - Throws: ``TokenRefusal`` for any other token.
    func verify(_ token: WebToken, now: Int64) async throws(TokenRefusal) -> VerifiedToken
}

/// A token whose signature, audience and dates were verified.
package enum VerifiedToken: Hashable, Sendable {
    /// A token of this server.
    case own(AccessClaims)
    /// A token of a configured issuer: its subject (`sub`), the time of issue (`iat`, if stated) and the expiry, in
    /// seconds since 1970 UTC.
    case external(issuer: String, subject: String, issuedAt: Int64?, expiresAt: Int64)
}

/// The reason why a token is rejected. It is for the log; clients receive the same message for all reasons.
package struct TokenRefusal: Error, Hashable, Sendable {
    /// One line for the log, without the token.
    package var reason: String
    /// True if the token was valid in the past.
    package var isExpired = false
    /// True if the token names a key that this server does not have.
    package var isKeyUnknown = false

    /// A refusal for `reason`.
    package init(_ reason: String, isExpired: Bool = false, isKeyUnknown: Bool = false) {
        (self.reason, self.isExpired, self.isKeyUnknown) = (reason, isExpired, isKeyUnknown)
    }
}
