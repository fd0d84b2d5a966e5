import JWTKit

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// The usable public keys of an issuer (RFC 7517): those with an ID, for signatures, and of a supported key type.
struct KeySet: Sendable {
    /// The algorithm of each supported key type. It is fixed, so that a token cannot choose its algorithm.
    private static let algorithms = ["EC": "ES256", "RSA": "RS256", "OKP": "EdDSA"]
    /// The minimum length of an RSA modulus, in bytes (RFC 7518, section 3.3).
    private static let modulusByteCount = 256

    private let keys: [String: any JWTAlgorithm]

    /// The members of a key that decide if it is usable.
    private struct Description: Decodable {
        var kid: String?
        var kty: String
        var alg: String?
        var use: String?
        var n: String?
    }

    private enum Member: String, CodingKey { case keys }

    /// One key of the list. Decoding never fails, so that unsupported keys can be skipped.
    private struct Candidate: Decodable {
        var description: Description?
        var key: JWK?

        init(from decoder: any Decoder) {
            description = try? Description(from: decoder)
            key = try? JWK(from: decoder)
        }
    }

    private struct Document: Decodable {
        var keys: [Candidate]
    }

    /// Reads the JSON of a key set. Unusable keys are skipped (RFC 7517, section 5).
    ///
    /// - Throws: ``KeySetError`` if `json` is not a key set or contains no usable key.
    init(json: [UInt8]) async throws(KeySetError) {
        guard let document = try? JSONDecoder().decode(Document.self, from: Data(json)) else {
            throw KeySetError("it is not a JSON Web Key Set")
        }
        var keys: [String: any JWTAlgorithm] = [:]
        for candidate in document.keys {
            guard let description = candidate.description, let key = candidate.key, let id = description.kid,
                let algorithm = Self.algorithms[description.kty], description.alg ?? algorithm == algorithm,
                description.use ?? "sig" == "sig", Self.isLongEnough(description),
                let signer = try? await JWTKeyCollection().add(jwk: key)
                    .getKey(for: JWKIdentifier(string: id), alg: algorithm),
                signer.name == algorithm
            else { continue }
            keys[id] = signer
        }
        guard !keys.isEmpty else {
            throw KeySetError("it has no key with a kid for ES256, RS256 (at least 2048 bits) or EdDSA")
        }
        self.keys = keys
    }

    private static func isLongEnough(_ key: Description) -> Bool {
        guard key.kty == "RSA" else { return true }
        guard let modulus = key.n.flatMap({ UnpaddedBase64.bytes(ofURLSafe: $0) }) else { return false }
        return modulus.drop { $0 == 0 }.count >= modulusByteCount
    }

    /// The key with this ID. Its `name` is the only algorithm that it may be used with.
    subscript(id: String) -> (any JWTAlgorithm)? { keys[id] }
}

/// A key set that cannot be loaded or has no usable key.
package struct KeySetError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The reason, in one line.
    package let description: String

    init(_ reason: String) { description = reason }
}
