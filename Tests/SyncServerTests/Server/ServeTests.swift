import Crypto
import Foundation
import SyncServer
import TestSupport
import Testing

@Suite("syncd serve")
struct ServeTests {
    private static let authorization = "Authorization: Bearer \(ServerProcess.operatorToken)"

    @Test("The server listens at the printed address, answers operational requests, and exits with 0 on SIGTERM")
    func itself() throws {
        let server = try ServerProcess(store: "memory:")
        #expect(server.url == "http://127.0.0.1:\(server.port)")
        #expect(try ask(server.port, "GET", "/healthz")?.text == "up\n")
        let ready = try #require(try ask(server.port, "GET", "/readyz")?.text)
        #expect(ready.wholeMatch(of: /ready\nthe changes of the store were followed \d\.\d s ago\n/) != nil, "\(ready)")
        let description = try #require(try ask(server.port, "GET", "/openapi.yaml"))
        #expect(description.text.hasPrefix("openapi: 3.1.0\n"))
        for path in ["/healthz", "/readyz", "/openapi.yaml"] {
            // The body of /readyz has one length while the changes are followed.
            let got = try #require(try ask(server.port, "GET", path))
            let head = try #require(try ask(server.port, "HEAD", path))
            #expect(head.status == 200)
            #expect(head.fields["content-length"] == String(got.body.count))
            #expect(got.fields["cache-control"] == "no-store")
            #expect(got.fields["entitlementsync-time"].flatMap { Int64($0) } != nil)
            let refused = try #require(try ask(server.port, "POST", path, body: "x"))
            #expect(refused.status == 405)
            #expect(refused.fields["allow"] == "GET, HEAD")
        }
        #expect(server.stop() == 0)
        #expect(throws: (any Error).self) { try RawConnection(port: server.port) }
    }

    @Test("Metrics are for local programs and the operator, and contain nothing that a client sent")
    func metrics() throws {
        let server = try ServerProcess(store: "memory:")
        for _ in 0..<3 { _ = try ask(server.port, "GET", "/v1/kv/secret-key-1", fields: [Self.authorization]) }
        _ = try ask(server.port, "PROPFIND", "/nowhere?secret")
        let text = try #require(try ask(server.port, "GET", "/metrics")).text
        #expect(
            text.contains(#"http_server_requests_total{method="GET",route="/v1/kv/{key}",status="4xx"} 3"# + "\n"))
        #expect(text.contains(#"method="other""#))
        #expect(text.contains("process_resident_memory_bytes "))
        #expect(text.contains("process_open_fds "))
        let age = text.firstMatch(of: /\nchange_feed_age_seconds ([\d.e-]+)\n/).flatMap { Double($0.1) }
        #expect(age.map { $0 < 10 } == true)
        #expect(!text.contains("secret") && !text.contains("PROPFIND"))
        // A forwarded request is not local.
        for field in ["X-Forwarded-For: 10.1.1.1", "Forwarded: for=10.1.1.1", "Via: 1.1 proxy"] {
            #expect(try ask(server.port, "GET", "/metrics", fields: [field])?.status == 403)
            #expect(
                try ask(server.port, "GET", "/metrics", fields: [field, Self.authorization + "x"])?.status == 403)
            #expect(try ask(server.port, "GET", "/metrics", fields: [field, Self.authorization])?.status == 200)
        }
    }

    @Test("The access log has one line for each request, without anything that the client sent")
    func log() throws {
        let server = try ServerProcess(store: "memory:")
        let fields = [Self.authorization, "X-Secret: hidden1", "User-Agent: hidden2"]
        let connection = try RawConnection(port: server.port)
        connection.send(request("PUT", "/v1/kv/hidden3?if=any&hidden4", fields: fields, body: "hidden5"))
        #expect(connection.answer()?.status == 200)
        connection.send(request("GET", "/hidden6%0Ahidden7", fields: fields))
        #expect(connection.answer()?.status == 404)
        #expect(server.stop() == 0)
        let lines = server.log.split(separator: "\n").filter { $0.contains("request") }
        #expect(lines.count == 2, "\(server.log)")
        #expect(lines.first?.contains("address=127.0.0.1 ") == true)
        #expect(lines.first?.contains("method=PUT") == true)
        #expect(lines.first?.contains("route=/v1/kv/{key} status=200") == true)
        #expect(!server.log.contains("hidden") && !server.log.contains(ServerProcess.operatorToken))
    }

