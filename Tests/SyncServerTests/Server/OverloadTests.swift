import Foundation
import HTTPTypes
import SyncCore
import SyncProtocol
import SyncServer
import SyncService
import TestSupport
import Testing

@Suite("Overload")
struct OverloadTests {
    private let handler = GatedHandler()
    private var limits: ListenerConfiguration {
        var limits = ListenerConfiguration(port: 0)
        limits.requestCount = 4
        limits.totalBodyByteCount = 1 << 20
        limits.shutdownSeconds = 2
        return limits
    }

    @Test(
        "Requests beyond the limit are refused at once, admitted ones are answered, and endpoints for operators work")
    func requests() async throws {
        let handler = handler
        let text = try await LocalListener.run(limits, respond: handler.respond) { port in
            let accepted = try (0..<4).map { _ in try RawConnection(port: port) }
            for connection in accepted { connection.send(request("GET", "/v1/a")) }
            // Operational endpoints do not count towards the request limit.
            try #require(try comesTrue { try ask(port, "GET", "/healthz")?.status == 200 && handler.arrivals == 4 })
            #expect(try ask(port, "GET", "/healthz")?.status == 200)
            for _ in 0..<20 {
                let refused = try #require(try ask(port, "GET", "/v1/a"))
                #expect(refused.status == 503)
                #expect(refused.fields["retry-after"] == "1")
                #expect(refused.fields["content-type"] == "application/problem+json")
            }
            for path in ["/healthz", "/readyz", "/metrics"] { #expect(try ask(port, "GET", path)?.status == 200) }
            let text = try ask(port, "GET", "/metrics")?.text ?? ""
            handler.open()
            for connection in accepted { #expect(connection.answer()?.status == 200) }
            #expect(try ask(port, "GET", "/v1/a")?.status == 200)
            return text
        }
        #expect(text.contains(#"http_server_refusals_total{reason="overload"} "#))
        #expect(handler.arrivals == 5)
    }

    @Test("Clients that do not read their answers do not block others", arguments: ["GET", "PUT"])
    func slowReaders(method: String) async throws {
        let long = [UInt8](repeating: 7, count: 3 << 20)
        let counting = GatedHandler()
        counting.open()
        let respond: @Sendable (ServiceRequest) async -> ServiceResponse = { request in
            if request.head.path == "/v1/kv/short" { return await counting.respond(request) }
            return ServiceResponse(HTTPResponse(status: .preconditionFailed), body: .bytes(long), route: "/test")
        }
        try await LocalListener.run(limits, respond: respond) { port in
            let body = method == "PUT" ? "1" : nil
            let readers = try (0..<8).map { _ in
                let reader = try RawConnection(port: port, kernelByteCount: 4_096)
                reader.send(request(method, "/v1/kv/long", body: body))
                // The answer has started to arrive.
                #expect(reader.receive()?.isEmpty == false)
                return reader
            }
            for _ in 0..<20 { #expect(try ask(port, method, "/v1/kv/short", body: body)?.status == 200) }
            withExtendedLifetime(readers) {}
        }
        #expect(counting.arrivals == 20)
    }

    @Test("Operational requests count towards the request limit if they have a body", arguments: [false, true])
    func ownPaths(isChunked: Bool) async throws {
        let handler = handler
        var limits = limits
        limits.requestCount = 1
        try await LocalListener.run(limits, respond: handler.respond) { port in
            let length = isChunked ? "Transfer-Encoding: chunked" : "Content-Length: 3"
            let (first, second) = isChunked ? ("1\r\na\r\n", "2\r\nbc\r\n0\r\n\r\n") : ("a", "bc")
            // Neither body is complete, so the refused request found the only slot taken by the other one.
            var connections = try (0..<2).map { _ in try RawConnection(port: port) }
            for connection in connections {
                connection.send("GET /healthz HTTP/1.1\r\nHost: x\r\n\(length)\r\n\r\n" + first)
            }
            var ready = connections.map { pollfd(fd: $0.descriptor, events: Int16(POLLIN), revents: 0) }
            try #require(poll(&ready, nfds_t(ready.count), Patience.milliseconds) == 1)
            let refused = connections.remove(at: try #require(ready.firstIndex { $0.revents != 0 }))
            #expect(refused.answer()?.status == 503)
            for path in ["/healthz", "/readyz", "/metrics"] { #expect(try ask(port, "GET", path)?.status == 200) }
            connections[0].send(second)
            #expect(connections[0].answer()?.status == 200)
            #expect(try comesTrue { try ask(port, "POST", "/healthz", body: "x")?.status == 405 })
        }
    }

    @Test("Long bodies share a total limit, and short ones do not count")
    func bodies() async throws {
        let handler = handler
        try await LocalListener.run(limits, respond: handler.respond) { port in
            let long = String(repeating: "x", count: 700_000)
            let first = try RawConnection(port: port)
            first.send(request("PUT", "/v1/a", body: long))
            try #require(comesTrue { handler.arrivals == 1 })
            let announced = try RawConnection(port: port)
            announced.send("PUT /v1/a HTTP/1.1\r\nHost: x\r\nContent-Length: 700000\r\n\r\n")
            let refused = try #require(announced.answer())
            #expect(refused.status == 503)
            #expect(refused.fields["retry-after"] == "1")
            handler.open()
            #expect(first.answer()?.text == "700000")
            #expect(try ask(port, "PUT", "/v1/a", body: String(repeating: "x", count: 60_000))?.text == "60000")
            // The reserved bytes are released.
            for _ in 0..<4 { #expect(try ask(port, "PUT", "/v1/a", body: long)?.text == "700000") }
        }
    }

    /// Answers with 16 MiB, or 10 bytes for `/v1/small`. The path is the caller.
    @Sendable private static func respondAtLength(_ request: ServiceRequest) async -> ServiceResponse {
        let count = request.head.path == "/v1/small" ? 10 : 16 << 20
        return ServiceResponse(
            HTTPResponse(status: .ok), body: .bytes([UInt8](repeating: 0x78, count: count)), route: "/test",
            caller: request.head.path)
    }

    @Test("Unread answers share a total limit, of which one caller may have a quarter")
    func answers() async throws {
        var limits = limits
        (limits.requestCount, limits.totalAnswerByteCount) = (1_000, 40 << 20)
        let writes = BatchBody.bytes(of: [.write(WriteRequest(try EntryKey("a"), value: [1], if: .any))])
        try await LocalListener.run(limits, respond: Self.respondAtLength) { port in
            /// Sends a request and reads only the start of the answer.
            func startReading(_ method: String, _ path: String, _ body: [UInt8]? = nil) throws -> RawConnection {
                let connection = try RawConnection(port: port, kernelByteCount: 65_536)
                let fields = body.map { ["Content-Length: \($0.count)"] } ?? []
                connection.send(Array(request(method, path, fields: fields).utf8) + (body ?? []))
                #expect(connection.receive()?.starts(with: Array("HTTP/1.1 200".utf8)) == true)
                return connection
            }
            var readers = [try startReading("GET", "/v1/alice")]
            let refused = try #require(try ask(port, "GET", "/v1/alice"))
            #expect(refused.status == 503)
            #expect(refused.fields["retry-after"] == "1")
            readers.append(try startReading("GET", "/v1/bob"))
            #expect(try ask(port, "GET", "/v1/carol")?.status == 503)
            // The answer to a write is sent in any case, and a short answer does not count.
            readers.append(try startReading("POST", "/v1/batch", writes))
            #expect(try ask(port, "GET", "/v1/small")?.status == 200)
            for reader in readers { reader.reset() }
            #expect(try comesTrue { try ask(port, "GET", "/v1/alice")?.body.count == 16 << 20 })
        }
    }

    @Test("A connection beyond the limit is closed at once, until another one closes")
    func connections() async throws {
        let handler = handler
        handler.open()
        var limits = limits
        // 64 more connections are reserved for loopback clients.
        (limits.connectionCount, limits.requestCount) = (1, 1_000)
        try await LocalListener.run(limits, respond: handler.respond) { port in
            var open = try (0..<65).map { _ in try RawConnection(port: port) }
            for connection in open { connection.send(request("GET", "/v1/a")) }
            for connection in open { #expect(connection.answer()?.status == 200) }
            let another = try RawConnection(port: port)
            another.send(request("GET", "/v1/a"))
            #expect(another.answer() == nil)
            open[0].cut()
            #expect(open[0].receiveAll() == [])
            open.removeFirst()
            #expect(try comesTrue { try ask(port, "GET", "/v1/a")?.status == 200 })
        }
    }

    @Test(
        "The connections of an address are limited, except for loopback addresses and trusted proxies",
        .enabled(if: NetworkAddress.first != nil, "this machine has only loopback addresses"))
    func connectionsOfAddress() async throws {
        let handler = handler
        handler.open()
        let address = try #require(NetworkAddress.first)
        var limits = limits
        (limits.host, limits.addressConnectionCount, limits.requestCount) = ("0.0.0.0", 3, 1_000)
        try await LocalListener.run(limits, respond: handler.respond) { port in
            func connect(_ address: String) throws -> RawConnection {
                let connection = try RawConnection(port: port, address: address)
                connection.send(request("GET", "/v1/a"))
                return connection
            }
            var open = try (0..<3).map { _ in try connect(address) }
            for connection in open { #expect(connection.answer()?.status == 200) }
            #expect(try connect(address).answer() == nil)
            let own = try (0..<10).map { _ in try connect("127.0.0.1") }
            for connection in own { #expect(connection.answer()?.status == 200) }
            // A closed connection allows another one.
            open[0].cut()
            #expect(open[0].receiveAll() == [])
            open.removeFirst()
            #expect(try comesTrue { try connect(address).answer()?.status == 200 })
            #expect(try ask(port, "GET", "/metrics")?.text.contains(Self.refusedConnections) == true)
        }
        let isTaken = limits.trustedProxies.insert(address)
        try #require(isTaken)
        try await LocalListener.run(limits, respond: handler.respond) { port in
            let proxies = try (0..<10).map { _ in try RawConnection(port: port, address: address) }
            for connection in proxies {
                connection.send(request("GET", "/v1/a"))
                #expect(connection.answer()?.status == 200)
            }
        }
    }

    private static let refusedConnections = #"http_server_refusals_total{reason="connections"} "#

    @Test("The header timeout applies even if bytes arrive, and to later requests of a connection")
    func header() async throws {
        let handler = handler
        handler.open()
        var limits = limits
        // No other timeout closes the connections while the test waits.
        (limits.headerSeconds, limits.idleSeconds, limits.silenceSeconds) = (3, 3_000, 3_000)
        try await LocalListener.run(limits, respond: handler.respond) { port in
            let silent = try RawConnection(port: port)
            let slow = try RawConnection(port: port)
            slow.send("GET /v1/a HTTP/1.1\r\nX-")
            let second = try RawConnection(port: port)
            second.send(request("GET", "/v1/a"))
            #expect(second.answer()?.status == 200)
            second.send("GET /v1/a HTTP/1.1\r\n")
            let start = ContinuousClock.now
            var isOver = false
            while !isOver {
                slow.send("x")
                isOver = ContinuousClock.now - start > .seconds(2)
            }
            for connection in [silent, slow, second] { #expect(connection.receiveAll() != nil) }
        }
    }

    @Test("After the first period a body must arrive at the minimum rate")
    func slowBody() async throws {
        let handler = handler
        handler.open()
        var limits = limits
        // The steady body may pause for five seconds, as long as the machine is busy.
        (limits.bodySeconds, limits.minimumByteRate) = (5, 200)
        try await LocalListener.run(limits, respond: handler.respond) { port in
            let start = ContinuousClock.now
            let steady = try RawConnection(port: port)
            steady.send("PUT /v1/a HTTP/1.1\r\nHost: x\r\nContent-Length: 60000\r\n\r\n")
            let slow = try RawConnection(port: port)
            slow.send("PUT /v1/a HTTP/1.1\r\nHost: x\r\nContent-Length: 60000\r\n\r\n")
            // 6,700 and 7 bytes a second, for 7.5 seconds.
            var sent = 0
            while sent < 50_000 {
                guard Int((ContinuousClock.now - start) / .milliseconds(150)) > sent / 1_000 else { continue }
                steady.send(String(repeating: "x", count: 1_000))
                slow.send("x")
                sent += 1_000
            }
            steady.send(String(repeating: "x", count: 10_000))
            #expect(steady.answer()?.text == "60000")
            #expect(slow.answer()?.status == 408)
            #expect(slow.receiveAll() == [])
        }
        #expect(handler.arrivals == 1)
    }
}
