import Crypto
import CurlTransport
import Entitlements
import EvidenceTestSupport
import Foundation
import HTTPTypes
import SyncProtocol
import TestSupport
import Testing

/// Evidence that opens content at a `syncd serve` process, which trusts minted certificates.
@Suite("Content at a server process", .timeLimit(.minutes(15)))
struct LiveContentTests {
    private static let catalog = """
        {"products":[{"id":"owl","type":"nonConsumable"},
          {"id":"month","type":"autoRenewable","group":"owls","duration":"P1M","level":1}],
         "entitlements":[{"id":"owl","grantedBy":["product:owl"]}],
         "content":[{"path":"/owl/","entitlement":"owl","by":"now"},{"path":"/live/","group":"owls","by":"now"},
          {"path":"/owls/{set}/","group":"owls","by":"period"}]}
        """
    private let folder: TemporaryFolder
    private let foundry: AppStoreFoundry
    private let transport: CurlClient

    init() throws {
        folder = try TemporaryFolder()
        foundry = try AppStoreFoundry.valid.get()
        transport = try CurlClient()
        try Data(foundry.roots).write(to: URL(filePath: folder.path(of: "roots.pem")))
        try Data(Self.catalog.utf8).write(to: URL(filePath: folder.path(of: "catalog.json")))
    }

    private func serve(_ options: String...) throws -> ServerProcess {
        try ServerProcess(
            store: "memory:",
            options: [
                "--catalog", folder.path(of: "catalog.json"), "--app-store-bundle", "com.example", "--evidence-root",
                folder.path(of: "roots.pem"), "--at",
                "\(Timestamp(milliseconds: AppStoreFoundry.purchaseDate + 60_000))",
            ] + options)
    }

    private func ask(
        _ server: ServerProcess, _ method: HTTPRequest.Method, _ path: String, _ fields: HTTPFields = [:],
        body: String = ""
    ) async throws -> TransportAnswer {
        let request = HTTPRequest(
            method: method, scheme: "http", authority: "127.0.0.1:\(server.port)", path: path, headerFields: fields)
        return try await transport.exchange(
            request, body: Array(body.utf8), timeout: Patience.limit, maximumByteCount: 1 << 20, id: 1)
    }

    private func members(of answer: TransportAnswer) throws -> [String: Any] {
        try #require(try JSONSerialization.jsonObject(with: Data(answer.body)) as? [String: Any])
    }

    private func session(_ server: ServerProcess, _ jws: String) async throws -> String {
        let answer = try await ask(
            server, .post, "/v1/content-sessions", [.contentType: "application/json"],
            body: "{\"evidence\":[\"\(jws)\"]}")
        try #require(answer.response.status.code == 201, "\(String(decoding: answer.body, as: UTF8.self))")
        return try #require(try members(of: answer)["session"] as? String)
    }

    private func check(_ server: ServerProcess, _ token: String, _ target: String) async throws -> Int {
        let name = try #require(HTTPField.Name("X-Original-URI"))
        return try await ask(
            server, .get, "/v1/content-check", [.authorization: "Bearer \(token)", name: target]
        ).response.status.code
    }

    private func jws() throws -> String {
        try foundry.transaction([
            "productId": .text("owl"), "type": "Non-Consumable", "expiresDate": nil, "transactionId": .text("1"),
            "originalTransactionId": .text("1"),
        ])
    }

    @Test("A purchase of the sandbox opens content of a sandbox server, and none of a production server")
    func environment() async throws {
        let sandbox = try serve("--content-environment", "sandbox")
        let token = try await session(sandbox, try jws())
        for _ in 0..<3 {
            #expect(try await check(sandbox, token, "/owl/1.jpg") == 204)
            #expect(try await check(sandbox, token, "/other") == 403)
        }
        let production = try serve()
        #expect(try await check(production, token, "/owl/1.jpg") == 401)
        let refused = try await ask(
            production, .post, "/v1/content-sessions", [.contentType: "application/json"],
            body: "{\"evidence\":[\"\(try jws())\"]}")
        #expect(refused.response.status.code == 422)
    }

