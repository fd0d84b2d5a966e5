import CurlTransport
import HTTPTypes
import SyncProtocol
import TestSupport
import Testing

@Suite("Broken exchanges by libcurl")
struct CurlFailureTests {
    /// The misbehaviour of a server, and the error that the client must report.
    struct Case: Sendable, CustomTestStringConvertible {
        var testDescription: String
        var kind: TransportError.Kind
        var mayHaveArrived = true
        var serve: @Sendable (RawConnection) -> Void

        init(
            _ name: String, _ kind: TransportError.Kind, _ serve: @escaping @Sendable (RawConnection) -> Void
        ) {
            (testDescription, self.kind, self.serve) = (name, kind, serve)
        }
    }

    static let cases = [
        Case("closes before it reads", .interrupted) { $0.close() },
        Case("closes before it answers", .interrupted) { _ = $0.readRequest() },
        Case("resets before it answers", .interrupted) {
            _ = $0.readRequest()
            $0.reset()
        },
        Case("closes in the middle of the first line", .interrupted) {
            _ = $0.readRequest()
            $0.write("HTT")
        },
        Case("closes in the middle of the header", .interrupted) {
            _ = $0.readRequest()
            $0.write("HTTP/1.1 200 OK\r\nContent-Le")
        },
        Case("closes in the middle of the body", .interrupted) {
            _ = $0.readRequest()
            $0.write("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n12345")
        },
        Case("resets in the middle of the body", .interrupted) {
            _ = $0.readRequest()
            $0.write("HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n12345")
            $0.reset()
        },
        Case("closes in the middle of a chunk", .interrupted) {
            _ = $0.readRequest()
            $0.write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nA\r\n123")
        },
        Case("closes before the last chunk", .interrupted) {
            _ = $0.readRequest()
            $0.write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n123\r\n")
        },
        Case("sends a chunk with an invalid size", .interrupted) {
            _ = $0.readRequest()
            $0.write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n123\r\n0\r\n\r\n")
        },
        Case("never answers", .timedOut) {
            _ = $0.readRequest()
            $0.waitForEnd()
        },
        Case("never reads", .timedOut) { $0.ignore() },
        Case("stops in the middle of the header", .timedOut) {
            _ = $0.readRequest()
            $0.write("HTTP/1.1 200 OK\r\nX: y\r\n")
            $0.waitForEnd()
        },
        Case("sends single bytes without end", .timedOut) {
            _ = $0.readRequest()
            $0.write("HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n")
            while $0.write("x") {}
        },
        Case("sends bytes that are not HTTP", .malformed) {
            _ = $0.readRequest()
            $0.write("\u{0}\u{1}\u{2} what?\r\n\r\n")
        },
        Case("answers in HTTP/0.9", .malformed) {
            _ = $0.readRequest()
            $0.write("<html>hello</html>")
        },
        Case("sends a malformed header field", .malformed) {
            _ = $0.readRequest()
            $0.write("HTTP/1.1 200 OK\r\nthis is no field\r\n\r\n")
        },
        Case("sends a header with too many lines", .tooLarge) {
            _ = $0.readRequest()
            $0.write(
                "HTTP/1.1 200 OK\r\n" + String(repeating: "X: \(String(repeating: "y", count: 200))\r\n", count: 999))
        },
        Case("sends an endless header line", .tooLarge) {
            _ = $0.readRequest()
            $0.write("HTTP/1.1 200 OK\r\nX: " + String(repeating: "y", count: 1 << 20))
        },
        Case("sends a body that is larger than allowed", .tooLarge) {
            _ = $0.readRequest()
            $0.answer(String(repeating: "y", count: 1 << 20))
        },
        Case("sends an endless chunked body", .tooLarge) {
            _ = $0.readRequest()
            $0.write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            while $0.write("4\r\nabcd\r\n") {}
        },
        Case("sends an endless body without a length", .tooLarge) {
            _ = $0.readRequest()
            $0.write("HTTP/1.1 200 OK\r\n\r\n")
            while $0.write(String(repeating: "x", count: 1_000)) {}
        },
    ]

