import Crypto
import JWTKit
import SyncService
import Synchronization

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// The access tokens of this server: JSON Web Tokens signed with Ed25519.
///
/// The algorithm, issuer and audience are fixed; the header names the key.
final class TokenIssuer: Sendable {
    static let algorithm = "EdDSA"
    /// The maximum number of cached keys. Keys rotate, and fewer are in use at a time.
    private static let keyCount = 16

    private let server: String
    /// A cache of parsed keys: parsing one costs as much as a signature.
    private let signers = Mutex<[SigningKey: any JWTAlgorithm]>([:])

    init(server: String) { self.server = server }

    private struct Payload: JWTPayload {
        var iss: String
        var aud: String
        var sub: String
        var inc: String
        var sid: String
        var iat: Int64
        var exp: Int64

        // JWTKit would use the system clock. `TokenDates` checks the dates against the host's clock.
        func verify(using algorithm: some JWTAlgorithm) throws {}
    }

    func sign(_ claims: AccessClaims, with key: SigningKey) async throws(CryptographyError) -> String {
        let payload = Payload(
            iss: claims.server, aud: claims.server, sub: claims.account, inc: claims.incarnation, sid: claims.session,
            iat: claims.issuedAt, exp: claims.expiresAt)
        do {
            let keys = JWTKeyCollection()
            await keys.add(eddsa: try Self.privateKey(key.bytes))
            // The collection holds one key and needs no ID for it, so only the header names the key.
            return try await keys.sign(payload, header: ["kid": .string(key.id), "typ": "JWT"])
        } catch {
            throw CryptographyError("cannot sign a token: \(error)")
        }
    }

    func verify(_ token: WebToken, key: SigningKey, now: Int64) async throws(TokenRefusal) -> AccessClaims {
        guard token.header.alg == Self.algorithm else { throw TokenRefusal("its algorithm is not EdDSA") }
        guard token.header.typ == nil || token.header.typ == "JWT" else { throw TokenRefusal("its type is not JWT") }
        let signer = try await signer(for: key)
        guard (try? signer.verify(token.signature, signs: token.signedBytes)) == true else {
            throw TokenRefusal("its signature is wrong")
        }
        let payload = try token.claims(Payload.self)
        guard payload.iss == server, payload.aud == server else { throw TokenRefusal("it is from another server") }
        try TokenDates.check(expiresAt: payload.exp, issuedAt: payload.iat, notBefore: nil, now: now)
        return AccessClaims(
            account: payload.sub, incarnation: payload.inc, session: payload.sid, server: payload.iss,
            issuedAt: payload.iat, expiresAt: payload.exp)
    }

    private func signer(for key: SigningKey) async throws(TokenRefusal) -> any JWTAlgorithm {
        if let known = signers.withLock({ $0[key] }) { return known }
        let signer: any JWTAlgorithm
        do {
            signer = try await JWTKeyCollection().add(eddsa: Self.privateKey(key.bytes).publicKey).getKey()
        } catch {
            throw TokenRefusal("the key that it names cannot be read: \(error)")
        }
        signers.withLock { signers in
            if signers.count >= Self.keyCount { signers.removeAll() }
            signers[key] = signer
        }
        return signer
    }

    private static func privateKey(_ bytes: [UInt8]) throws -> EdDSA.PrivateKey {
        EdDSA.PrivateKey(backing: try Curve25519.Signing.PrivateKey(rawRepresentation: bytes))
    }
}
