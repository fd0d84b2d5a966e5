import JWTKit

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// The public keys of an issuer (RFC 7517), those of them that are of use here: with a name, for signatures, and of a
/// kind whose one algorithm is known.
struct KeySet: Sendable {
    /// What a key is used with: one algorithm for each kind, which no token can choose.
    private static let algorithms = ["EC": "ES256", "RSA": "RS256", "OKP": "EdDSA"]
    /// The least length of an RSA key (RFC 7518, section 3.3), in bytes.
    private static let modulusByteCount = 256

    private let keys: [String: any JWTAlgorithm]

    /// The part of a key that tells whether it is of use.
    private struct Description: Decodable {
        var kid: String?
        var kty: String
        var alg: String?
        var use: String?
        var n: String?
    }

    private enum Member: String, CodingKey { case keys }

    /// Takes one key of any kind out of a list, or steps over it.
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

    /// Reads the JSON of a key set. Keys that are of no use here are left out (RFC 7517, section 5).
    ///
    /// - Throws: ``KeySetError`` for anything that is no key set, or has no key of use in it.
    init(json: [UInt8]) async throws(KeySetError) {
        guard let document = try? JSONDecoder().decode(Document.self, from: Data(json)) else {
            throw KeySetError("it is no JSON Web Key Set")
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
            throw KeySetError("it has no key with a name for ES256, RS256 (of 2048 bits or more) or EdDSA")
        }
        self.keys = keys
    }

    private static func isLongEnough(_ key: Description) -> Bool {
        guard key.kty == "RSA" else { return true }
        guard let modulus = key.n.flatMap({ UnpaddedBase64.bytes(ofURLSafe: $0) }) else { return false }
        return modulus.drop { $0 == 0 }.count >= modulusByteCount
    }

    /// The key called `id`; its `name` is the only algorithm that it may be used with.
    subscript(id: String) -> (any JWTAlgorithm)? { keys[id] }
}

/// What came is no set of keys.
public struct KeySetError: Error, Hashable, Sendable, CustomStringConvertible {
    /// One line.
    public let description: String

    init(_ reason: String) { description = reason }
}
