package import Crypto
package import Entitlements

/// Signs JSON Web Tokens (RFC 7519), and other JSON Web Signatures in compact form (RFC 7515).
package struct TokenSigner: Sendable {
    private let algorithm: String
    private let id: String?
    private let signature: @Sendable ([UInt8]) throws -> [UInt8]

    /// - Parameters:
    ///   - algorithm: The name of the algorithm (`alg`).
    ///   - id: The name of the key (`kid`); `nil` if the header names none.
    ///   - signature: Signs bytes by this algorithm.
    package init(_ algorithm: String, id: String?, signature: @escaping @Sendable ([UInt8]) throws -> [UInt8]) {
        (self.algorithm, self.id, self.signature) = (algorithm, id, signature)
    }

    /// Returns `claims` in compact form.
    ///
    /// - Parameters:
    ///   - type: The type of the token (`typ`).
    ///   - fields: Further members of the header.
    package func sign(
        _ claims: JSON, type: String = "JWT", adding fields: [(String, JSON)] = []
    ) throws(CryptographyError) -> String {
        let header =
            [("alg", JSON.string(algorithm)), ("typ", .string(type))] + (id.map { [("kid", .string($0))] } ?? [])
        let signed = [.object(header + fields), claims].map { Base64.url.encode(Array($0.line.utf8)) }
            .joined(separator: ".")
        do { return "\(signed).\(Base64.url.encode(try signature(Array(signed.utf8))))" } catch {
            throw CryptographyError("cannot sign a token: \(error)")
        }
    }
}

/// A key with which a server signs (Ed25519).
package struct SigningKey: Sendable {
    /// The name of its algorithm in tokens (`alg`, RFC 8037).
    static let algorithm = "EdDSA"

    /// The key's name in the header of a token (`kid`).
    package let id: String
    /// The private key.
    package let key: Curve25519.Signing.PrivateKey

    /// A key called `id`; by default a new one.
    package init(id: String, key: Curve25519.Signing.PrivateKey = .init()) { (self.id, self.key) = (id, key) }

    /// The public key in base64url.
    var publicText: String { Base64.url.encode(key.publicKey.rawRepresentation) }

    /// Signs with this key.
    ///
    /// - Parameter isNamed: `true` to name the key in the header.
    package func signer(isNamed: Bool = true) -> TokenSigner {
        TokenSigner(Self.algorithm, id: isNamed ? id : nil) { [key] in Array(try key.signature(for: $0)) }
    }
}

extension SignedGrant {
    /// The grant, signed with `key`, with a statement of `root` about the key in its header. Docs/Grants.md describes
    /// the members and types, and `GrantRoots` verifies them.
    package func signed(with key: GrantKey, by root: SigningKey) throws(CryptographyError) -> String {
        func seconds(_ time: Timestamp) -> JSON { .number(time.milliseconds / 1_000) }
        let statement = JSON.object([
            ("iss", .string(server)), ("x", .string(key.key.publicText)), ("iat", seconds(key.start)),
            ("exp", seconds(key.end)),
        ])
        let entitlements = items.map { item in
            // Permanent access is stated, not left out.
            let until = ("until", JSON(item.until.map { "\($0)" }))
            let units = item.units.map { [("units", JSON.number($0))] } ?? []
            return (item.entitlement.rawValue, JSON.object([until] + units))
        }
        let claims = JSON.object([
            ("iss", .string(server)), ("sub", .string(account)), ("dev", .string(device)),
            ("env", .string(environment.rawValue)), ("iat", seconds(issued)), ("exp", seconds(expires)),
            ("entitlements", .object(entitlements)),
        ])
        let text = try root.signer(isNamed: false).sign(statement, type: Self.keyType)
        return try key.key.signer().sign(claims, type: Self.type, adding: [("key", .string(text))])
    }
}
