import Crypto
package import Entitlements
package import SyncService

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// The cryptography of a server: scrypt for passwords, Ed25519 for its tokens, and the tokens of other issuers.
package final class ServerCryptography: ServiceCryptography {
    private let passwords: PasswordHashing
    private let tokens: TokenIssuer
    private let server: String
    private let issuers: [IssuerVerifier]
    private let onRefusal: @Sendable (RefusedToken) -> Void

    /// - Parameters:
    ///   - server: the issuer and audience of the server's tokens: `ServiceConfiguration.name`.
    ///   - passwords: hashes passwords.
    ///   - issuers: further issuers whose tokens are accepted. Their names must differ from each other and from
    ///     `server`.
    ///   - onError: called with a one-line message when the keys of an issuer cannot be loaded.
    ///   - onRefusal: called for each refused token, if there are further issuers, but not for tokens of the server.
    package convenience init(
        server: String, passwords: PasswordHashing, issuers: [ExternalIssuer] = [],
        onError: @escaping @Sendable (String) -> Void = { _ in },
        onRefusal: @escaping @Sendable (RefusedToken) -> Void = { _ in }
    ) {
        self.init(
            server: server, passwords: passwords, issuers: issuers, instant: { ContinuousClock.now }, onError: onError,
            onRefusal: onRefusal)
    }

    /// - Parameter instant: the clock that measures the age of an issuer's keys.
    package init(
        server: String, passwords: PasswordHashing, issuers: [ExternalIssuer],
        instant: @escaping @Sendable () -> ContinuousClock.Instant, onError: @escaping @Sendable (String) -> Void,
        onRefusal: @escaping @Sendable (RefusedToken) -> Void = { _ in }
    ) {
        self.server = server
        self.onRefusal = onRefusal
        self.passwords = passwords
        tokens = TokenIssuer(server: server)
        self.issuers = issuers.map { IssuerVerifier($0, instant: instant, onError: onError) }
    }

    /// Hashes a password, see ``PasswordHashing``.
    package func hash(password: [UInt8], peer: String) async throws(CryptographyError) -> String {
        try await passwords.hash(password, peer: peer)
    }

    /// Verifies a password, see ``PasswordHashing``.
    package func verify(password: [UInt8], hash: String, peer: String) async throws(CryptographyError) -> Bool {
        try await passwords.verify(password, hash, peer: peer)
    }

    /// Returns the SHA-256 digest.
    package func digest(of bytes: [UInt8]) -> [UInt8] { Array(SHA256.hash(data: bytes)) }

    /// Returns the HMAC-SHA-256 code.
    package func authenticationCode(of bytes: [UInt8], key: [UInt8]) -> [UInt8] {
        Array(HMAC<SHA256>.authenticationCode(for: bytes, using: SymmetricKey(data: key)))
    }

    /// Returns random bytes from the system's cryptographic generator.
    package func randomBytes(_ count: Int) -> [UInt8] { SecureBytes.random(count) }

    /// Creates an Ed25519 private key.
    package func makeSigningKey() -> [UInt8] { Array(Curve25519.Signing.PrivateKey().rawRepresentation) }

    /// Signs a token with `EdDSA`. The header names the key.
    package func sign(_ claims: AccessClaims, with key: SigningKey) async throws(CryptographyError) -> String {
        try await tokens.sign(claims, with: key)
    }

    /// Derives the public part of an Ed25519 key.
    package func publicKey(of key: SigningKey) throws(CryptographyError) -> [UInt8] {
        do {
            return Array(try Curve25519.Signing.PrivateKey(rawRepresentation: key.bytes).publicKey.rawRepresentation)
        } catch {
            throw CryptographyError("the key \(key.id) cannot be read: \(error)")
        }
    }

    /// Signs a payload with `EdDSA`.
    package func sign(_ payload: [UInt8], type: String, with key: SigningKey) throws(CryptographyError) -> String {
        let header = JSON.object([("alg", .string("EdDSA")), ("kid", .string(key.id)), ("typ", .string(type))])
        let signed = [Array(header.line.utf8), payload].map(UnpaddedBase64.urlSafeText).joined(separator: ".")
        do {
            let signer = try Curve25519.Signing.PrivateKey(rawRepresentation: key.bytes)
            return signed + "." + UnpaddedBase64.urlSafeText(of: Array(try signer.signature(for: Array(signed.utf8))))
        } catch {
            throw CryptographyError("cannot sign: \(error)")
        }
    }

    /// Verifies a signature by `EdDSA`.
    package func verify(
        _ token: String, type: String, keys: [SigningKey]
    ) throws(TokenRefusal) -> (payload: [UInt8], key: String) {
        let token = try WebToken(token)
        guard token.header.alg == TokenIssuer.algorithm else { throw TokenRefusal("its algorithm is not EdDSA") }
        guard token.header.typ == type else { throw TokenRefusal("its type is not \(type)") }
        guard let key = keys.first(where: { $0.id == token.header.kid }),
            let signer = try? Curve25519.Signing.PrivateKey(rawRepresentation: key.bytes),
            signer.publicKey.isValidSignature(token.signature, for: token.signedBytes)
        else { throw TokenRefusal("its signature is wrong, or this server does not have the key that it names") }
        return (token.payload, key.id)
    }

    /// Signs a grant, see ``GrantSigner``.
    package func sign(
        _ grant: SignedGrant, with key: GrantKey, by root: SigningKey
    ) async throws(CryptographyError) -> String {
        try await GrantSigner.sign(grant, with: key, by: root)
    }

    /// Verifies a token by the rules of the issuer that it names. The token chooses the key, but not the algorithm or
    /// any other rule.
    package func verify(_ token: String, keys: [SigningKey], now: Int64) async throws(TokenRefusal) -> VerifiedToken {
        var refused = RefusedToken()
        do throws(TokenRefusal) {
            let token = try WebToken(token)
            (refused.key, refused.algorithm) = (token.header.kid, token.header.alg)
            guard let id = token.header.kid else { throw TokenRefusal("it does not name a key") }
            let issuer = try token.claims(Issuer.self).iss
            refused.issuer = issuer
            if issuer == server {
                guard let key = keys.first(where: { $0.id == id }) else {
                    throw TokenRefusal("this server does not have the key that it names")
                }
                return .own(try await tokens.verify(token, key: key, now: now))
            }
            guard let verifier = issuers.first(where: { $0.issuer.name == issuer }) else {
                throw TokenRefusal("its issuer is not accepted by this server")
            }
            return try await verifier.verify(token, now: now)
        } catch {
            refused.reason = error.reason
            // Devices refresh expired tokens of this server all the time.
            if !issuers.isEmpty, refused.issuer != server { onRefusal(refused) }
            throw error
        }
    }

    private struct Issuer: Decodable { var iss: String }
}
