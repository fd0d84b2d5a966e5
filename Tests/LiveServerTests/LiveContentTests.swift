import CurlTransport
import Entitlements
import EvidenceTestSupport
import Foundation
import HTTPTypes
import SyncProtocol
import TestSupport
import Testing

/// Evidence that opens content at a `syncd serve` process, which trusts minted certificates.
@Suite("Content at a server process", .timeLimit(.minutes(2)))
struct LiveContentTests {
    private static let catalog = """
        {"products":[{"id":"owl","type":"nonConsumable"}],
         "entitlements":[{"id":"owl","grantedBy":["product:owl"]}],
         "content":[{"path":"/owl/","entitlement":"owl","by":"now"}]}
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
            request, body: Array(body.utf8), timeout: .seconds(30), maximumByteCount: 1 << 20, id: 1)
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

    @Test("The public keys verify a session elsewhere")
    func keySet() async throws {
        let server = try serve("--content-environment", "sandbox")
        let token = try await session(server, try jws())
        let header = String(try #require(token.split(separator: ".").first))
        let padded =
            header.replacing("-", with: "+").replacing("_", with: "/")
            + String(repeating: "=", count: (4 - header.utf8.count % 4) % 4)
        let decoded = try #require(Data(base64Encoded: padded))
        let fields = try #require(try JSONSerialization.jsonObject(with: decoded) as? [String: Any])
        #expect(fields["typ"] as? String == "entitlement-content+jwt")
        let answer = try await ask(server, .get, "/.well-known/jwks.json")
        #expect(answer.response.status.code == 200)
        let keys = try #require(try members(of: answer)["keys"] as? [[String: Any]])
        #expect(keys.contains { $0["kid"] as? String == fields["kid"] as? String && $0["crv"] as? String == "Ed25519" })
        #expect(keys.allSatisfy { $0["d"] == nil })
    }
}
