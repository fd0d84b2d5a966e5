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
        _ limits: ListenerConfiguration, _ body: @escaping @Sendable (_ port: Int) throws -> Result
    ) async throws -> Result {
        try await LocalListener.run(
            limits, respond: Self.respond, metrics: ServerMetrics(metrics), body)
    }

    private var slowCount: String { "http_server_refusals_total{reason=\"slow\"} " }

    @Test("who encrypts the connection and then asks nothing is closed", arguments: ["http/1.1", "h2"])
    func silent(_ name: String) async throws {
        var limits = limits
        if name == "h2" { limits.silenceSeconds = 1 } else { limits.headerSeconds = 1 }
        let isClosed = try await run(limits) { port in
            let connection = try SecureConnection(port: port, protocol: name)
            if name == "h2" { try connection.beginHTTP2() }
            return connection.isClosed()
        }
        #expect(isClosed)
        #expect(metrics.text().contains(slowCount + "1"))
    }

    @Test("who speaks no word of HTTP/2 after agreeing on it is closed")
    func wordless() async throws {
        var limits = limits
        limits.silenceSeconds = 1
        let isClosed = try await run(limits) { port in
            try SecureConnection(port: port, protocol: "h2").isClosed()
        }
        #expect(isClosed)
    }

    @Test("a header that does not end is given up over TLS, too")
    func header() async throws {
        var limits = limits
        limits.headerSeconds = 1
        let isClosed = try await run(limits) { port in
            let connection = try SecureConnection(port: port, protocol: "http/1.1")
            try connection.send(Array("GET /a HTTP/1.1\r\nX-".utf8))
            return connection.isClosed()
        }
        #expect(isClosed)
        #expect(metrics.text().contains(slowCount + "1"))
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
}