    /// The bytes of base64url without padding.
    private func bytes(_ text: String) throws -> Data {
        let standard = text.replacing("-", with: "+").replacing("_", with: "/")
        return try #require(
            Data(base64Encoded: standard + String(repeating: "=", count: (4 - text.utf8.count % 4) % 4)))
    }

    private func object(_ part: String) throws -> [String: Any] {
        try #require(try JSONSerialization.jsonObject(with: try bytes(part)) as? [String: Any])
    }

    /// Decides about a path by the claims of a session alone, as Docs/Content.md describes.
    private func opens(_ path: String, _ claims: [String: Any]) throws -> Bool {
        let segments = path.split(separator: "/")
        let rules = try #require(claims["paths"] as? [[String: Any]])
        let matching = try rules.filter { rule in
            let pattern = try #require(rule["path"] as? String).split(separator: "/")
            return segments.count > pattern.count
                && zip(pattern, segments).allSatisfy { $0 == $1 || $0 == "{set}" && Int($1) != nil }
        }
        let rule = matching.max { ($0["path"] as? String ?? "").utf8.count < ($1["path"] as? String ?? "").utf8.count }
        guard let rule else { return false }
        if let isOpen = rule["open"] as? Bool { return isOpen }
        let sets = try #require(rule["sets"] as? [[Int]])
        let number = try #require(segments.compactMap { Int($0) }.first)
        return sets.contains { ($0[0]...$0[1]).contains(number) }
    }

    /// A session of an account that has bought a month.
    private func accountSession(_ server: ServerProcess) async throws -> String {
        let json: HTTPFields = [.contentType: "application/json"]
        let made = try await ask(
            server, .post, "/v1/accounts", json, body: #"{"name":"owl","password":"correct horse"}"#)
        var fields = json
        fields[.authorization] = "Bearer \(try #require(try members(of: made)["access_token"] as? String))"
        let jws = try foundry.transaction(["productId": "month"])
        let sent = try await ask(
            server, .post, "/v1/transactions", fields,
            body: "{\"evidence\":[{\"kind\":\"app-store-transaction\",\"jws\":\"\(jws)\"}]}")
        try #require(sent.response.status.code == 200, "\(String(decoding: sent.body, as: UTF8.self))")
        let answer = try await ask(server, .post, "/v1/content-sessions", fields)
        return try #require(try members(of: answer)["session"] as? String)
    }

    @Test("The public keys verify a session elsewhere, and its claims decide about paths without the server")
    func keySet() async throws {
        let server = try serve("--content-environment", "sandbox")
        let token = try await accountSession(server)
        let parts = token.split(separator: ".").map(String.init)
        try #require(parts.count == 3)
        let header = try object(parts[0])
        #expect(header["typ"] as? String == "entitlement-content+jwt" && header["alg"] as? String == "EdDSA")
        let answer = try await ask(server, .get, "/.well-known/jwks.json")
        #expect(answer.response.status.code == 200)
        let keys = try #require(try members(of: answer)["keys"] as? [[String: Any]])
        #expect(keys.allSatisfy { $0["d"] == nil })
        let key = try #require(keys.first { $0["kid"] as? String == header["kid"] as? String })
        #expect(key["kty"] as? String == "OKP" && key["crv"] as? String == "Ed25519")
        let publicKey = try Curve25519.Signing.PublicKey(
            rawRepresentation: try bytes(try #require(key["x"] as? String)))
        let signed = Data((parts[0] + "." + parts[1]).utf8)
        let signature = try bytes(parts[2])
        #expect(publicKey.isValidSignature(signature, for: signed))
        for index in [0, parts[0].utf8.count + 1, signed.count - 1] {
            var changed = signed
            changed[index] ^= 1
            #expect(!publicKey.isValidSignature(signature, for: changed), "\(index)")
        }
        var changed = signature
        changed[0] ^= 1
        #expect(!publicKey.isValidSignature(changed, for: signed))
        // The claims.
        let claims = try object(parts[1])
        #expect(claims["aud"] as? String == "content" && claims["env"] as? String == "sandbox")
        let periods = try #require(claims["periods"] as? [[String: Any]])
        #expect(periods.count == 1 && periods.first?["group"] as? String == "owls")
        #expect(periods.first?["index"] as? Int == 1 && periods.first?["level"] as? Int == 1)
        #expect(periods.first?["start"] as? String == "\(Timestamp(milliseconds: AppStoreFoundry.purchaseDate))")
        let paths = [
            ("/owls/1/a.jpg", true), ("/live/a", true), ("/owls/2/a.jpg", false), ("/owl/1.jpg", false),
            ("/other", false),
        ]
        for (path, isOpen) in paths {
            #expect(try opens(path, claims) == isOpen, "\(path)")
            #expect(try await check(server, token, path) == (isOpen ? 204 : 403), "\(path)")
        }
    }
}
