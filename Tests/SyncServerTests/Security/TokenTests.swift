import Crypto
import Foundation
import SyncServer
@testable import SyncService
import TestSupport
import Testing

@Suite("Access tokens of the server")
struct TokenTests {
    private static let server = "https://sync.example.com"
    private let verifier = TokenVerifier(server: server)
    private let key = SigningKey(id: "k1")
    private let now: Int64 = 1_800_000_000_000

    private func claims(server: String = server, issued: Int64 = 0, expires: Int64 = 600) -> AccessClaims {
        AccessClaims(
            account: "alice", incarnation: "i1", session: "s1", server: server, issuedAt: now / 1_000 + issued,
            expiresAt: now / 1_000 + expires)
    }

    private func refusal(of token: String, keys: [SigningKey]? = nil, now: Int64? = nil) async -> TokenRefusal? {
        await #expect(throws: TokenRefusal.self) {
            try await verifier.verify(token, keys: keys ?? [key], now: now ?? self.now)
        }
    }

    @Test("A verified token has the signed claims, with any of the keys")
    func good() async throws {
        let other = SigningKey(id: "k2")
        for signer in [key, other] {
            let token = try claims().signed(with: signer)
            #expect(try await verifier.verify(token, keys: [key, other], now: now) == .own(claims()))
        }
    }

    @Test("A token is valid from five minutes before its issue date until its expiration date")
    func dates() async throws {
        let token = try claims().signed(with: key)
        let end = now + 600_000
        #expect(try await verifier.verify(token, keys: [key], now: end - 1) == .own(claims()))
        let expired = await refusal(of: token, now: end)
        #expect(expired?.isExpired == true)
        #expect(try await verifier.verify(token, keys: [key], now: now - 300_000) == .own(claims()))
        let early = await refusal(of: token, now: now - 301_000)
        #expect(early?.isExpired == false)
    }

    @Test("A token of another server, with an unknown key or with another key of that ID is refused")
    func foreign() async throws {
        _ = await refusal(of: try claims(server: "https://other.example.com").signed(with: key))
        let mine = try claims().signed(with: key)
        for keys in [[], [SigningKey(id: "k2", key: key.key)]] {
            #expect(await refusal(of: mine, keys: keys)?.isKeyUnknown == true)
        }
        #expect(await refusal(of: mine, keys: [SigningKey(id: "k1")])?.isKeyUnknown == false)
    }

    @Test("A token with any byte changed, removed or added is refused")
    func changed() async throws {
        let token = try claims().signed(with: key)
        let bytes = Array(token.utf8)
        for index in bytes.indices {
            var changed = bytes
            changed[index] = changed[index] == UInt8(ascii: "A") ? UInt8(ascii: "B") : UInt8(ascii: "A")
            _ = await refusal(of: String(decoding: changed, as: UTF8.self))
            _ = await refusal(of: String(decoding: bytes[..<index], as: UTF8.self))
        }
        for text in [token + ".", token + "=", "." + token, token + "AA", " " + token, token + "\u{0}", "", ".", ".."] {
            _ = await refusal(of: text)
        }
    }

    @Test("A token of 1 MiB is refused without parsing it")
    func long() async throws {
        let token = try claims().signed(with: key)
        _ = await refusal(of: token + String(repeating: "A", count: 1 << 20))
        let started = ContinuousClock.now
        let text = String(repeating: "a.", count: 1 << 19)
        for _ in 0..<100 { _ = await refusal(of: text) }
        print("100 refusals of a token of 1 MiB: \(ContinuousClock.now - started)")
        expectFigure(ContinuousClock.now - started < .seconds(5))
    }

    @Test("No algorithm but EdDSA is accepted: neither none nor a MAC with one of the keys")
    func confusion() async throws {
        let secret = key.key
        let payload = Forged.payload(server: Self.server, now: now)
        let open = Array(secret.publicKey.rawRepresentation)
        let macs = [open, Array(secret.rawRepresentation), Array(Forged.base64(open).utf8)]
        for algorithm in ["HS256", "RS256", "ES256", "EdDSA", "Ed25519", "eddsa", "none"] {
            for mac in macs {
                let input = Forged.input(["alg": algorithm, "kid": "k1", "typ": "JWT"], payload)
                let code = HMAC<SHA256>.authenticationCode(for: Data(input.utf8), using: SymmetricKey(data: mac))
                _ = await refusal(of: "\(input).\(Forged.base64(Array(code)))")
            }
        }
        for algorithm in ["none", "None", "NONE", "nOnE", "", "EdDSA"] {
            let input = Forged.input(["alg": algorithm, "kid": "k1"], payload)
            _ = await refusal(of: input + ".")
            _ = await refusal(of: input)
            _ = await refusal(of: input + ".AA")
        }
    }

    @Test("A correctly signed token with a wrong header or payload is refused")
    func signedNonsense() async throws {
        let secret = key.key
        func signed(_ header: [String: Any], _ payload: [String: Any]) throws -> String {
            let input = Forged.input(header, payload)
            return "\(input).\(Forged.base64(Array(try secret.signature(for: Data(input.utf8)))))"
        }
        let header: [String: Any] = ["alg": "EdDSA", "kid": "k1", "typ": "JWT"]
        let payload = Forged.payload(server: Self.server, now: now)
        _ = try await verifier.verify(try signed(header, payload), keys: [key], now: now)
        for (name, value) in [
            ("alg", "HS256" as Any?), ("alg", "none"), ("alg", nil), ("kid", nil), ("kid", 1), ("kid", "k9"),
            ("typ", "at+jwt"),
            ("crit", ["exp"]),
        ] {
            var header = header
            header[name] = value
            _ = await refusal(of: try signed(header, payload))
        }
        for (name, value) in [
            ("iss", "https://other.example.com" as Any?), ("iss", nil), ("aud", "https://other.example.com"),
            ("aud", nil),
            ("exp", nil), ("exp", "never"), ("exp", now / 1_000), ("sub", nil), ("inc", 1), ("sid", nil), ("iat", nil),
            ("iat", now / 1_000 + 301),
        ] {
            var payload = payload
            payload[name] = value
            _ = await refusal(of: try signed(header, payload))
        }
    }
}

