import Crypto
import CryptoExtras
import Foundation
import HTTPTypes
import SyncProtocol
import SyncServer
@testable import SyncService
import Synchronization
import TestSupport
import Testing

@Suite("Tokens of an external issuer")
struct IssuerTests {
    /// Serves a given key set and counts the requests.
    private final class Transport: HTTPTransport {
        private let state = Mutex<(document: [UInt8]?, count: Int)>((nil, 0))
        var count: Int { state.withLock { $0.count } }

        func serve(_ document: String?) { state.withLock { $0.document = document.map { Array($0.utf8) } } }

        func send(
            _ request: HTTPRequest, body: [UInt8], timeout: Duration, maximumByteCount: Int
        ) async throws(TransportError) -> TransportAnswer {
            let document = state.withLock { state in
                state.count += 1
                return state.document
            }
            await Task.yield()
            guard let document else { throw TransportError(.unreachable, mayHaveArrived: false, message: "no key set") }
            return TransportAnswer(HTTPResponse(status: .ok), body: document)
        }
    }

    /// The tokens that were reported.
    private final class Refused: Sendable {
        private let list = Mutex<[RefusedToken]>([])

        func add(_ token: RefusedToken) { list.withLock { $0.append(token) } }

        func take() -> [RefusedToken] {
            list.withLock { list in
                defer { list = [] }
                return list
            }
        }
    }

    private static let issuer = "https://login.example.com/"
    private let transport = Transport()
    private let verifier: TokenVerifier
    private let refused = Refused()
    private let now: Int64 = 1_800_000_000_000
    private let elliptic = P256.Signing.PrivateKey()
    private let edwards = Curve25519.Signing.PrivateKey()

    init() {
        let refused = refused
        verifier = Self.issuing(from: .url("https://login.example.com/keys", transport)) { refused.add($0) }
    }

    /// A key set with the keys `e1` (P-256) and `d1` (Ed25519) among unusable ones.
    private var document: String {
        let point = Array(elliptic.publicKey.rawRepresentation)
        let (x, y) = (Forged.base64(Array(point.prefix(32))), Forged.base64(Array(point.suffix(32))))
        let d = Forged.base64(Array(edwards.publicKey.rawRepresentation))
        return """
            {"keys":[{"kty":"oct","kid":"o1","k":"c2VjcmV0"},{"kty":"OKP","crv":"X25519","kid":"x1","x":"\(d)"},
            {"kty":"EC","crv":"P-256","kid":"enc","use":"enc","x":"\(x)","y":"\(y)"},
            {"kty":"EC","crv":"P-256","kid":"e1","alg":"ES256","use":"sig","x":"\(x)","y":"\(y)"},
            {"kty":"OKP","crv":"Ed25519","kid":"d1","x":"\(d)"},{"kty":"EC","crv":"P-256","x":"\(x)","y":"\(y)"},
            {"kty":"RSA","kid":"short","n":"\(Forged.base64([UInt8](repeating: 0xC1, count: 128)))","e":"AQAB"}]}
            """
    }

    private func payload(_ changes: [String: Any?] = [:]) -> [String: Any] {
        var payload: [String: Any] = [
            "iss": Self.issuer, "aud": "owls", "sub": "user-7", "exp": now / 1_000 + 3_600, "iat": now / 1_000,
        ]
        for (name, value) in changes { payload[name] = value }
        return payload
    }

    private func token(_ kid: String? = "e1", _ algorithm: String = "ES256", _ payload: [String: Any]) throws -> String
    {
        var header: [String: Any] = ["alg": algorithm]
        header["kid"] = kid
        let input = Forged.input(header, payload)
        let bytes = Data(input.utf8)
        let signature =
            algorithm == "EdDSA"
            ? Array(try edwards.signature(for: bytes)) : Array(try elliptic.signature(for: bytes).rawRepresentation)
        return "\(input).\(Forged.base64(signature))"
    }

