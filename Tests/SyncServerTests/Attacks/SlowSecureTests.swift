import Foundation
import HTTPTypes
import SyncServer
import SyncService
import TestSupport
import Testing

@Suite("Slow clients over TLS")
struct SlowSecureTests {
    private let folder: TemporaryFolder
    private let limits: ListenerConfiguration
    private let metrics = ServerMetrics()

    /// All timeouts exceed the test's time limit, except those that a test changes.
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

    @Sendable private static func respond(_ request: ServiceRequest) async -> ServiceResponse {
        let count = request.head.path == "/long" ? 1 << 20 : 3
        return ServiceResponse(
            HTTPResponse(status: .ok), body: .bytes([UInt8](repeating: UInt8(ascii: "x"), count: count)),
            route: "/test")
    }

    private func run<Result: Sendable>(
        _ limits: ListenerConfiguration, ending: AsyncStream<Void>? = nil,
        _ body: @escaping @Sendable (_ port: Int) throws -> Result
    ) async throws -> Result {
        try await LocalListener.run(
            limits, respond: Self.respond, metrics: metrics, ending: ending, body)
    }

    private var slowCount: String { "http_server_refusals_total{reason=\"slow\"} " }

    private struct Ending {
        var isClosed: Bool
        var agreedProtocol: String?
        var time: Duration
    }

    /// Connects, calls `send`, and waits until the server closes the connection.
    private static func ending(
        _ port: Int, _ name: String, _ send: (SecureConnection) throws -> Void = { _ in }
    ) throws -> Ending {
        let begun = ContinuousClock.now
        let connection = try SecureConnection(port: port, protocol: name, printsProtocol: true)
        try send(connection)
        let isClosed = connection.isClosed()
        return Ending(
            isClosed: isClosed, agreedProtocol: connection.agreedProtocol, time: ContinuousClock.now - begun)
    }

    /// The start of a client's input, after which it sends nothing.
    enum Start: CaseIterable {
        case nothing, incompleteHeader, nothingOverHTTP2, prefaceOfHTTP2
    }

    @Test("A client over TLS that sends nothing, or no complete header, is disconnected", arguments: Start.allCases)
    func silent(_ start: Start) async throws {
        var limits = limits
        let name = start == .nothing || start == .incompleteHeader ? "http/1.1" : "h2"
        if name == "h2" { limits.silenceSeconds = 3 } else { limits.headerSeconds = 3 }
        let ending = try await run(limits) { port in
            try Self.ending(port, name) { connection in
                switch start {
                case .incompleteHeader: try connection.send(Array("GET /a HTTP/1.1\r\nX-".utf8))
                case .prefaceOfHTTP2: try connection.beginHTTP2()
                case .nothing, .nothingOverHTTP2: break
                }
            }
        }
        // A connection that failed or was closed at once is closed as well.
        #expect(ending.isClosed)
        #expect(ending.agreedProtocol == name)
        #expect(ending.time >= .seconds(3))
        #expect(metrics.text().contains(slowCount + "1"))
    }

    @Test("HTTP/2: an idle connection is closed, before and after its first request", arguments: [false, true])
    func idle(hasAsked: Bool) async throws {
        var limits = limits
        limits.idleSeconds = 3
        let (isTold, isClosed, time) = try await run(limits) { port in
            let begun = ContinuousClock.now
            let connection = try SecureConnection(port: port, protocol: "h2")
            try connection.beginHTTP2()
            if hasAsked { try connection.send([.request("GET", "/short", stream: 1, isWhole: true)]) }
            let frames = connection.frames { $0.isGoAway }
            let answered = frames?.contains { $0.isData && $0.payload == Array("xxx".utf8) }
            return (answered == hasAsked, connection.isClosed(), ContinuousClock.now - begun)
        }
        #expect(isTold)
        #expect(isClosed)
        #expect(time >= .seconds(limits.idleSeconds + limits.shutdownSeconds))
    }

    @Test("HTTP/2: a stream whose client stops reading is reset; other streams of the connection continue")
    func stalled() async throws {
        var limits = limits
        limits.writeSeconds = 3
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

    @Test("HTTP/2: a late body is answered with 408; other streams of the connection continue")
    func body() async throws {
        var limits = limits
        limits.bodySeconds = 3
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

    @Test("HTTP/2: shutdown waits for a body only for the late-body timeout")
    func lateBody() async throws {
        var limits = limits
        // Longer than an idle connection is kept during shutdown.
        (limits.lateBodySeconds, limits.shutdownSeconds) = (4, 300)
        let (ending, end) = AsyncStream.makeStream(of: Void.self)
        let refusal = try await run(limits, ending: ending) { port in
            defer { end.finish() }
            let connection = try SecureConnection(port: port, protocol: "h2")
            try connection.beginHTTP2()
            try connection.send([
                .request("PUT", "/v1/a", stream: 1, isWhole: false), .data(stream: 1, Array("half".utf8)), .ping,
            ])
            // When this is answered, the earlier frames have arrived. Not inside #require: within a closure, Swift
            // 6.3.1 would then call this closure instead of the next one too.
            let pong = connection.frames { $0.isPong }
            try #require(pong != nil)
            end.yield()
            let frames = connection.frames { $0.isData && $0.stream == 1 }
            return String(decoding: frames?.last?.payload ?? [], as: UTF8.self)
        }
        #expect(refusal.contains("\"status\":408"), "\(refusal)")
        #expect(metrics.text().contains(slowCount + "1"))
    }

    @Test("HTTP/2: shutdown does not wait for a silent client without open streams")
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
            let frames = connection.frames { $0.isGoAway }
            return (frames != nil, connection.isClosed())
        }
        #expect(isTold)
        #expect(isClosed)
    }
}
