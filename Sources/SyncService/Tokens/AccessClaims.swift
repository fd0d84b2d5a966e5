import Entitlements

/// The claims of an access token of this server: a JSON Web Token that is signed with Ed25519.
///
/// The algorithm, issuer and audience are fixed; the header names the key.
package struct AccessClaims: Hashable, Sendable {
    /// The account's name (`sub`).
    package var account: String
    /// The incarnation of the account (`inc`).
    package var incarnation: String
    /// The session of the token (`sid`).
    package var session: String
    /// The issuer and the audience (`iss` and `aud`): the server's name.
    package var server: String
    /// The time of issue (`iat`), in seconds since 1970 UTC.
    package var issuedAt: Int64
    /// The expiry (`exp`), in seconds since 1970 UTC.
    package var expiresAt: Int64
}

extension AccessClaims {
    /// Verifies a token of the server called `server`.
    ///
    /// - Parameter now: The time, in milliseconds since 1970 UTC.
    package init(verifying token: WebToken, keys: [SigningKey], server: String, now: Int64) throws(TokenRefusal) {
        _ = try token.verify(as: "JWT", by: keys)
        let audience: String
        (self, audience) = try token.claims { claims throws(InputError) in
            let read = AccessClaims(
                account: try claims.required("sub").string(), incarnation: try claims.required("inc").string(),
                session: try claims.required("sid").string(), server: try claims.required("iss").string(),
                issuedAt: try claims.required("iat").integer(), expiresAt: try claims.required("exp").integer())
            return (read, try claims.required("aud").string())
        }
        guard self.server == server, audience == server else { throw TokenRefusal("it is from another server") }
        // Another process of this server may have issued it, by a clock that may differ this much.
        try WebToken.checkDates(
            expiresAt: expiresAt, notBefore: issuedAt, leeway: ClockRollbackGuard.tolerance / 1_000, now: now)
    }

    /// Returns the token.
    package func signed(with key: SigningKey) throws(CryptographyError) -> String {
        try key.signer().sign(
            .object([
                ("iss", .string(server)), ("aud", .string(server)), ("sub", .string(account)),
                ("inc", .string(incarnation)), ("sid", .string(session)), ("iat", .number(issuedAt)),
                ("exp", .number(expiresAt)),
            ]))
    }
}
