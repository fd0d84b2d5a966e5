package import Entitlements

/// The cryptography of accounts and tokens. The service itself contains none, so that it builds on every platform and
/// a simulation can replace the slow hashing of passwords.
package protocol ServiceCryptography: Sendable {
    /// A salted hash of `password` that is slow to guess (scrypt, RFC 7914), as one line of text with its parameters.
    /// Does not block the threads of other tasks.
    ///
    /// - Parameter peer: The address of the client, so that addresses share the work fairly.
    /// - Throws: ``CryptographyError``, also if too many hashes of the address, or of all addresses, are waiting.
    func hash(password: [UInt8], peer: String) async throws(CryptographyError) -> String

    /// Returns `true` if `hash` is a hash of `password`, by scrypt or an imported one by bcrypt. Takes the same time
    /// for a wrong password.
    ///
    /// - Parameter peer: As for ``hash(password:peer:)``.
    func verify(password: [UInt8], hash: String, peer: String) async throws(CryptographyError) -> Bool

    /// SHA-256 of `bytes`: 32 bytes.
    func digest(of bytes: [UInt8]) -> [UInt8]

    /// HMAC-SHA-256 of `bytes` under `key`: 32 bytes.
    func authenticationCode(of bytes: [UInt8], key: [UInt8]) -> [UInt8]

    /// Unpredictable bytes.
    func randomBytes(_ count: Int) -> [UInt8]

    /// A new key to sign tokens with: the private key's bytes (Ed25519, 32 bytes).
    func makeSigningKey() -> [UInt8]

    /// A token of `claims`, signed by `key`, which is named in its header: a JWT (RFC 7519) by EdDSA (RFC 8037).
    func sign(_ claims: AccessClaims, with key: SigningKey) async throws(CryptographyError) -> String

    /// The public part of a key: 32 bytes.
    func publicKey(of key: SigningKey) throws(CryptographyError) -> [UInt8]

    /// A JSON Web Signature (RFC 7515) of `payload` by EdDSA, in compact form, whose header names the type and the key.
    func sign(_ payload: [UInt8], type: String, with key: SigningKey) throws(CryptographyError) -> String

    /// The payload of a signature of this type by one of `keys`, and the name of the key.
    ///
    /// - Throws: ``TokenRefusal`` for any other text.
    func verify(
        _ token: String, type: String, keys: [SigningKey]
    ) throws(TokenRefusal) -> (payload: [UInt8], key: String)

    /// `grant`, signed by `key`, with a statement of `root` about the key in its header: JSON Web Signatures (RFC 7515)
    /// by EdDSA. Their members and types are described in Docs/Grants.md.
    func sign(_ grant: SignedGrant, with key: GrantKey, by root: SigningKey) async throws(CryptographyError) -> String

    /// The content of `token`, if it is valid at `now` (milliseconds since 1970 UTC) and for this audience, and was
    /// signed with one of `keys` or of a configured issuer's keys, by the algorithm of that key.
    ///
    /// - Throws: ``TokenRefusal`` for any other token.
    func verify(_ token: String, keys: [SigningKey], now: Int64) async throws(TokenRefusal) -> VerifiedToken
}

/// A key with which this server signs tokens.
package struct SigningKey: Hashable, Sendable {
    /// The key's name in the header of a token (`kid`).
    package var id: String
    /// The private key.
    package var bytes: [UInt8]

    /// A key called `id`.
    package init(id: String, bytes: [UInt8]) { (self.id, self.bytes) = (id, bytes) }
}

/// The claims of an access token of this server.
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

    /// Claims of the given parts.
    package init(
        account: String, incarnation: String, session: String, server: String, issuedAt: Int64, expiresAt: Int64
    ) {
        (self.account, self.incarnation, self.session) = (account, incarnation, session)
        (self.server, self.issuedAt, self.expiresAt) = (server, issuedAt, expiresAt)
    }
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
    package var isExpired: Bool

    /// A refusal for `reason`.
    package init(_ reason: String, isExpired: Bool = false) { (self.reason, self.isExpired) = (reason, isExpired) }
}

/// The error of a failed computation: a stored hash is malformed, memory is short, or too many hashes are waiting.
package struct CryptographyError: Error, Hashable, Sendable {
    /// One line for the log, without secrets.
    package var reason: String
    /// True if the same computation fails again, so that a client has no reason to try again.
    package var isPermanent: Bool

    /// An error for `reason`.
    package init(_ reason: String, isPermanent: Bool = false) {
        (self.reason, self.isPermanent) = (reason, isPermanent)
    }
}
