import CurlTransport
import Dispatch
import HTTPTypes
import SyncProtocol
import Synchronization
import TestSupport
import Testing

@Suite("Exchanges by libcurl")
struct CurlExchangeTests {
    @Test("send the request as given and add no unneeded fields")
    func requests() async throws {
        let (seen, note) = AsyncStream.makeStream(of: String.self)
        let server = try RawServer { connection, _ in
            while let request = connection.readRequest() {
                note.yield(request)
                connection.answer()
            }
        }
        let client = try CurlClient()
        let name = try #require(HTTPField.Name("X-Empty"))
        try await client.ask(server, "GET", path: "/a/../%2E%2e//b?c=%20", fields: [name: "", .accept: "text/plain"])
        try await client.ask(server, "PUT", [0x78, 0x79], fields: [.ifMatch: "\"07\"", .contentType: "a/b"])
        try await client.ask(server, "DELETE", fields: [.contentLength: "7", .connection: "close"])
        try await client.ask(server, "POST")
        try await client.ask(server, "HEAD")
        note.finish()
        let host = "Host: \(server.authority)\r\n"
        var requests: [String] = []
        for await request in seen { requests.append(request) }
        let coding = "Accept-Encoding: identity\r\n"
        #expect(
            requests == [
                "GET /a/../%2E%2e//b?c=%20 HTTP/1.1\r\n\(host)X-Empty:\r\nAccept: text/plain\r\n\(coding)\r\n",
                "PUT / HTTP/1.1\r\n\(host)If-Match: \"07\"\r\nContent-Type: a/b\r\n\(coding)"
                    + "Content-Length: 2\r\n\r\nxy",
                "DELETE / HTTP/1.1\r\n\(host)\(coding)\r\n",
                "POST / HTTP/1.1\r\n\(host)\(coding)Content-Length: 0\r\n\r\n",
                "HEAD / HTTP/1.1\r\n\(host)\(coding)\r\n",
            ])
        #expect(server.connectionCount == 1)
    }

    @Test("parse every form of an answer")
    func answers() async throws {
        let answers = [
            "HTTP/1.1 103 Early Hints\r\nX: early\r\n\r\n"
                + "HTTP/1.1 200 OK\r\nX: 1\r\nx: 2\r\nContent-Length: 2\r\n\r\nab",
            "HTTP/1.1 404 \r\nX:  a \r\n b\t\r\nTransfer-Encoding: chunked\r\n\r\n"
                + "1\r\na\r\n1;y=z\r\nb\r\n0\r\nX: late\r\n\r\n",
            "HTTP/1.1 302 Found\r\nLocation: /elsewhere\r\nSet-Cookie: a=b\r\nContent-Length: 0\r\n\r\n",
            "HTTP/1.1 304 Not Modified\r\nETag: \"07\"\r\nContent-Length: 9\r\n\r\n",
            "HTTP/1.1 204 No Content\r\n\r\n",
            "HTTP/1.1 500 Oh\r\nContent-Length: 1\r\n\r\n!",
            // No request belongs to the second answer, so the connection must not be reused.
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n1HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n2",
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n3",
            "HTTP/1.0 200 OK\r\n\r\nuntil the end",
        ]
        let remaining = Mutex(answers)
        let server = try RawServer { connection, _ in
            while connection.readRequest() != nil {
                let answer = remaining.withLock { $0.isEmpty ? "" : $0.removeFirst() }
                connection.write(answer)
                if answer.hasPrefix("HTTP/1.0") { return }
            }
        }
        let client = try CurlClient()
        let x = try #require(HTTPField.Name("X"))
        var got: [(code: Int, body: String, fields: [String])] = []
        for _ in answers {
            let answer = try await client.ask(server, "GET")
            got.append(
                (
                    answer.response.status.code, String(decoding: answer.body, as: UTF8.self),
                    answer.response.headerFields[values: x]
                ))
        }
        #expect(got.map(\.code) == [200, 404, 302, 304, 204, 500, 200, 200, 200])
        #expect(got.map(\.body) == ["ab", "ab", "", "", "", "!", "1", "3", "until the end"])
        #expect(got[0].fields == ["1", "2"] && got[1].fields == ["a b"])
    }

    @Test("transfer large bodies intact in both directions")
    func large() async throws {
        let server = try RawServer { connection, _ in
            while let request = connection.readRequest() {
                guard let end = request.firstRange(of: "\r\n\r\n") else { return }
                connection.answer(String(request[end.upperBound...]))
            }
        }
        let client = try CurlClient()
        for count in [1, 16_383, 16_384, 16_385, 65_536, 3_000_000] {
            let body = (0..<count).map { UInt8(0x20 + $0 % 64) }
            let answer = try await client.ask(server, "PUT", body, maximumByteCount: count)
            #expect(answer.body == body)
        }
    }

    @Test("run 200 at once, over no more connections than allowed", .timeLimit(.minutes(15)))
    func concurrency() async throws {
        let server = try RawServer.echo()
        var configuration = CurlClient.Configuration()
        configuration.maximumConnectionsPerHost = 7
        let client = try CurlClient(configuration)
        for _ in 0..<3 { await server.expectOwnAnswers(to: client) }
        #expect(server.connectionCount <= 7)
    }

    @Test("do not block each other, on whichever thread they start", .timeLimit(.minutes(15)))
    func handingOver() async throws {
        let (events, note) = AsyncStream.makeStream(of: Void.self)
        let released = DispatchSemaphore(value: 0)
        let server = try RawServer { connection, _ in
            while let request = connection.readRequest() {
                if request.hasPrefix("GET /slow") {
                    note.yield()
                    released.wait()
                }
                if request.hasPrefix("GET /release") { released.signal() }
                connection.answer("fine")
            }
        }
        let client = try CurlClient()
        var iterator = events.makeAsyncIterator()
        for _ in 0..<50 {
            // After immediate answers, the client waits for the next one on the caller's thread, but only briefly.
            for _ in 0..<3 { try await client.ask(server, "GET", path: "/quick") }
            async let slow = client.ask(server, "GET", path: "/slow")
            _ = await iterator.next()
            // The slow request is answered only after this one was received.
            #expect(try await client.ask(server, "GET", path: "/release").body == Array("fine".utf8))
            #expect(try await slow.body == Array("fine".utf8))
        }
    }

    @Test("end when their task is cancelled at any time", .timeLimit(.minutes(15)))
    func cancellation() async throws {
        let (events, note) = AsyncStream.makeStream(of: String.self)
        let server = try RawServer { connection, _ in
            var request = connection.readRequest()
            while request?.hasPrefix("GET /fine") == true {
                connection.answer("fine")
                request = connection.readRequest()
            }
            guard let request else { return }
            if request.hasPrefix("GET /half") { connection.write("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n1") }
            note.yield("asked")
            connection.waitForEnd()
            note.yield("closed")
        }
        let client = try CurlClient()
        var iterator = events.makeAsyncIterator()
        for path in ["/silent", "/half"] {
            await withTaskGroup(of: Void.self) { group in
                group.addTask {
                    await expectError(.cancelled, mayHaveArrived: true) {
                        try await client.ask(server, "GET", path: path)
                    }
                }
                #expect(await iterator.next() == "asked")
                group.cancelAll()
            }
            #expect(await iterator.next() == "closed")
        }
        // Cancelled before the exchange starts.
        await withTaskGroup(of: Void.self) { group in
            group.cancelAll()
            group.addTask {
                await expectError(.cancelled, mayHaveArrived: false) { try await client.ask(server, "GET") }
            }
        }
        // A race between the cancellation and the answer: either may win, but the exchange must end.
        for _ in 0..<200 {
            await withTaskGroup(of: Void.self) { group in
                group.addTask { _ = try? await client.ask(server, "GET", path: "/fine") }
                await Task.yield()
                group.cancelAll()
            }
        }
        #expect(try await client.ask(server, "GET", path: "/fine").body == Array("fine".utf8))
    }

    @Test("leave no open connection after the client is deallocated")
    func lifetime() async throws {
        let (events, note) = AsyncStream.makeStream(of: String.self)
        let server = try RawServer { connection, _ in
            _ = connection.readRequest()
            connection.answer("fine")
            connection.waitForEnd()
            note.yield("closed")
        }
        for _ in 0..<20 {
            let client = try CurlClient()
            #expect(try await client.ask(server, "GET").body == Array("fine".utf8))
        }
        // Each client closes its idle connection when it is deallocated.
        var iterator = events.makeAsyncIterator()
        for _ in 0..<20 { #expect(await iterator.next() == "closed") }
    }

    @Test("use the configured proxy, but reach this machine directly with the proxy of the environment")
    func proxies() async throws {
        let proxy = try RawServer { connection, _ in
            while let request = connection.readRequest() {
                connection.answer("proxy: " + request.prefix { !$0.isNewline })
            }
        }
        let server = try RawServer { connection, _ in
            while connection.readRequest() != nil { connection.answer("direct") }
        }
        var configuration = CurlClient.Configuration()
        configuration.proxy = .server("http://\(proxy.authority)")
        let through = try CurlClient(configuration)
        let answer = try await through.ask("no-such-host.invalid", "GET", path: "/x")
        #expect(answer.body == Array("proxy: GET http://no-such-host.invalid/x HTTP/1.1".utf8))
        #expect(try await through.ask(server, "GET").body.starts(with: "proxy: ".utf8))
        for kind in [CurlClient.Configuration.Proxy.environment, .none] {
            configuration.proxy = kind
            #expect(try await CurlClient(configuration).ask(server, "GET").body == Array("direct".utf8))
        }
        configuration.proxy = .server("http://127.0.0.1:1")
        await expectError(.unreachable, mayHaveArrived: false) {
            try await CurlClient(configuration).ask(server, "PUT")
        }
    }
}
