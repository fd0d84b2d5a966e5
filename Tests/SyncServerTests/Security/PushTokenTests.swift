import CryptoExtras
import Foundation
import HTTPTypes
import SyncProtocol
import SyncServer
import SyncService
import Testing

@Suite("Tokens of push requests")
struct PushTokenTests {
    /// Serves one key set.
    private struct Transport: HTTPTransport {
        let document: String

        func send(
            _ request: HTTPRequest, body: [UInt8], timeout: Duration, maximumByteCount: Int
        ) async throws(TransportError) -> TransportAnswer {
            TransportAnswer(HTTPResponse(status: .ok), body: Array(document.utf8))
        }
    }

    private let now: Int64 = 1_800_000_000_000
    private let key: _RSA.Signing.PrivateKey
    private let verifier: PushTokenVerifier

    init() throws {
        key = try _RSA.Signing.PrivateKey(keySize: .bits2048)
        let numbers = try key.publicKey.getKeyPrimitives()
        let document = """
            {"keys":[{"kty":"RSA","kid":"r1","alg":"RS256","use":"sig","n":"\(Forged.base64(Array(numbers.modulus)))",
            "e":"\(Forged.base64(Array(numbers.publicExponent)))"}]}
            """
        verifier = PushTokenVerifier(
            ExternalIssuer(
                name: "https://accounts.google.com", audience: "https://sync.example.com/v1/notifications/google-play",
                keys: .url("https://www.googleapis.com/oauth2/v3/certs", Transport(document: document))),
            account: "push@project.iam.gserviceaccount.com", onError: { _ in })
    }

    private func token(_ changes: [String: Any?] = [:], algorithm: String = "RS256") throws -> String {
        var payload: [String: Any] = [
            "iss": "https://accounts.google.com", "aud": "https://sync.example.com/v1/notifications/google-play",
            "sub": "1", "exp": now / 1_000 + 3_600, "iat": now / 1_000,
            "email": "push@project.iam.gserviceaccount.com", "email_verified": true,
        ]
        for (name, value) in changes { payload[name] = value }
        let input = Forged.input(["alg": algorithm, "kid": "r1"], payload)
        let signature = try key.signature(for: Data(input.utf8), padding: .insecurePKCS1v1_5)
        return "\(input).\(Forged.base64(Array(signature.rawRepresentation)))"
    }

    @Test("The token of the configured service account is accepted")
    func accepted() async throws {
        try await verifier.verify(try token(), now: now)
    }

    @Test("Tokens of other accounts, audiences, issuers and algorithms, and late ones, are refused")
    func refused() async throws {
        let changes: [[String: Any?]] = [
            ["email": "mallory@project.iam.gserviceaccount.com"], ["email": nil], ["email_verified": false],
            ["email_verified": nil], ["aud": "https://other.example.com"], ["iss": "https://login.example.com"],
            ["exp": now / 1_000], ["email": "PUSH@project.iam.gserviceaccount.com"],
        ]
        for change in changes {
            let text = try token(change)
            await #expect(throws: TokenRefusal.self, "\(change)") { try await verifier.verify(text, now: now) }
        }
        for algorithm in ["none", "HS256", "RS512", "ES256"] {
            let text = try token(algorithm: algorithm)
            await #expect(throws: TokenRefusal.self) { try await verifier.verify(text, now: now) }
        }
        let text = try token()
        await #expect(throws: TokenRefusal.self) { try await verifier.verify(text + "A", now: now) }
    }
}