    private func refusal(of token: String) async -> TokenRefusal? {
        await #expect(throws: TokenRefusal.self) { try await verifier.verify(token, keys: [], now: now) }
    }

    @Test("A valid token is accepted with each kind of key, and the keys are fetched once")
    func good() async throws {
        transport.serve(document)
        func expected(_ issuedAt: Int64?) -> VerifiedToken {
            .external(issuer: Self.issuer, subject: "user-7", issuedAt: issuedAt, expiresAt: now / 1_000 + 3_600)
        }
        for (kid, algorithm) in [("e1", "ES256"), ("d1", "EdDSA")] {
            let text = try token(kid, algorithm, payload())
            #expect(try await verifier.verify(text, keys: [], now: now) == expected(now / 1_000))
        }
        for changes: [String: Any?] in [
            ["aud": ["others", "owls"]], ["iat": nil], ["exp": Double(now) / 1_000 + 3_600.5],
            ["nbf": now / 1_000 + 60],
        ] {
            let issuedAt = changes.keys.contains("iat") ? nil : now / 1_000
            let text = try token(payload(changes))
            #expect(try await verifier.verify(text, keys: [], now: now) == expected(issuedAt))
        }
        #expect(transport.count == 1)
    }

    private func token(_ payload: [String: Any]) throws -> String { try token("e1", "ES256", payload) }

    @Test("Each refused token is reported once with its reason, and without the token")
    func reasons() async throws {
        transport.serve(document)
        func check(_ token: String, _ reason: String, issuer: String? = Self.issuer, kid: String? = "e1") async {
            _ = await refusal(of: token)
            let found = refused.take()
            #expect(found.map(\.reason) == [reason] && found.map(\.issuer) == [issuer], "\(found)")
            #expect(found.map(\.key) == [kid], "\(found)")
            for part in token.split(separator: ".") where part.count > 8 { #expect(!"\(found)".contains(part)) }
        }
        await check(try token(payload(["exp": now / 1_000])), "it has expired")
        await check(try token(payload(["nbf": now / 1_000 + 61])), "it is not valid yet")
        await check(try token(payload(["aud": "others"])), "its audience is another service")
        await check(try token(payload(["sub": ""])), "its subject is empty")
        await check(try token(payload(["exp": nil])), "its payload lacks a claim or has a claim of the wrong type")
        await check(
            try token(payload(["iss": "https://a.example"])), "its issuer is not accepted by this server",
            issuer: "https://a.example")
        await check(
            try token("e9", "ES256", payload()), "its issuer does not have the key that it names", kid: "e9")
        await check(try token("e1", "EdDSA", payload()), "its algorithm is not that of its key")
        await check(try token(payload()).dropLast(4) + "AAAA", "its signature is wrong")
        await check(try token(nil, "ES256", payload()), "it does not name a key", issuer: nil, kid: nil)
        await check("a.b", "it does not have three parts in base64url", issuer: nil, kid: nil)
        let own = "https://sync.example.com"
        _ = await refusal(of: try token(payload(["iss": own, "aud": own])))
        #expect(refused.take() == [], "tokens of the server itself expire all the time")
        _ = try await verifier.verify(try token(payload()), keys: [], now: now)
        #expect(refused.take() == [])
    }

    @Test("The log has one line in ten seconds for each reason, with the number of omitted tokens")
    func log() {
        let lines = Mutex<[String]>([])
        let seconds = Mutex<Int64>(0)
        let start = ContinuousClock.now
        let log = RefusedTokenLog(instant: { start + .seconds(seconds.withLock { $0 }) }) { line in
            lines.withLock { $0.append(line) }
        }
        var token = RefusedToken(
            issuer: "https://a.example\u{1B}[2J", subject: "a\" reason=\"b", reason: "it has expired")
        for _ in 0..<3 { log.add(token) }
        log.add(RefusedToken(reason: "its signature is wrong"))
        seconds.withLock { $0 = 10 }
        (token.key, token.algorithm) = ("e1", "ES256")
        log.add(token)
        #expect(
            lines.withLock { $0 } == [
                "token outcome=refused issuer=\"https://a.example\u{FFFD}[2J\" sub=\"a' reason='b\" "
                    + "reason=\"it has expired\"",
                "token outcome=refused reason=\"its signature is wrong\"",
                "token outcome=refused issuer=\"https://a.example\u{FFFD}[2J\" kid=\"e1\" alg=\"ES256\" "
                    + "sub=\"a' reason='b\" reason=\"it has expired\" omitted=2",
            ])
    }

