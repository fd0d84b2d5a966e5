import Foundation
import HTTPTypes
import Logging
import NIOCore
import NIOEmbedded
import NIOHTTPTypes
import SyncCore
import SyncService
import Synchronization
import TestSupport
import Testing

@testable import SyncServer

/// Reads of one entry are answered on the event loop, see `ConnectionHandler`.
@Suite("Fast reads")
struct FastReadTests {
    /// Fast reads of as many bytes as the path says, with a count of these answers.
    private final class Counting: Sendable {
        private let counter = Atomic(0)
        var count: Int { counter.load(ordering: .relaxed) }

        @Sendable func fastRead(_ request: HTTPRequest, longest: Int) -> ServiceResponse? {
            let answer = FastReadTests.answer(request)
            guard case .bytes(let bytes) = answer.body, bytes.count <= longest else { return nil }
            counter.add(1, ordering: .relaxed)
            return answer
        }
    }

    private static func answer(_ request: HTTPRequest) -> ServiceResponse {
        let count = request.path.flatMap { $0.split(separator: "/").last }.flatMap { Int($0) } ?? 0
        return ServiceResponse(
            HTTPResponse(status: .ok), body: .bytes([UInt8](repeating: 7, count: count)), route: "/test")
    }

    private let counting = Counting()

    private var limits: ListenerConfiguration {
        var limits = ListenerConfiguration(port: 0)
        // Enough for a busy machine to read all answers.
        (limits.writeSeconds, limits.shutdownSeconds) = (120, 120)
        return limits
    }

    private func run<Result: Sendable>(
        _ limits: ListenerConfiguration, ending: AsyncStream<Void>? = nil,
        _ body: @escaping @Sendable (_ port: Int) throws -> Result
    ) async throws -> Result {
        try await LocalListener.run(
            limits, respond: { Self.answer($0.head) }, fastRead: counting.fastRead, ending: ending, body)
    }

    private static let longest = 64 << 10

    /// Connections with 1, 2, 3, … requests, so that for one of them exactly the last answer exceeds the kernel's
    /// buffers.
    private static func clients(_ port: Int, upTo most: Int = 64) throws -> [RawConnection] {
        try (1...most).map { count in
            let connection = try RawConnection(port: port, kernelByteCount: 4_096)
            connection.send(String(repeating: request("GET", "/v1/kv/\(longest)"), count: count))
            return connection
        }
    }

    /// Expects all answers to be complete, and then the end of each connection.
    private static func expectAll(_ connections: [RawConnection]) {
        for (index, connection) in connections.enumerated() {
            let counts = (0...index).map { _ in connection.answer()?.body.count }
            #expect(counts.allSatisfy { $0 == longest }, "\(index + 1): \(counts.count { $0 == nil }) missing")
            #expect(connection.receiveAll()?.count == 0)
        }
    }

    @Test("Answers are flushed after the event loop has processed all readable connections")
    func together() throws {
        let handler = ScriptedHandler {
            Self.answer($0.head)
        } fast: { [counting] request, longest in
            counting.fastRead(request, longest: longest)
        }
        let door = ListenerContext(
            Responder(
                handler, metrics: ServerMetrics(), limits: limits,
                logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }))
        let loop = EmbeddedEventLoop()
        let channels = try (1...3).map { count in
            let channel = EmbeddedChannel(loop: loop)
            try channel.pipeline.syncOperations.addHandler(
                ConnectionHandler(door, peer: Peer("127.0.0.1", TrustedProxies()), isStream: false))
            for _ in 0..<count {
                let head = HTTPRequest(method: .get, scheme: "http", authority: "test", path: "/v1/kv/300")
                channel.pipeline.fireChannelRead(HTTPRequestPart.head(head))
                channel.pipeline.fireChannelRead(HTTPRequestPart.end(nil))
            }
            channel.pipeline.fireChannelReadComplete()
            return channel
        }
        #expect(counting.count == 6)
        for channel in channels { #expect(try channel.readOutbound(as: HTTPResponsePart.self) == nil) }
        loop.run()
        for (index, channel) in channels.enumerated() {
            var parts: [HTTPResponsePart] = []
            while let part = try channel.readOutbound(as: HTTPResponsePart.self) { parts.append(part) }
            let ends = parts.count { $0 == .end(nil) }
            #expect(ends == index + 1)
            #expect(try channel.finish(acceptAlreadyClosed: true).isClean)
        }
    }

