import TestSupport
import Testing

@Suite("Request paths")
struct PathTests {
    private static let fields = ["Authorization: Bearer \(ServerProcess.operatorToken)"]

    @Test("A key is found by its path, but not by similar paths")
    func tricks() throws {
        let server = try ServerProcess(store: "memory:")
        let write = request("PUT", "/v1/kv/a/b?if=any", fields: Self.fields, body: "treasure")
        let connection = try RawConnection(port: server.port)
        connection.send(write)
        try #require(connection.answer()?.status == 200)
        // The last one is in absolute form, which a server must accept (RFC 9112, section 3.2.2).
        for target in ["/v1/kv/a/b", "/v1/kv/a%2Fb", "/v1/kv/a%2fb", "/v1/kv/%61/b", "http://localhost/v1/kv/a/b"] {
            #expect(try ask(server.port, "GET", target, fields: Self.fields)?.text == "treasure", "\(target)")
        }
        for target in [
            "/v1/kv//a/b", "/v1/kv/a//b", "/v1/kv/a/b/", "//v1/kv/a/b", "/v1//kv/a/b", "/v1/kv/./a/b", "/v1/kv/a/./b",
            "/v1/kv/x/../a/b", "/v1/./kv/a/b", "/x/../v1/kv/a/b", "/v1/kv/x/%2e%2e/a/b", "/v1/kv/%2e/a/b",
            "/v1/kv/x%2f..%2fa%2fb", "/v1/kv/a%252fb", "/v1/kv/a%2", "/v1/kv/a/b%", "/v1/kv/a/b%00", "/v1/kv/a/b%zz",
            "/V1/KV/a/b", "/v1/kv/A/b", "/v1/kv/a/b#x", "/v1/kv/a/b;x", "/v1/kv/a\\b", "/v1/kv/a%5cb", "/v1/kv/%c0%afa",
            "/v1/kv/%ff", "/%76%31/kv/a/b", "/v1%2fkv/a/b", "/v1/kv?/a/b", "v1/kv/a/b", "*", "/v1/kv/a/b\u{e9}",
            "/v1/kv/a/b%0d%0aX:y", "/v1/kv/" + String(repeating: "a/", count: 4_000),
        ] {
            let answer = try ask(server.port, "GET", target, fields: Self.fields)
            let status = try #require(answer?.status, "\(target)")
            #expect(answer?.text.contains("treasure") == false, "\(target)")
            #expect((400..<500).contains(status) || target == "/v1/kv?/a/b", "\(target): \(status)")
        }
        #expect(try ask(server.port, "GET", "/healthz")?.status == 200)
    }

    @Test("Input that is not HTTP is refused, and the server keeps running")
    func noHTTP() throws {
        let server = try ServerProcess(store: "memory:")
        let start = "PUT /v1/kv/a?if=any HTTP/1.1\r\nHost: x\r\n" + Self.fields.joined(separator: "\r\n") + "\r\n"
        for bytes: [UInt8] in [
            Array("GET /v1/kv/a\0b HTTP/1.1\r\nHost: x\r\n\r\n".utf8),
            Array("GET /v1/kv/a\rb HTTP/1.1\r\nHost: x\r\n\r\n".utf8),
            Array("GET /v1/kv/a b HTTP/1.1\r\nHost: x\r\n\r\n".utf8),
            Array("GET /a HTTP/1.1\r\nHost: x\r\nA\0: b\r\n\r\n".utf8),
            Array("GET /a HTTP/9.9\r\nHost: x\r\n\r\n".utf8), Array("G\0T / HTTP/1.1\r\n\r\n".utf8),
            Array("\(start)Content-Length: -1\r\n\r\n".utf8),
            Array("\(start)Content-Length: 1\r\nContent-Length: 2\r\n\r\nxy".utf8),
            Array("\(start)Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n".utf8),
            Array("\(start)Transfer-Encoding: chunked\r\n\r\nzz\r\n".utf8),
            [0x16, 0x03, 0x01, 0x00, 0x05, 1, 2, 3, 4, 5], [UInt8](repeating: 0xFF, count: 100),
            Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8),
        ] {
            let connection = try RawConnection(port: server.port)
            connection.send(bytes)
            connection.endSending()
            let answer = connection.answer()
            #expect(
                answer == nil || (400..<500).contains(answer?.status ?? 0), "\(bytes): \(String(describing: answer))")
        }
        #expect(try ask(server.port, "GET", "/v1/kv/a", fields: Self.fields)?.status == 404)
        #expect(server.stop() == 0)
    }
}
