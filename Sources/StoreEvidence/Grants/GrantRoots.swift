#if Evidence
import Crypto
public import Entitlements

/// The root keys of a server that an app pins. They verify the grants of that server on a device, without a request.
///
/// A root key signs statements about the keys that the server rotates, and each grant carries the statement about its
/// key. An app therefore survives every rotation of those keys. Pin two roots to be able to replace one.
///
/// ```swift
/// let roots = try GrantRoots(["lNMLN4xsWlVStTnbXwYcYyHRdEe2W5EYoqKLW8KZMqg"])  // printed by: syncd keys root
/// let store = try await EntitlementStore(…, trust: .signed(by: roots))
/// ```
public struct GrantRoots: GrantVerifier {
    private let keys: [Curve25519.Signing.PublicKey]

    /// Creates a verifier.
    ///
    /// - Parameter keys: The public keys (Ed25519), as `syncd keys root` prints them: 32 bytes in base64url.
    /// - Throws: `GrantError` with the check `root` if there is no key, or if one is malformed.
    public init(_ keys: [String]) throws(GrantError) {
        guard !keys.isEmpty else { throw GrantError(.root, "there is no root key") }
        self.keys = try keys.map { (text) throws(GrantError) in
            guard let bytes = Base64.url.decode(text.utf8), bytes.count == 32,
                let key = try? Curve25519.Signing.PublicKey(rawRepresentation: bytes)
            else { throw GrantError(.root, "a root key must be 32 bytes in base64url, not \(text.singleLine)") }
            return key
        }
    }

    /// Verifies a grant. Takes two checks of Ed25519 signatures.
    public func verify(
        _ grant: [UInt8], account: (name: String, incarnation: String), device: String
    ) throws(GrantError) -> SignedGrant {
        guard grant.count <= SignedGrant.maximumByteCount else {
            throw GrantError(
                .size, "the grant has \(grant.count) bytes, more than \(SignedGrant.maximumByteCount)")
        }
        let message = try GrantMessage(grant, type: SignedGrant.type)
        let key = try GrantKey(try message.keyStatement(), roots: keys)
        guard key.key.isValidSignature(message.signature, for: message.signed) else {
            throw GrantError(.signature, "the server's key has not signed the grant")
        }
        let verified = try SignedGrant(message.body)
        try key.check(verified)
        let pseudonym = SignedGrant.pseudonymSource(
            server: verified.server, name: account.name, incarnation: account.incarnation)
        guard verified.account == hexadecimalDigest(of: pseudonym) else {
            throw GrantError(.account, "the grant is for another account")
        }
        guard verified.device == device else { throw GrantError(.device, "the grant is for another device") }
        return verified
    }
}

/// The statement of a root about a key of the server.
private struct GrantKey {
    let key: Curve25519.Signing.PublicKey
    private let server: String
    /// The time in which the key's grants are valid.
    private let (start, end): (Timestamp, Timestamp)

    init(_ message: GrantMessage, roots: [Curve25519.Signing.PublicKey]) throws(GrantError) {
        guard roots.contains(where: { $0.isValidSignature(message.signature, for: message.signed) }) else {
            throw GrantError(.root, "no pinned root has signed the statement about the server's key")
        }
        let body = message.body
        server = try body.text("iss")
        (start, end) = (try body.seconds("iat"), try body.seconds("exp"))
        guard let bytes = Base64.url.decode(try body.text("x").utf8), bytes.count == 32,
            let key = try? Curve25519.Signing.PublicKey(rawRepresentation: bytes)
        else { throw GrantError(.format, "x must be an Ed25519 key of 32 bytes in base64url") }
        self.key = key
    }

    /// Throws if the key may not have signed `grant`.
    func check(_ grant: SignedGrant) throws(GrantError) {
        guard grant.server == server else { throw GrantError(.key, "the server's key belongs to another server") }
        guard grant.issued >= start, grant.issued < end else {
            throw GrantError(.key, "the server's key was not valid when the grant was signed")
        }
        guard grant.expires > grant.issued, grant.expires <= end else {
            throw GrantError(.key, "the grant must expire after its signature, and before the server's key")
        }
    }
}

/// A JSON Web Signature (RFC 7515) in compact form, whose signature is not verified yet.
private struct GrantMessage {
    private let header: StoreObject
    let body: StoreObject
    /// The bytes that the signature covers.
    let signed: [UInt8]
    let signature: [UInt8]

    init(_ text: [UInt8], type: String) throws(GrantError) {
        let segments = text.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        guard segments.count == 3 else {
            throw GrantError(.format, "a signed statement has 3 segments, not \(segments.count)")
        }
        let parts = segments.map { Base64.url.decode($0) }
        guard let head = parts[0], let payload = parts[1], let signature = parts[2], signature.count == 64 else {
            throw GrantError(.format, "a segment is not base64url, or the signature does not have 64 bytes")
        }
        (header, body) = try GrantError.reading { () throws(EvidenceError) in
            (try StoreObject(parsing: head), try StoreObject(parsing: payload))
        }
        guard try header.text("alg") == "EdDSA" else { throw GrantError(.algorithm, "the algorithm must be EdDSA") }
        guard try header.text("typ") == type else { throw GrantError(.type, "the type must be \(type)") }
        guard !header.contains("crit") else {
            throw GrantError(.format, "critical header parameters are not supported")
        }
        signed = Array(segments[0]) + [UInt8(ascii: ".")] + Array(segments[1])
        self.signature = signature
    }

    /// The statement about the key, from the header.
    func keyStatement() throws(GrantError) -> GrantMessage {
        try GrantMessage(Array(try header.text("key").utf8), type: SignedGrant.keyType)
    }
}

extension GrantError {
    fileprivate static func reading<Value>(_ body: () throws(EvidenceError) -> Value) throws(GrantError) -> Value {
        do throws(EvidenceError) { return try body() } catch { throw GrantError(.format, error.reason) }
    }

    /// Reads the member `name`, which must be there.
    fileprivate static func reading<Value>(
        _ name: String, _ body: () throws(EvidenceError) -> Value?
    ) throws(GrantError) -> Value {
        guard let value = try reading(body) else { throw GrantError(.format, "the member \(name) is missing") }
        return value
    }
}

extension StoreObject {
    fileprivate func text(_ name: String) throws(GrantError) -> String {
        try GrantError.reading(name) { () throws(EvidenceError) in try string(name) }
    }

    /// Returns a date in seconds since 1970 UTC (RFC 7519, section 2).
    fileprivate func seconds(_ name: String) throws(GrantError) -> Timestamp {
        try GrantError.reading(name) { () throws(EvidenceError) in try date(name, unit: 1_000) }
    }
}

extension SignedGrant {
    fileprivate init(_ body: StoreObject) throws(GrantError) {
        let items = try GrantError.reading("entitlements") { () throws(EvidenceError) in
            try body.object("entitlements")?.entries().map { (name, item) throws(EvidenceError) in
                Item(EntitlementID(name), until: try item.date("until"), units: try item.integer("units"))
            }
        }
        self.init(
            server: try body.text("iss"), account: try body.text("sub"), device: try body.text("dev"),
            environment: EnvironmentID(try body.text("env")), issued: try body.seconds("iat"),
            expires: try body.seconds("exp"), items: items)
    }
}
#endif
