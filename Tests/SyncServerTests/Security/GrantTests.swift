import Crypto
import Entitlements
import Foundation
import StoreEvidence
import SyncCore
import SyncServer
import Testing

@testable import SyncService

@Suite("Signed grants")
struct GrantTests {
    private static let server = "https://sync.example.com"
    private let root = SigningKey(id: "root")
    private let key = GrantKey(SigningKey(id: "k1"), created: now)
    private let roots: GrantRoots
    private let account = (name: "alice", incarnation: "i1")

    init() throws {
        roots = try GrantRoots([Self.publicText(root.key)])
    }

    private static let now: Int64 = 1_800_000_000_000

    private static func publicText(_ key: Curve25519.Signing.PrivateKey) -> String {
        base64url(Array(key.publicKey.rawRepresentation))
    }

    private static func base64url(_ bytes: [UInt8]) -> String {
        Data(bytes).base64EncodedString().replacing("+", with: "-").replacing("/", with: "_").replacing("=", with: "")
    }

    private func grant(issued: Int64 = now, days: Int64 = 7) -> SignedGrant {
        let pseudonym = SignedGrant.pseudonymSource(
            server: Self.server, name: account.name, incarnation: account.incarnation)
        return SignedGrant(
            server: Self.server, account: SHA256.hash(data: Data(pseudonym.utf8)).hexadecimal,
            device: "0a", environment: .production, issued: Timestamp(milliseconds: issued),
            expires: Timestamp(milliseconds: issued + days * 86_400_000),
            items: [
                .init("night-owl", until: nil), .init("random-owls", until: Timestamp(milliseconds: Self.now + 1_234)),
                .init("tips", until: nil, units: 3),
            ])
    }

    private func signed(_ grant: SignedGrant? = nil) throws -> String {
        try (grant ?? self.grant()).signed(with: key, by: root)
    }

    private func verify(_ text: String, device: String = "0a") throws(GrantError) -> SignedGrant {
        try roots.verify(Array(text.utf8), account: account, device: device)
    }

    private func check(_ text: String) -> GrantError.Check? {
        do throws(GrantError) {
            _ = try verify(text)
            return nil
        } catch {
            return error.check
        }
    }

    @Test("A grant that any pinned root certifies has the signed content")
    func good() async throws {
        #expect(try verify(try signed()) == grant())
        let other = Self.publicText(.init())
        let both = try GrantRoots([other, Self.publicText(root.key)])
        let verified = try both.verify(Array(try signed().utf8), account: account, device: "0a")
        #expect(verified == grant())
    }

    @Test(
        "A root key that is no key is refused",
        arguments: [
            "", "abc", "AAAA", String(repeating: "A", count: 44), "lNMLN4xsWlVStTnbXwYcYyHRdEe2W5EYoqKLW8KZMq+",
        ])
    func badRoot(_ text: String) {
        let error = #expect(throws: GrantError.self) { try GrantRoots([text]) }
        #expect(error?.check == .root)
        #expect(throws: GrantError.self) { try GrantRoots([]) }
    }

    // MARK: Tampering

    /// The parts of a grant, which a tampering changes and puts together again.
    private struct Parts {
        var header: [String: Any]
        var payload: [String: Any]
        var keyHeader: [String: Any]
        var keyPayload: [String: Any]
        var signature: [UInt8]
        var keySignature: [UInt8]
        /// The keys that sign again, if any.
        var signer: Curve25519.Signing.PrivateKey?
        var rootSigner: Curve25519.Signing.PrivateKey?
    }

    private static func object(_ text: Substring) throws -> [String: Any] {
        try #require(try JSONSerialization.jsonObject(with: try bytes(text)) as? [String: Any])
    }

    private static func bytes(_ text: Substring) throws -> Data {
        let padded =
            String(text).replacing("-", with: "+").replacing("_", with: "/")
            + String(repeating: "=", count: (4 - text.utf8.count % 4) % 4)
        return try #require(Data(base64Encoded: padded))
    }

    private static func take(apart text: String) throws -> Parts {
        let outer = text.split(separator: ".")
        let header = try object(outer[0])
        let inner = try #require(header["key"] as? String).split(separator: ".")
        return Parts(
            header: header, payload: try object(outer[1]), keyHeader: try object(inner[0]),
            keyPayload: try object(inner[1]), signature: Array(try bytes(outer[2])),
            keySignature: Array(try bytes(inner[2])))
    }

    private static func join(
        _ header: [String: Any], _ payload: [String: Any], _ signature: [UInt8],
        _ signer: Curve25519.Signing.PrivateKey?
    ) throws -> String {
        func segment(_ object: [String: Any]) throws -> String {
            base64url(Array(try JSONSerialization.data(withJSONObject: object, options: [.sortedKeys])))
        }
        let text = "\(try segment(header)).\(try segment(payload))"
        guard let signer else { return "\(text).\(base64url(signature))" }
        return "\(text).\(base64url(Array(try signer.signature(for: Array(text.utf8)))))"
    }

    private static func put(together parts: Parts) throws -> String {
        var header = parts.header
        if header["key"] is String {
            header["key"] = try join(parts.keyHeader, parts.keyPayload, parts.keySignature, parts.rootSigner)
        }
        return try join(header, parts.payload, parts.signature, parts.signer)
    }

