import Foundation
import HTTPTypes
import SyncServer
import SyncService
import TestSupport
import Testing

@Suite("Clients that are slow over TLS")
struct SlowSecureTests {
    private let folder: TemporaryFolder
    private let limits: ListenerConfiguration
    private let metrics = PrometheusMetrics()

    /// Nothing but what a test sets ends within the minute that a test has.
    init() throws {
        folder = try TemporaryFolder()
        try #require(try Tool.makeCertificate(in: folder.path).exitCode == 0)
        var limits = ListenerConfiguration(
            port: 0,
            certificate: .init(chainFile: folder.path(of: "certificate.pem"), keyFile: folder.path(of: "key.pem")))
        (limits.headerSeconds, limits.idleSeconds, limits.silenceSeconds) = (300, 300, 300)
        (limits.bodySeconds, limits.lateBodySeconds, limits.writeSeconds) = (300, 300, 300)
        (limits.handshakeSeconds, limits.shutdownSeconds) = (300, 2)
        self.limits = limits
    }

    @Sendable private static func respond(_ request: ServiceRequest) async -> ServiceAnswer {
        let count = request.head.path == "/long" ? 1 << 20 : 3
        return ServiceAnswer(
            HTTPResponse(status: .ok), body: .bytes([UInt8](repeating: UInt8(ascii: "x"), count: count)),
            route: "/test")
    }

    private func run<Result: Sendable>(
        _ limits: ListenerConfiguration, ending: AsyncStream<Void>? = nil,
        _ body: @escaping @Sendable (_ port: Int) throws -> Result
    ) async throws -> Result {
        try await LocalListener.run(
            limits, respond: Self.respond, metrics: ServerMetrics(metrics), ending: ending, body)
    }

    private var slowCount: String { "http_server_refusals_total{reason=\"slow\"} " }

    private struct Ending {
        var isClosed: Bool
        var agreedProtocol: String?
        var time: Duration
    }

    /// Connects, sends something, and waits for the end.
    private static func ending(
        _ port: Int, _ name: String, _ send: (SecureConnection) throws -> Void = { _ in }
    ) throws -> Ending {
        let begun = ContinuousClock.now
        let connection = try SecureConnection(port: port, protocol: name, isTelling: true)
        try send(connection)
        let isClosed = connection.isClosed()
        return Ending(
            isClosed: isClosed, agreedProtocol: connection.agreedProtocol, time: ContinuousClock.now - begun)
    }

    /// A connection that never came about, or that a server closes at once, is closed as well.
    private func expectSlow(_ ending: Ending, _ name: String) {
        #expect(ending.isClosed)
        #expect(ending.agreedProtocol == name)
        #expect(ending.time >= .seconds(1))
        #expect(metrics.text().contains(slowCount + "1"))
    }

    @Test("who encrypts the connection and then asks nothing is closed", arguments: ["http/1.1", "h2"])
    func silent(_ name: String) async throws {
        var limits = limits
        if name == "h2" { limits.silenceSeconds = 1 } else { limits.headerSeconds = 1 }
        let ending = try await run(limits) { port in
            try Self.ending(port, name) { if name == "h2" { try $0.beginHTTP2() } }
        }
        expectSlow(ending, name)
    }

    @Test("who speaks no word of HTTP/2 after agreeing on it is closed")
    func wordless() async throws {
        var limits = limits
        limits.silenceSeconds = 1
        let ending = try await run(limits) { port in try Self.ending(port, "h2") }
        expectSlow(ending, "h2")
    }

    @Test("a header that does not end is given up over TLS, too")
    func header() async throws {
        var limits = limits
        limits.headerSeconds = 1
        let ending = try await run(limits) { port in
            try Self.ending(port, "http/1.1") { try $0.send(Array("GET /a HTTP/1.1\r\nX-".utf8)) }
        }
        expectSlow(ending, "http/1.1")
    }

    @Test("HTTP/2: a connection without requests is closed, whatever the client says", arguments: [false, true])
    func idle(hasAsked: Bool) async throws {
        var limits = limits
        limits.idleSeconds = 1
        let (isTold, isClosed, time) = try await run(limits) { port in
            let begun = ContinuousClock.now
            let connection = try SecureConnection(port: port, protocol: "h2")
            try connection.beginHTTP2()
            if hasAsked { try connection.send([.request("GET", "/short", stream: 1, isWhole: true)]) }
            let told = connection.frames { $0.isGoAway }
            let answered = told?.contains { $0.isData && $0.payload == Array("xxx".utf8) }
            return (answered == hasAsked, connection.isClosed(), ContinuousClock.now - begun)
        }
        #expect(isTold)
        #expect(isClosed)
        #expect(time >= .seconds(limits.idleSeconds + limits.shutdownSeconds))
    }