    @Test("Tokens of an external issuer are accepted if signed by a key of its key set")
    func issuer() throws {
        let folder = try TemporaryFolder()
        let key = Curve25519.Signing.PrivateKey()
        let x = Forged.base64(Array(key.publicKey.rawRepresentation))
        let keys = #"{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"k","x":"\#(x)"}]}"#
        try Data(keys.utf8).write(to: URL(filePath: folder.path(of: "keys.json")))
        let issuer = try ServerProcess(store: "memory:", options: ["--web", folder.path])
        let server = try ServerProcess(
            store: "memory:",
            options: ["--issuer", "https://login.example.com", "--audience", "owls"],
            environment: ["SYNCD_JWKS": issuer.url + "/keys.json"])
        func status(_ audience: String, by key: Curve25519.Signing.PrivateKey) throws -> Int? {
            let payload: [String: Any] = [
                "iss": "https://login.example.com", "aud": audience, "sub": "user-7", "exp": 4_000_000_000,
            ]
            let input = Forged.input(["alg": "EdDSA", "kid": "k"], payload)
            let token = "\(input).\(Forged.base64(Array(try key.signature(for: Data(input.utf8)))))"
            return try ask(server.port, "GET", "/v1/accounts/self", fields: ["Authorization: Bearer \(token)"])?.status
        }
        #expect(try status("owls", by: key) == 200, "\(server.log)")
        #expect(try status("cats", by: key) == 401)
        #expect(try status("owls", by: Curve25519.Signing.PrivateKey()) == 401)
        #expect(issuer.stop() == 0)
        #expect(issuer.log.contains("route=web status=200"))
        // With an issuer, sign-up is disabled unless `--sign-up` is given: a new account could take the name of a user.
        func signUp(at server: ServerProcess) throws -> Int? {
            let body = #"{"name":"dave","password":"correct horse"}"#
            return Int(
                try Tool.run(
                    "curl",
                    ["-s", "-o", "/dev/null", "-w", "%{http_code}", "--json", body, server.url + "/v1/accounts"]
                ).output)
        }
        #expect(try signUp(at: server) == 403)
        let options = ["--issuer", "https://login.example.com", "--audience", "owls", "--sign-up"]
        let open = try ServerProcess(
            store: "memory:", options: options, environment: ["SYNCD_JWKS": issuer.url + "/keys.json"])
        #expect(try signUp(at: open) == 201)
    }