    @Test("throw the matching error and leave the client usable", arguments: cases, ["GET", "PUT"])
    func failures(of broken: Case, method: String) async throws {
        let server = try RawServer { connection, number in
            if number == 0 { return broken.serve(connection) }
            while connection.readRequest() != nil { connection.answer("fine") }
        }
        let client = try CurlClient()
        // Larger than the socket buffers of both sides, so that the client blocks if the server does not read.
        let isLong = broken.testDescription == "never reads" && method == "PUT"
        let body = [UInt8](repeating: 0x78, count: method == "PUT" ? (isLong ? 8 << 20 : 3) : 0)
        let isSlow = broken.kind == .timedOut
        await expectError(broken.kind, mayHaveArrived: true) {
            try await client.ask(
                server, method, body, timeout: isSlow ? .seconds(2) : Patience.limit,
                maximumByteCount: isSlow ? 1 << 30 : 100_000)
        }
        let answer = try await client.ask(server, "GET")
        #expect(answer.body == Array("fine".utf8))
        #expect(server.connectionCount == 2)
    }

    @Test("report that nothing arrived if no server was reached")
    func unreachable() async throws {
        let client = try CurlClient()
        var port: UInt16 = 0
        do { port = try RawServer { _, _ in }.port }
        for authority in ["127.0.0.1:\(port)", "no-such-host.invalid", "no-such-host.invalid:1"] {
            await expectError(.unreachable, mayHaveArrived: false) {
                try await client.ask(authority, "PUT", [1])
            }
        }
    }

    @Test("are rejected without sending if the request has no valid URL")
    func addresses() async throws {
        let client = try CurlClient()
        for (scheme, authority, path) in [
            ("ftp", "127.0.0.1:1", "/"), ("file", "", "/etc/passwd"), ("http", "", "/"),
            ("http", "u:p@127.0.0.1:1", "/"),
            ("http", "127.0.0.1:1", "x"), ("http", "127.0.0.1:1", "/a b"), ("http", "127.0.0.1:1", "/a#b"),
            ("http", "127.0.0.1:1", "/a\r\nX: y"), ("http", "127.0.0.1:1/x", "/"), ("http", "127.0.0.1:1", "/ä"),
        ] {
            let request = HTTPRequest(method: .get, scheme: scheme, authority: authority, path: path)
            await expectError(.malformed, mayHaveArrived: false) {
                try await client.send(request, body: [], timeout: .seconds(9), maximumByteCount: 9)
            }
        }
    }

    @Test("are repeated on another connection only if they are reads", arguments: ["PUT", "POST", "DELETE", "GET"])
    func repeating(method: String) async throws {
        let (asked, note) = AsyncStream.makeStream(of: String.self)
        let server = try RawServer { connection, number in
            while let request = connection.readRequest() {
                note.yield(String(request.prefix { $0 != " " }))
                // The connection that the first exchange left open is closed at the second request.
                if number == 0, !request.hasPrefix("GET /first") { return }
                connection.answer("\(number)")
            }
        }
        let client = try CurlClient()
        #expect(try await client.ask(server, "GET", path: "/first").body == Array("0".utf8))
        if method == "GET" {
            #expect(try await client.ask(server, method).body == Array("1".utf8))
        } else {
            await expectError(.interrupted, mayHaveArrived: true) { try await client.ask(server, method) }
        }
        note.finish()
        var count = 0
        for await seen in asked where seen == method { count += 1 }
        #expect(count == (method == "GET" ? 3 : 1))
    }

    @Test("close a connection that delivers answers to other requests", arguments: ["GET", "PUT"], ["", "body"])
    func answersOfOthers(method: String, body: String) async throws {
        try await RawServer.alwaysLate(body).expectNoLateAnswer(to: CurlClient(), method, body)
    }

    @Test("may have arrived even if the server is unreachable when libcurl reconnects")
    func goneServer() async throws {
        let client = try CurlClient()
        var server: RawServer? = try RawServer { connection, _ in
            _ = connection.readRequest()
            connection.answer("first")
            _ = connection.readRequest()
        }
        let authority = try #require(server?.authority)
        _ = try await client.ask(authority, "GET")
        // The server stops listening while the existing connection stays open.
        server?.stopListening()
        await expectError(.interrupted, mayHaveArrived: true) { try await client.ask(authority, "PUT", [1]) }
        server = nil
    }
}