    @Test("A 2048-bit RSA key is accepted for RS256 and for no other algorithm")
    func rsa() async throws {
        let key = try _RSA.Signing.PrivateKey(keySize: .bits2048)
        let numbers = try key.publicKey.getKeyPrimitives()
        let (n, e) = (Forged.base64(Array(numbers.modulus)), Forged.base64(Array(numbers.publicExponent)))
        transport.serve(#"{"keys":[{"kty":"RSA","kid":"r1","n":"\#(n)","e":"\#(e)"}]}"#)
        func token(_ algorithm: String, _ digest: (Data) -> some Digest) throws -> String {
            let input = Forged.input(["alg": algorithm, "kid": "r1"], payload())
            let signature = try key.signature(for: digest(Data(input.utf8)), padding: .insecurePKCS1v1_5)
            return "\(input).\(Forged.base64(Array(signature.rawRepresentation)))"
        }
        let good = try token("RS256") { SHA256.hash(data: $0) }
        #expect(
            try await verifier.verify(good, keys: [], now: now)
                == .external(
                    issuer: Self.issuer, subject: "user-7", issuedAt: now / 1_000, expiresAt: now / 1_000 + 3_600))
        _ = await refusal(of: try token("RS512") { SHA512.hash(data: $0) })
        _ = await refusal(of: try token("RS256") { SHA512.hash(data: $0) })
    }

    @Test("A token with a wrong or missing claim is refused")
    func wrong() async throws {
        transport.serve(document)
        for changes: [String: Any?] in [
            ["iss": "https://login.example.com"], ["iss": nil], ["aud": "others"], ["aud": nil], ["aud": []],
            ["aud": ["OWLS"]], ["sub": nil], ["sub": ""], ["sub": 7], ["exp": nil], ["exp": now / 1_000],
            ["exp": "tomorrow"], ["exp": 1e300], ["iat": now / 1_000 + 61], ["nbf": now / 1_000 + 61],
        ] {
            _ = await refusal(of: try token(payload(changes)))
        }
    }

    @Test("A token with another algorithm than its key's, an unusable key or no key is refused")
    func algorithms() async throws {
        transport.serve(document)
        for (kid, algorithm) in [
            ("e1", "EdDSA"), ("d1", "ES256"), ("e1", "none"), ("e1", "HS256"), ("e1", "ES384"), ("o1", "HS256"),
            ("enc", "ES256"), ("x1", "EdDSA"), ("short", "RS256"), (nil, "ES256"), ("", "ES256"),
        ] as [(String?, String)] {
            _ = await refusal(of: try token(kid, algorithm, payload()))
        }
        // A MAC with the published key as its secret.
        for secret in [Array(elliptic.publicKey.rawRepresentation), Array(edwards.publicKey.rawRepresentation)] {
            for kid in ["e1", "d1", "o1"] {
                let input = Forged.input(["alg": "HS256", "kid": kid], payload())
                let code = HMAC<SHA256>.authenticationCode(for: Data(input.utf8), using: SymmetricKey(data: secret))
                _ = await refusal(of: "\(input).\(Forged.base64(Array(code)))")
            }
        }
        // The keys of an issuer are not valid for tokens in the name of the server itself.
        _ = await refusal(
            of: try token(payload(["iss": "https://sync.example.com", "aud": "https://sync.example.com"])))
    }