    @Test("HTTP/2: a stream whose reader takes nothing more is ended; others of its connection go on")
    func stalled() async throws {
        var limits = limits
        limits.writeSeconds = 1
        let (count, answered) = try await run(limits) { port in
            let connection = try SecureConnection(port: port, protocol: "h2")
            try connection.beginHTTP2()
            try connection.send([.request("GET", "/long", stream: 1, isWhole: true)])
            let frames = connection.frames { $0.isReset && $0.stream == 1 }
            let data = try #require(frames).filter { $0.isData && $0.stream == 1 }
            try connection.send([.request("GET", "/short", stream: 3, isWhole: true)])
            let others = connection.frames { $0.isData && $0.stream == 3 }
            return (data.reduce(0) { $0 + $1.payload.count }, others?.last?.payload)
        }
        #expect(count == 65_535)
        #expect(answered == Array("xxx".utf8))
        #expect(metrics.text().contains(slowCount + "1"))
    }

    @Test("HTTP/2: a body that does not come in time is 408; others of its connection go on")
    func body() async throws {
        var limits = limits
        limits.bodySeconds = 1
        let (refusal, answered) = try await run(limits) { port in
            let connection = try SecureConnection(port: port, protocol: "h2")
            try connection.beginHTTP2()
            try connection.send([
                .request("PUT", "/v1/a", stream: 1, isWhole: false), .data(stream: 1, Array("half".utf8)),
            ])
            let frames = connection.frames { $0.isData && $0.stream == 1 }
            try connection.send([.request("GET", "/short", stream: 3, isWhole: true)])
            let others = connection.frames { $0.isData && $0.stream == 3 }
            return (String(decoding: frames?.last?.payload ?? [], as: UTF8.self), others?.last?.payload)
        }
        #expect(refusal.contains("\"status\":408"), "\(refusal)")
        #expect(answered == Array("xxx".utf8))
        #expect(metrics.text().contains(slowCount + "1"))
    }

    @Test("HTTP/2: a server that is to end waits for a late body only so long")
    func lateBody() async throws {
        var limits = limits
        // Longer than a connection is kept that carries nothing.
        (limits.lateBodySeconds, limits.shutdownSeconds) = (4, 300)
        let (ending, end) = AsyncStream.makeStream(of: Void.self)
        let refusal = try await run(limits, ending: ending) { port in
            defer { end.finish() }
            let connection = try SecureConnection(port: port, protocol: "h2")
            try connection.beginHTTP2()
            try connection.send([
                .request("PUT", "/v1/a", stream: 1, isWhole: false), .data(stream: 1, Array("half".utf8)), .ping,
            ])
            // When this is answered, what was sent before it has come. Inside of #require, in a closure as here, this
            // closure would be called instead of the next one, too (Swift 6.3.1).
            let pong = connection.frames { $0.isPong }
            try #require(pong != nil)
            end.yield()
            let frames = connection.frames { $0.isData && $0.stream == 1 }
            return String(decoding: frames?.last?.payload ?? [], as: UTF8.self)
        }
        #expect(refusal.contains("\"status\":408"), "\(refusal)")
        #expect(metrics.text().contains(slowCount + "1"))
    }

    @Test("HTTP/2: a server that is to end does not wait for who says nothing and has nothing under way")
    func quietClient() async throws {
        var limits = limits
        limits.shutdownSeconds = 300
        let (ending, end) = AsyncStream.makeStream(of: Void.self)
        let (isTold, isClosed) = try await run(limits, ending: ending) { port in
            defer { end.finish() }
            let connection = try SecureConnection(port: port, protocol: "h2")
            try connection.beginHTTP2()
            try connection.send([.request("GET", "/short", stream: 1, isWhole: true)])
            let answer = connection.frames { $0.isData && $0.stream == 1 }
            try #require(answer != nil)
            end.yield()
            let told = connection.frames { $0.isGoAway }
            return (told != nil, connection.isClosed())
        }
        #expect(isTold)
        #expect(isClosed)
    }
}
