import Crypto
public import SyncService

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// The cryptography of a server: scrypt for passwords, Ed25519 for its tokens, and the tokens of other issuers.
public final class ServerCryptography: ServiceCryptography {
    private let passwords: PasswordHashing
    private let tokens: OwnTokens
    private let server: String
    private let issuers: [IssuerVerifier]

    /// - Parameters:
    ///   - server: the server's name, as its tokens have it: `ServiceConfiguration.name`.
    ///   - passwords: what hashes passwords.
    ///   - issuers: whose tokens are believed besides, each of another name, none of the server's.
    ///   - onError: is told in one line when the keys of an issuer cannot be loaded.
    public convenience init(
        server: String, passwords: PasswordHashing, issuers: [ExternalIssuer] = [],
        onError: @escaping @Sendable (String) -> Void = { _ in }
    ) {
        self.init(
            server: server, passwords: passwords, issuers: issuers, instant: { ContinuousClock.now }, onError: onError)
    }

    /// The same with a clock of its own, which measures how old an issuer's keys are.
    package init(
        server: String, passwords: PasswordHashing, issuers: [ExternalIssuer],
        instant: @escaping @Sendable () -> ContinuousClock.Instant, onError: @escaping @Sendable (String) -> Void
    ) {
        self.server = server
        self.passwords = passwords
        tokens = OwnTokens(server: server)
        self.issuers = issuers.map { IssuerVerifier($0, instant: instant, onError: onError) }
    }

    /// See ``PasswordHashing``.
    public func hash(password: [UInt8], peer: String) async throws(CryptographyError) -> String {
        try await passwords.hash(password, peer: peer)
    }

    /// See ``PasswordHashing``.
    public func verify(password: [UInt8], hash: String, peer: String) async throws(CryptographyError) -> Bool {
        try await passwords.verify(password, hash, peer: peer)
    }

    /// SHA-256.
    public func digest(of bytes: [UInt8]) -> [UInt8] { Array(SHA256.hash(data: bytes)) }

    /// HMAC-SHA-256.
    public func authenticationCode(of bytes: [UInt8], key: [UInt8]) -> [UInt8] {
        Array(HMAC<SHA256>.authenticationCode(for: bytes, using: SymmetricKey(data: key)))
    }

    /// Bytes of the system's generator.
    public func randomBytes(_ count: Int) -> [UInt8] { SecureBytes.random(count) }

    /// A new key for Ed25519.
    public func makeSigningKey() -> [UInt8] { Array(Curve25519.Signing.PrivateKey().rawRepresentation) }

    /// A token with the name of its key in the header and `EdDSA` as its algorithm.
    public func sign(_ claims: AccessClaims, with key: SigningKey) async throws(CryptographyError) -> String {
        try await tokens.sign(claims, with: key)
    }

    /// Verifies a token by the rules of the issuer that it names; none of these is taken from the token but the
    /// name of the key.
    public func verify(_ token: String, keys: [SigningKey], now: Int64) async throws(TokenRefusal) -> VerifiedToken {
        let token = try WebToken(token)
        guard let id = token.header.kid else { throw TokenRefusal("it names no key") }
        let issuer = try token.claims(Issuer.self).iss
        if issuer == server {
            guard let key = keys.first(where: { $0.id == id }) else {
                throw TokenRefusal("it names a key that this server does not have")
            }
            return .own(try await tokens.verify(token, key: key, now: now))
        }
        guard let verifier = issuers.first(where: { $0.issuer.name == issuer }) else {
            throw TokenRefusal("its issuer is unknown here")
        }
        return try await verifier.verify(token, now: now)
    }

    private struct Issuer: Decodable { var iss: String }
}