    @Test("Half-closed clients get complete answers, even if they read late")
    func halfClosed() async throws {
        try await run(limits) { [counting] port in
            let connections = try Self.clients(port)
            for connection in connections { connection.endSending() }
            try #require(comesTrue { counting.count >= connections.count })
            // By then the server has most likely seen the half-closes.
            for _ in 0..<8 { #expect(try ask(port, "GET", "/healthz")?.status == 200) }
            Self.expectAll(connections)
        }
    }

    @Test("Clients get complete answers even if they read after the shutdown started")
    func ending() async throws {
        let (ending, end) = AsyncStream.makeStream(of: Void.self)
        try await run(limits, ending: ending) { [counting] port in
            // The server answers the requests that it has read before: one read of each connection.
            let connections = try Self.clients(port, upTo: 16)
            try #require(comesTrue { counting.count >= connections.count })
            for _ in 0..<8 { #expect(try ask(port, "GET", "/healthz")?.status == 200) }
            end.yield()
            end.finish()
            try #require(comesTrue { (try? RawConnection(port: port)) == nil })
            Self.expectAll(connections)
        }
    }

    private func secureLimits(_ folder: TemporaryFolder) throws -> ListenerConfiguration {
        try #require(try Tool.makeCertificate(in: folder.path).exitCode == 0)
        var limits = limits
        limits.certificate = .init(
            chainFile: folder.path(of: "certificate.pem"), keyFile: folder.path(of: "key.pem"))
        return limits
    }

    @Test("Over TLS, requests are not processed while the client does not read")
    func secure() async throws {
        let folder = try TemporaryFolder()
        let count = try await run(secureLimits(folder)) { [counting] port in
            let connection = try SecureConnection(port: port, protocol: "http/1.1")
            // Requests for 64 MiB that fit into a few reads.
            try connection.send(Array(String(repeating: request("GET", "/v1/kv/\(Self.longest)"), count: 1_000).utf8))
            try #require(comesTrue { counting.count > 0 })
            for _ in 0..<8 { #expect(try ask(port, "GET", "/healthz") == nil) }
            return counting.count
        }
        // The kernel buffers a few of the answers.
        #expect(count < 200)
    }

    @Test("Over HTTP/2, answers wait for the stream's window, and long ones are not fast reads")
    func window() async throws {
        let folder = try TemporaryFolder()
        let (early, late) = try await run(secureLimits(folder)) { port in
            let connection = try SecureConnection(port: port, protocol: "h2")
            // The initial window of a stream is 0 (RFC 9113, section 6.5.2).
            try connection.beginHTTP2(settings: [0, 4, 0, 0, 0, 0])
            try connection.send([
                .request("GET", "/v1/kv/4096", stream: 1, isWhole: true),
                .request("GET", "/v1/kv/4097", stream: 3, isWhole: true), .ping,
            ])
            let before = connection.frames { $0.isPong }
            let early = try #require(before).count { $0.isData || $0.isReset }
            try connection.send([.windowUpdate(stream: 1, by: 65_535), .windowUpdate(stream: 3, by: 65_535)])
            var late: [UInt32: Int] = [:]
            while late[1, default: 0] < 4_096 || late[3, default: 0] < 4_097, let frame = connection.frame() {
                if frame.isReset { break }
                if frame.isData { late[frame.stream, default: 0] += frame.payload.count }
            }
            return (early, late)
        }
        #expect(early == 0)
        #expect(late == [1: 4_096, 3: 4_097])
        #expect(counting.count == 1)
    }

    @Test("Over HTTP/2, an answer without a window counts until its stream is reset after the write timeout")
    func noWindow() async throws {
        let folder = try TemporaryFolder()
        var limits = try secureLimits(folder)
        // Enough for a busy machine to send a second request.
        (limits.writeSeconds, limits.totalAnswerByteCount) = (5, 8_000)
        let metrics = ServerMetrics()
        let (refusal, resets) = try await LocalListener.run(
            limits, respond: { Self.answer($0.head) }, metrics: metrics
        ) { port in
            let connection = try SecureConnection(port: port, protocol: "h2")
            try connection.beginHTTP2(settings: [0, 4, 0, 0, 0, 0])
            // Too short to make a NIO stream unwritable.
            try connection.send([.request("GET", "/v1/kv/4097", stream: 1, isWhole: true), .ping])
            // Not inside #expect, see `SlowSecureTests.lateBody`.
            let pong = connection.frames { $0.isPong }
            #expect(pong != nil)
            try connection.send([
                .request("GET", "/v1/kv/4097", stream: 3, isWhole: true), .windowUpdate(stream: 3, by: 65_535),
            ])
            let data = connection.frames { $0.isData && $0.stream == 3 && !$0.payload.isEmpty }
            let resets = connection.frames { $0.isReset && $0.stream == 1 }
            return (String(decoding: data?.last?.payload ?? [], as: UTF8.self), resets?.count { $0.isReset })
        }
        #expect(refusal.contains("\"status\":503"), "\(refusal)")
        #expect(resets == 1)
        #expect(metrics.text().contains("http_server_refusals_total{reason=\"slow\"} 1"))
    }

    @Test("Unread answers delay shutdown for at most the shutdown timeout")
    func endingUnread() async throws {
        var limits = limits
        limits.shutdownSeconds = 3
        let (ending, end) = AsyncStream.makeStream(of: Void.self)
        let (begun, descriptors) = try await run(limits, ending: ending) { [counting] port in
            let connections = try Self.clients(port)
            try #require(comesTrue { counting.count >= connections.count })
            for _ in 0..<8 { #expect(try ask(port, "GET", "/healthz")?.status == 200) }
            end.yield()
            end.finish()
            // The duplicates keep the connections open, unread.
            return (ContinuousClock.now, connections.map { dup($0.descriptor) })
        }
        let elapsed = ContinuousClock.now - begun
        #expect(elapsed > .seconds(2), "the server must wait for the clients")
        expectFigure(elapsed < .seconds(5))
        for descriptor in descriptors { close(descriptor) }
    }
}