    @Test("Unknown key IDs do not cause repeated fetches, and concurrent callers share one")
    func reloading() async throws {
        transport.serve(document)
        let good = try token(payload())
        await withTaskGroup(of: Bool.self) { group in
            for _ in 0..<20 {
                group.addTask { (try? await verifier.verify(good, keys: [], now: now)) != nil }
            }
            for await isGood in group { #expect(isGood) }
        }
        for number in 0..<50 { _ = await refusal(of: try token("unknown\(number)", "ES256", payload())) }
        #expect(transport.count == 1)
    }

    @Test("Withdrawn keys expire after ten minutes, and keys of an unreachable issuer after a day with errors reported")
    func withdrawing() async throws {
        let seconds = Mutex<Int64>(0)
        let errors = Mutex<[String]>([])
        let start = ContinuousClock.now
        let issuer = IssuerVerifier(
            ExternalIssuer(
                name: Self.issuer, audience: "owls", keys: .url("https://login.example.com/keys", transport)),
            instant: { start + .seconds(seconds.withLock { $0 }) },
            onError: { error in errors.withLock { $0.append(error) } })
        let verifier = TokenVerifier(server: "https://sync.example.com", issuers: [issuer])
        let (old, new) = (try token("e1", "ES256", payload()), try token("d1", "EdDSA", payload()))
        func isGood(_ token: String, after time: Int64) async -> Bool {
            seconds.withLock { $0 = time }
            return (try? await verifier.verify(token, keys: [], now: now)) != nil
        }
        transport.serve(document)
        #expect(await isGood(old, after: 0))
        transport.serve(document.replacing("\"e1\"", with: "\"e2\""))
        #expect(await isGood(old, after: 600))
        #expect(transport.count == 1)
        #expect(await isGood(old, after: 601) == false)
        #expect(await isGood(new, after: 601))
        #expect(transport.count == 2)
        transport.serve(nil)
        #expect(await isGood(new, after: 601 + 86_400))
        #expect(transport.count == 3 && errors.withLock { $0 }.count == 1)
        #expect(await isGood(new, after: 601 + 86_401) == false)
        #expect(transport.count == 3, "the last fetch was a second ago")
        transport.serve(document)
        #expect(await isGood(old, after: 601 + 86_460))
        #expect(errors.withLock { $0 }.allSatisfy { $0.hasPrefix("the keys of \(Self.issuer) cannot be loaded") })
    }

    @Test("No token is accepted without a valid key set, which may be a file")
    func sources() async throws {
        let good = try token(payload())
        _ = await refusal(of: good)
        for text in ["", "{}", "[]", "{\"keys\":[]}", "<html>", "{\"keys\":{}}"] {
            let other = Transport()
            other.serve(text)
            let verifier = Self.issuing(from: .url("https://login.example.com/keys", other))
            await #expect(throws: TokenRefusal.self) { try await verifier.verify(good, keys: [], now: now) }
        }
        let folder = try TemporaryFolder()
        try Data(document.utf8).write(to: URL(filePath: folder.path(of: "keys.json")))
        let file = Self.issuing(from: .file(folder.path(of: "keys.json")))
        #expect(
            try await file.verify(good, keys: [], now: now)
                == .external(
                    issuer: Self.issuer, subject: "user-7", issuedAt: now / 1_000, expiresAt: now / 1_000 + 3_600))
        let missing = Self.issuing(from: .file(folder.path(of: "nothing.json")))
        await #expect(throws: TokenRefusal.self) { try await missing.verify(good, keys: [], now: now) }
    }

    private static func issuing(
        from source: ExternalIssuer.KeySource, onRefusal: @escaping @Sendable (RefusedToken) -> Void = { _ in }
    ) -> TokenVerifier {
        let issuer = ExternalIssuer(name: issuer, audience: "owls", keys: source)
        return TokenVerifier(
            server: "https://sync.example.com", issuers: [IssuerVerifier(issuer) { _ in }], onRefusal: onRefusal)
    }
}