extension TokenTests {
    @Test("A signed token with a duplicate member in header or payload is refused")
    func duplicateMembers() async throws {
        let secret = key.key
        func signed(_ header: String, _ payload: String) throws -> String {
            let input = [header, payload].map { Forged.base64(Array($0.utf8)) }.joined(separator: ".")
            return "\(input).\(Forged.base64(Array(try secret.signature(for: Data(input.utf8)))))"
        }
        let seconds = now / 1_000
        let header = #""alg":"EdDSA","kid":"k1","typ":"JWT""#
        let payload =
            #""iss":"\#(Self.server)","aud":"\#(Self.server)","sub":"alice","inc":"i1","sid":"s1","#
            + #""iat":\#(seconds),"exp":\#(seconds + 600)"#
        let good = try signed("{\(header)}", "{\(payload)}")
        #expect(try await verifier.verify(good, keys: [key], now: now) == .own(claims()))
        _ = await refusal(of: try signed(#"{\#(header),"kid":"k1"}"#, "{\(payload)}"))
        _ = await refusal(of: try signed("{\(header)}", #"{\#(payload),"sub":"alice"}"#))
    }
}

/// Builds forged tokens.
enum Forged {
    static func payload(server: String, now: Int64) -> [String: Any] {
        [
            "iss": server, "aud": server, "sub": "alice", "inc": "i1", "sid": "s1", "iat": now / 1_000,
            "exp": now / 1_000 + 600,
        ]
    }

    /// The signing input: encoded header and payload.
    static func input(_ header: [String: Any], _ payload: [String: Any]) -> String {
        [header, payload].map { object in
            base64(Array((try? JSONSerialization.data(withJSONObject: object, options: .sortedKeys)) ?? Data()))
        }.joined(separator: ".")
    }

    static func base64(_ bytes: [UInt8]) -> String {
        Data(bytes).base64EncodedString().replacing("+", with: "-").replacing("/", with: "_").replacing("=", with: "")
    }
}
