import Crypto
import Entitlements
import JWTKit
import SyncService

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// Signs grants: JSON Web Tokens by Ed25519. `GrantRoots` verifies them.
enum GrantSigner {
    private struct Grant: JWTPayload {
        struct Item: Encodable, Decodable {
            var until: String?
            var units: Int64?

            func encode(to encoder: any Encoder) throws {
                var container = encoder.container(keyedBy: CodingKeys.self)
                // Permanent access is stated, not left out.
                try container.encode(until, forKey: .until)
                try container.encodeIfPresent(units, forKey: .units)
            }
        }

        var iss: String
        var sub: String
        var dev: String
        var env: String
        var iat: Int64
        var exp: Int64
        var entitlements: [String: Item]

        func verify(using algorithm: some JWTAlgorithm) throws {}
    }

    private struct KeyStatement: JWTPayload {
        var iss: String
        var x: String
        var iat: Int64
        var exp: Int64

        func verify(using algorithm: some JWTAlgorithm) throws {}
    }

    static func sign(
        _ grant: SignedGrant, with key: GrantKey, by root: SigningKey
    ) async throws(CryptographyError) -> String {
        do {
            let signer = try Curve25519.Signing.PrivateKey(rawRepresentation: key.key.bytes)
            let statement = KeyStatement(
                iss: grant.server, x: UnpaddedBase64.urlSafeText(of: Array(signer.publicKey.rawRepresentation)),
                iat: seconds(key.start), exp: seconds(key.end))
            let payload = Grant(
                iss: grant.server, sub: grant.account, dev: grant.device, env: grant.environment.rawValue,
                iat: seconds(grant.issued), exp: seconds(grant.expires),
                entitlements: Dictionary(
                    grant.items.map {
                        ($0.entitlement.rawValue, Grant.Item(until: $0.until.map { "\($0)" }, units: $0.units))
                    }
                ) { first, _ in first })
            return try await sign(
                payload, with: signer,
                header: [
                    "typ": .string(SignedGrant.type), "kid": .string(key.key.id),
                    "key": .string(
                        try await sign(
                            statement, with: Curve25519.Signing.PrivateKey(rawRepresentation: root.bytes),
                            header: ["typ": .string(SignedGrant.keyType)])),
                ])
        } catch {
            throw CryptographyError("cannot sign a grant: \(error)")
        }
    }

    private static func sign(
        _ payload: some JWTPayload, with key: Curve25519.Signing.PrivateKey, header: JWTHeader
    ) async throws -> String {
        let keys = JWTKeyCollection()
        await keys.add(eddsa: EdDSA.PrivateKey(backing: key))
        return try await keys.sign(payload, header: header)
    }

    private static func seconds(_ time: Timestamp) -> Int64 { time.milliseconds / 1_000 }
}