    @Test("Over TLS 1.2 or later the server supports HTTP/2 and HTTP/1.1")
    func secure() throws {
        let folder = try TemporaryFolder()
        try #require(try Tool.makeCertificate(in: folder.path).exitCode == 0)
        let certificate = folder.path(of: "certificate.pem")
        let server = try ServerProcess(
            store: "memory:", options: ["--tls-certificate", certificate, "--tls-key", folder.path(of: "key.pem")])
        #expect(server.url.hasPrefix("https://127.0.0.1:"))
        func curl(_ arguments: String...) throws -> Tool.Outcome {
            try Tool.run("curl", ["-sS", "--cacert", certificate, "-w", " %{http_code} %{http_version}"] + arguments)
        }
        let key = server.url + "/v1/kv/a?if=any"
        for version in ["--http2", "--http1.1"] {
            let number = version == "--http2" ? "2" : "1.1"
            #expect(try curl(version, server.url + "/healthz").output == "up\n 200 \(number)")
            #expect(
                try curl(version, "-H", Self.authorization, "-T", certificate, key).output == " 200 \(number)")
            let head = try curl(version, "-I", "-H", Self.authorization, server.url + "/v1/kv/a").output
            #expect(head.hasSuffix(" 200 \(number)"), "\(head)")
            let size = try Data(contentsOf: URL(filePath: certificate)).count
            #expect(head.lowercased().contains("content-length: \(size)\r\n"), "\(head)")
            // 1 MB, for which curl sends Expect: 100-continue.
            let large = folder.path(of: "large")
            try Data(repeating: 0x61, count: 2 << 20).write(to: URL(filePath: large))
            #expect(try curl(version, "-H", Self.authorization, "-T", large, key).output == " 200 \(number)")
        }
        #expect(try curl("--tls-max", "1.1", server.url + "/healthz").exitCode == 35)
        #expect(try Tool.run("curl", ["-sS", server.url + "/healthz"]).exitCode == 60)
        #expect(try Tool.run("curl", ["-sS", server.url.replacing("https", with: "http") + "/healthz"]).exitCode != 0)
        #expect(server.stop() == 0)
    }

    @Test("Invalid options are a one-line error with exit code 2, and create nothing")
    func options() throws {
        let folder = try TemporaryFolder()
        try Data("short".utf8).write(to: URL(filePath: folder.path(of: "token")))
        for words in [
            "", "--store folder:x", "--store nothing:x", "--store memory: --listen 0.0.0.0:0",
            "--store memory: --listen 192.0.2.1:0", "--store memory: --listen x",
            "--store memory: --listen 127.0.0.1:65536",
            "--store memory: --tls-key key.pem", "--store memory: --tls-certificate token --tls-key token",
            "--store memory: --web nothing", "--store memory: --jwks keys.json",
            "--store memory: --issuer a --audience b --jwks http://example.com/keys",
            "--store memory: --issuer a --audience b --jwks nothing.json",
            "--store memory: --issuer http://127.0.0.1:1 --audience b --jwks token --listen 127.0.0.1:1",
            "--store memory: --origin https://a.example/", "--store memory: --origin HTTPS://a.example",
            "--store memory: --origin *", "--store memory: --name abc", "--store memory: --password-cost 9",
            "--store memory: --operator-token-file token", "--store memory: --log-level loud",
            "--store memory: --ownership mine", "--store memory: --sign-up --no-sign-up",
        ] {
            let arguments = ["serve"] + words.split(separator: " ").map(String.init)
            let outcome = try Tool.run(BuiltProgram.path(of: "syncd"), arguments, in: folder.path)
            #expect(outcome.exitCode == 2, "\(words): \(outcome.errors)")
            #expect(outcome.output.isEmpty)
            #expect(outcome.errors.split(separator: "\n").count == 1, "\(outcome.errors)")
            #expect(outcome.errors.hasPrefix("syncd: "))
        }
        #expect(try FileManager.default.contentsOfDirectory(atPath: folder.path) == ["token"])
    }

    @Test("A refused token of another issuer gets the same answer for all reasons, and the log has the reason")
    func refusedTokens() throws {
        let folder = try TemporaryFolder()
        let key = Curve25519.Signing.PrivateKey()
        let x = Forged.base64(Array(key.publicKey.rawRepresentation))
        let keys = folder.path(of: "keys.json")
        try Data(#"{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"k1","x":"\#(x)"}]}"#.utf8).write(
            to: URL(filePath: keys))
        let issuer = "https://login.example.com"
        let server = try ServerProcess(
            store: "memory:", options: ["--issuer", issuer, "--audience", "owls", "--jwks", keys])
        func answer(_ changes: [String: Any], kid: String = "k1") throws -> (status: Int?, text: String?, token: String)
        {
            let now = Int64(Date().timeIntervalSince1970)
            let claims: [String: Any] = ["iss": issuer, "aud": "owls", "sub": "user-7", "exp": now + 600]
            let input = Forged.input(["alg": "EdDSA", "kid": kid], claims.merging(changes) { $1 })
            let token = "\(input).\(Forged.base64(Array(try key.signature(for: Data(input.utf8)))))"
            let answer = try ask(server.port, "GET", "/v1/entitlements", fields: ["Authorization: Bearer \(token)"])
            return (answer?.status, answer?.text, token)
        }
        #expect(try answer([:]).status != 401)
        let refused = [
            try answer(["exp": 1]), try answer(["aud": "others"]), try answer([:], kid: "k2"),
            try answer(["iss": issuer + "/"]), try answer(["sub": "operator"]),
        ]
        #expect(refused.map(\.status) == Array(repeating: 401, count: refused.count))
        #expect(Set(refused.map(\.text)).count == 1)
        #expect(server.stop() == 0)
        let lines = server.log.split(separator: "\n").filter { $0.contains("token outcome=refused") }
        let fields = "issuer=\"\(issuer)\" kid=\"k1\" alg=\"EdDSA\" reason="
        let expected = [
            fields + "\"it has expired\"", fields + "\"its audience is another service\"",
            "kid=\"k2\" alg=\"EdDSA\" reason=\"its issuer does not have the key that it names\"",
            "issuer=\"\(issuer)/\" kid=\"k1\" alg=\"EdDSA\" reason=\"its issuer is not accepted by this server\"",
            "issuer=\"\(issuer)\" sub=\"operator\" reason=\"its subject is no account name: ",
        ]
        #expect(lines.count == expected.count, "\(lines)")
        for text in expected { #expect(lines.contains { $0.contains(text) && $0.contains(" notice ") }, "\(text)") }
        for (_, _, token) in refused { #expect(!server.log.contains(token.split(separator: ".")[1])) }
    }

    @Test("A used port, or a store that cannot be opened, is a one-line error with exit code 1")
    func taken() throws {
        let server = try ServerProcess(store: "memory:")
        let second = try Tool.run(
            BuiltProgram.path(of: "syncd"), ["serve", "--store", "memory:", "--listen", "127.0.0.1:\(server.port)"])
        #expect(second.exitCode == 1)
        #expect(
            second.errors == "syncd: http://127.0.0.1:\(server.port): cannot listen: Address already in use\n")
        let unreadable = try Tool.run(
            BuiltProgram.path(of: "syncd"), ["serve", "--store", "sqlite:/dev/null/x", "--listen", "127.0.0.1:0"])
        #expect(unreadable.exitCode != 0)
        #expect(unreadable.output.isEmpty)
        #expect(unreadable.errors.split(separator: "\n").count == 1, "\(unreadable.errors)")
    }
}