    /// A change, and the check that refuses it. Those that sign again have the real keys, as a server with a fault.
    private func tamperings() throws -> [(name: String, check: GrantError.Check, change: (inout Parts) -> Void)] {
        let thief = Curve25519.Signing.PrivateKey()
        let thiefPublic = Self.publicText(thief)
        let (key, root) = (key.key.key, root.key)
        let day: Int64 = 86_400
        let now = Self.now / 1_000
        return [
            ("an entitlement is added", .signature, { $0.payload["entitlements"] = ["gold": ["until": NSNull()]] }),
            ("the end is later", .signature, { $0.payload["exp"] = now + 30 * day }),
            ("a bit of the signature is flipped", .signature, { $0.signature[0] ^= 1 }),
            ("a bit of the root's signature is flipped", .root, { $0.keySignature[63] ^= 1 }),
            ("a thief signs with an own key under the old statement", .signature, { $0.signer = thief }),
            (
                "a thief certifies an own key", .root,
                { ($0.keyPayload["x"], $0.signer, $0.rootSigner) = (thiefPublic, thief, thief) }
            ),
            ("the statement is prolonged", .root, { $0.keyPayload["exp"] = now + 900 * day }),
            ("the algorithm is none", .algorithm, { $0.header["alg"] = "none" }),
            ("the algorithm is HS256", .algorithm, { $0.header["alg"] = "HS256" }),
            ("the statement's algorithm is none", .algorithm, { $0.keyHeader["alg"] = "none" }),
            ("the type is that of an access token", .type, { ($0.header["typ"], $0.signer) = ("JWT", key) }),
            (
                "the statement has the type of a grant", .type,
                { ($0.keyHeader["typ"], $0.rootSigner) = (SignedGrant.type, root) }
            ),
            ("the statement is missing", .format, { ($0.header["key"], $0.signer) = (nil, key) }),
            ("a critical parameter is unknown", .format, { ($0.header["crit"], $0.signer) = (["b64"], key) }),
            ("the signature is shorter", .format, { $0.signature.removeLast() }),
            ("the entitlements are missing", .format, { ($0.payload["entitlements"], $0.signer) = (nil, key) }),
            ("the end is a text", .format, { ($0.payload["exp"], $0.signer) = ("never", key) }),
            ("the grant outlives its key", .key, { ($0.payload["exp"], $0.signer) = (now + 61 * day, key) }),
            (
                "the grant was signed before its key was made", .key,
                { ($0.payload["iat"], $0.signer) = (now - day, key) }
            ),
            ("the grant ends when it begins", .key, { ($0.payload["exp"], $0.signer) = (now, key) }),
            (
                "the key is of another server", .key,
                { ($0.payload["iss"], $0.signer) = ("https://evil.example.com", key) }
            ),
            (
                "the grant is of another account", .account,
                { ($0.payload["sub"], $0.signer) = (String(repeating: "0", count: 64), key) }
            ),
            ("the grant is of another device", .device, { ($0.payload["dev"], $0.signer) = ("0b", key) }),
        ]
    }

    @Test("A grant that was changed in any of 23 ways is refused, and the error names the check")
    func tampered() async throws {
        var signed = try Self.take(apart: try signed())
        (signed.signer, signed.rootSigner) = (key.key.key, root.key)
        // Its JSON has the order in which `put(together:)` writes it, so its signatures fit.
        let text = try Self.put(together: signed)
        #expect(try Self.put(together: try Self.take(apart: text)) == text)
        #expect(check(text) == nil)
        let tamperings = try tamperings()
        #expect(tamperings.count == 23)
        for tampering in tamperings {
            var parts = try Self.take(apart: text)
            tampering.change(&parts)
            #expect(check(try Self.put(together: parts)) == tampering.check, "\(tampering.name)")
        }
    }

    @Test("Text that is no grant is refused")
    func garbage() async throws {
        let text = try signed()
        #expect(check("") == .format)
        #expect(check("a.b") == .format)
        #expect(check(text + ".") == .format)
        #expect(check(text + "=") == .format)
        #expect(check(String(text.dropLast())) == .format)
        #expect(check(String(repeating: "a", count: 65_537)) == .size)
        #expect(check(text.replacing("e", with: "é", maxReplacements: 1)) == .format)
        let claims = AccessClaims(
            account: "alice", incarnation: "i1", session: "s1", server: Self.server, issuedAt: Self.now / 1_000,
            expiresAt: Self.now / 1_000 + 600)
        #expect(check(try claims.signed(with: key.key)) == .type)
    }

    @Test("A grant is no access token")
    func confusion() async throws {
        let text = try signed()
        await #expect(throws: TokenRefusal.self) {
            try await TokenVerifier(server: Self.server).verify(text, keys: [key.key], now: Self.now)
        }
    }

    @Test("A key signs grants of 30 days to the last instant of its 30 days")
    func lastGrant() async throws {
        let last = Self.now + 30 * 86_400_000 - 1_000
        let grant = grant(issued: last, days: 30)
        #expect(try verify(try signed(grant)) == grant)
        let early = self.grant(issued: Self.now - 300_000)
        #expect(try verify(try signed(early)) == early)
    }
}
