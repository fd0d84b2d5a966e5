/// The cryptography that accounts need. The service itself has none, so that it builds anywhere and a simulation can
/// hash passwords in no time.
public protocol ServiceCryptography: Sendable {
    /// A salted hash of `password` that is slow to guess (scrypt, RFC 7914), as one line of text with its parameters.
    /// Does not block the threads of other tasks.
    func hash(password: [UInt8]) async throws(CryptographyError) -> String

    /// Whether `hash` is that of `password`. Takes as long for a wrong password.
    func verify(password: [UInt8], hash: String) async throws(CryptographyError) -> Bool

    /// SHA-256 of `bytes`: 32 bytes.
    func digest(of bytes: [UInt8]) -> [UInt8]

    /// HMAC-SHA-256 of `bytes` under `key`: 32 bytes.
    func authenticationCode(of bytes: [UInt8], key: [UInt8]) -> [UInt8]

    /// Bytes that nobody can guess.
    func randomBytes(_ count: Int) -> [UInt8]

    /// A new key to sign tokens with: the private key's bytes (Ed25519, 32 bytes).
    func makeSigningKey() -> [UInt8]

    /// A token of `claims`, signed by `key`, which is named in its header: a JWT (RFC 7519) by EdDSA (RFC 8037).
    func sign(_ claims: AccessClaims, with key: SigningKey) async throws(CryptographyError) -> String

    /// What `token` says, if one of `keys` or a configured issuer's has signed it by the algorithm of that key, for
    /// this audience, and it counts at `now` (milliseconds since 1970 UTC).
    ///
    /// - Throws: ``TokenRefusal`` for every other one.
    func verify(_ token: String, keys: [SigningKey], now: Int64) async throws(TokenRefusal) -> VerifiedToken
}

/// A key of this server's to sign tokens with.
public struct SigningKey: Hashable, Sendable {
    /// Its name in a token's header (`kid`).
    public var id: String
    /// The private key.
    public var bytes: [UInt8]

    /// A key called `id`.
    public init(id: String, bytes: [UInt8]) { (self.id, self.bytes) = (id, bytes) }
}

/// What an access token of this server's says.
public struct AccessClaims: Hashable, Sendable {
    /// The account's name (`sub`).
    public var account: String
    /// Which life of the account (`inc`).
    public var incarnation: String
    /// The session that it belongs to (`sid`).
    public var session: String
    /// Who made it and whom it is for (`iss` and `aud`): the server's name.
    public var server: String
    /// When it was made (`iat`), in seconds since 1970 UTC.
    public var issuedAt: Int64
    /// From when on it counts nothing (`exp`), in seconds since 1970 UTC.
    public var expiresAt: Int64

    /// Claims of the given parts.
    public init(
        account: String, incarnation: String, session: String, server: String, issuedAt: Int64, expiresAt: Int64
    ) {
        (self.account, self.incarnation, self.session) = (account, incarnation, session)
        (self.server, self.issuedAt, self.expiresAt) = (server, issuedAt, expiresAt)
    }
}

/// A token that can be believed.
public enum VerifiedToken: Hashable, Sendable {
    /// One of this server's.
    case own(AccessClaims)
    /// One of a configured issuer: who it is about (`sub`), when it was made (`iat`, where it says so) and until when
    /// it counts, in seconds since 1970 UTC.
    case external(issuer: String, subject: String, issuedAt: Int64?, expiresAt: Int64)
}

/// A token that is not believed. What is wrong is for the log; a client hears the same of all of them.
public struct TokenRefusal: Error, Hashable, Sendable {
    /// One line for the log, without the token.
    public var reason: String
    /// Whether it was good once.
    public var isExpired: Bool

    /// A refusal for `reason`.
    public init(_ reason: String, isExpired: Bool = false) { (self.reason, self.isExpired) = (reason, isExpired) }
}

/// Something cannot be computed: a stored hash is none, there is no memory.
public struct CryptographyError: Error, Hashable, Sendable {
    /// One line for the log, without secrets.
    public var reason: String

    /// An error for `reason`.
    public init(_ reason: String) { self.reason = reason }
}
