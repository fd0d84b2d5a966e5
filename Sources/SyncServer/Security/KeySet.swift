import Crypto
import CryptoExtras
import Entitlements

/// The usable public keys of an issuer (RFC 7517): those with an ID, for signatures, and of a supported key type.
struct KeySet: Sendable {
    /// A public key, and the only algorithm that it may be used with, so that a token cannot choose its algorithm.
    struct Key: Sendable {
        /// The algorithm's name in a token (`alg`).
        let algorithm: String
        /// Returns `true` for a right signature.
        let isValid: @Sendable (_ signature: [UInt8], _ bytes: [UInt8]) -> Bool
    }

    private var keys: [String: Key] = [:]

    /// Reads the JSON of a key set. Unusable keys are skipped (RFC 7517, section 5).
    ///
    /// - Throws: ``KeySetError`` if `json` is not a key set or contains no usable key.
    init(json: [UInt8]) throws(KeySetError) {
        guard let candidates = try? JSONReader(parsing: json).object().required("keys").array() else {
            throw KeySetError("it is not a JSON Web Key Set")
        }
        for candidate in candidates {
            guard let members = try? candidate.object(), let id = try? members.required("kid").string(),
                let key = try? Self.key(members), (try? members["use"]?.string() ?? "sig") == "sig",
                (try? members["alg"]?.string() ?? key.algorithm) == key.algorithm
            else { continue }
            keys[id] = key
        }
        guard !keys.isEmpty else {
            throw KeySetError("it has no key with a kid for ES256, RS256 (at least 2048 bits) or EdDSA")
        }
    }

    /// The key with these members; `nil` if its type is not supported.
    private static func key(_ members: JSONObjectReader) throws -> Key? {
        func bytes(_ name: String) throws -> [UInt8] {
            let member = try members.required(name)
            guard let bytes = Base64.url.decode(try member.string().utf8) else { throw member.error("not base64url") }
            return bytes
        }
        let curve = try members["crv"]?.string()
        switch (try members.required("kty").string(), curve) {
        case ("EC", "P-256"):
            let key = try P256.Signing.PublicKey(rawRepresentation: try bytes("x") + bytes("y"))
            return Key(algorithm: "ES256") { signature, bytes in
                (try? P256.Signing.ECDSASignature(rawRepresentation: signature)).map {
                    key.isValidSignature($0, for: bytes)
                } ?? false
            }
        case ("RSA", _):
            // It refuses keys of less than 2048 bits (RFC 7518, section 3.3).
            let key = try _RSA.Signing.PublicKey(n: try bytes("n"), e: try bytes("e"))
            return Key(algorithm: "RS256") { signature, bytes in
                key.isValidSignature(
                    .init(rawRepresentation: signature), for: SHA256.hash(data: bytes), padding: .insecurePKCS1v1_5)
            }
        case ("OKP", "Ed25519"):
            let key = try Curve25519.Signing.PublicKey(rawRepresentation: try bytes("x"))
            return Key(algorithm: "EdDSA") { key.isValidSignature($0, for: $1) }
        default: return nil
        }
    }

    /// The key with this ID.
    subscript(id: String) -> Key? { keys[id] }
}

/// A key set that cannot be loaded or has no usable key.
package struct KeySetError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The reason, in one line.
    package let description: String

    init(_ reason: String) { description = reason }
}
