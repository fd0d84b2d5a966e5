import Crypto
import JWTKit
import SyncService
import Synchronization

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// Access tokens of this server: JSON Web Tokens signed by Ed25519, of which the algorithm, the issuer and the audience
/// are fixed and the key is named.
final class OwnTokens: Sendable {
    static let algorithm = "EdDSA"
    /// Keys rotate; more are never in use at once.
    private static let keyCount = 16

    private let server: String
    /// Reading a key costs as much as a signature.
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

        // Their dates are compared with the host's clock, see below.
        func verify(using algorithm: some JWTAlgorithm) throws {}
    }

    func sign(_ claims: AccessClaims, with key: SigningKey) async throws(CryptographyError) -> String {
        let payload = Payload(
            iss: claims.server, aud: claims.server, sub: claims.account, inc: claims.incarnation, sid: claims.session,
            iat: claims.issuedAt, exp: claims.expiresAt)
        do {
            let keys = JWTKeyCollection()
            await keys.add(eddsa: try Self.privateKey(key.bytes))
            // Named in the header only: a collection has no use for the name of its one key.
            return try await keys.sign(payload, header: ["kid": .string(key.id), "typ": "JWT"])
        } catch {
            throw CryptographyError("a token cannot be signed: \(error)")
        }
    }

    func verify(_ token: WebToken, key: SigningKey, now: Int64) async throws(TokenRefusal) -> AccessClaims {
        guard token.header.alg == Self.algorithm else { throw TokenRefusal("it is signed by another algorithm") }
        guard token.header.typ == nil || token.header.typ == "JWT" else { throw TokenRefusal("it is of another type") }
        let signer = try await signer(for: key)
        guard (try? signer.verify(token.signature, signs: token.signedBytes)) == true else {
            throw TokenRefusal("its signature is wrong")
        }
        let payload = try token.claims(Payload.self)
        guard payload.iss == server, payload.aud == server else { throw TokenRefusal("it is of another server") }
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
