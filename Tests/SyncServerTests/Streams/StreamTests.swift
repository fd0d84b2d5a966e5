import Dispatch
import Foundation
import HTTPTypes
import Synchronization
import SyncServer
import SyncService
import TestSupport
import Testing

@Suite("Streamed answers")
struct StreamTests {
    /// A stream that the test feeds, and that records its end.
    private final class Source: Sendable {
        let pieces: AsyncStream<[UInt8]>
        let feed: AsyncStream<[UInt8]>.Continuation
        private let end = DispatchSemaphore(value: 0)

        init() {
            (pieces, feed) = AsyncStream.makeStream()
            let end = end
            feed.onTermination = { _ in end.signal() }
        }

        /// Returns `true` if the stream has ended or ends soon. Blocks the calling thread.
        func isEnded() -> Bool { end.wait(timeout: .now() + Double(Patience.seconds)) == .success }

        @Sendable func respond(_ request: ServiceRequest) async -> ServiceResponse {
            let feed = feed
            return ServiceResponse(
                HTTPResponse(status: .ok), body: .stream(pieces, end: { feed.finish() }), route: "/test")
        }
    }

    private let source = Source()
    private let metrics = ServerMetrics()

    @Test("Each piece is sent before the next one is produced, and the connection closes after the stream")
    func pieces() async throws {
        let source = source
        try await LocalListener.run(ListenerConfiguration(port: 0), respond: source.respond) { port in
            let connection = try RawConnection(port: port)
            connection.send(request("GET", "/stream"))
            var text = ""
            for number in 0..<50 {
                let piece = "piece \(number);"
                source.feed.yield(Array(piece.utf8))
                while !text.contains(piece) {
                    let more = try #require(connection.receive())
                    try #require(!more.isEmpty)
                    text += String(decoding: more, as: UTF8.self)
                }
            }
            #expect(text.contains("HTTP/1.1 200 OK"))
            #expect(!text.lowercased().contains("content-length"))
            source.feed.finish()
            let rest = try #require(connection.receiveAll())
            #expect(String(decoding: rest, as: UTF8.self).hasSuffix("0\r\n\r\n"))
        }
    }

    @Test("A stream ends when its client disconnects, even without a piece to send", .timeLimit(.minutes(15)))
    func leaving() async throws {
        let source = source
        let metrics = metrics
        try await LocalListener.run(
            ListenerConfiguration(port: 0), respond: source.respond, metrics: metrics
        ) { port in
            let connection = try RawConnection(port: port)
            connection.send(request("GET", "/stream"))
            source.feed.yield(Array("first".utf8))
            try #require(connection.receive()?.isEmpty == false)
            #expect(metrics.text().contains("http_server_open_streams 1.0"))
            connection.cut()
            #expect(source.isEnded())
        }
        #expect(metrics.text().contains("http_server_open_streams 0.0"))
    }

    @Test("Shutdown ends streams and idle connections, and answers requests in flight", .timeLimit(.minutes(15)))
    func ending() async throws {
        let source = source
        let (began, begin) = AsyncStream.makeStream(of: Void.self)
        let (allowed, allow) = AsyncStream.makeStream(of: Void.self)
        let respond: @Sendable (ServiceRequest) async -> ServiceResponse = { request in
            if request.head.path == "/stream" { return await source.respond(request) }
            begin.yield()
            begin.finish()
            for await _ in allowed { break }
            return ServiceResponse(HTTPResponse(status: .ok), body: .bytes(Array("done".utf8)), route: "/test")
        }
        try await LocalListener.run(ListenerConfiguration(port: 0), respond: respond, ending: began) { port in
            let stream = try RawConnection(port: port)
            stream.send(request("GET", "/stream"))
            source.feed.yield(Array("first".utf8))
            try #require(stream.receive()?.isEmpty == false)
            let idle = try RawConnection(port: port)
            let slow = try RawConnection(port: port)
            slow.send(request("PUT", "/slow", body: "x"))
            // The stream and the idle connection end while the slow request is in flight.
            #expect(stream.receiveAll() != nil)
            #expect(idle.receiveAll() == [])
            // The kernel accepts connections until the port is closed, which may be after the connections.
            #expect(comesTrue { (try? RawConnection(port: port)) == nil })
            allow.yield()
            #expect(slow.answer()?.text == "done")
            #expect(slow.receiveAll() == [])
        }
    }

    @Test("A stream whose client does not read is closed after the silence timeout", .timeLimit(.minutes(15)))
    func stalledReader() async throws {
        var limits = ListenerConfiguration(port: 0)
        limits.silenceSeconds = 1
        limits.shutdownSeconds = 5
        let source = source
        let big = [UInt8](repeating: 0x78, count: 1 << 20)
        for _ in 0..<64 { source.feed.yield(big) }
        try await LocalListener.run(limits, respond: source.respond) { port in
            let connection = try RawConnection(port: port)
            connection.send(request("GET", "/stream"))
            #expect(source.isEnded())
            withExtendedLifetime(connection) {}
        }
    }

    @Test("A last piece does not delay shutdown when its client does not read", .timeLimit(.minutes(15)))
    func lastPiece() async throws {
        let source = source
        let respond: @Sendable (ServiceRequest) async -> ServiceResponse = { _ in
            let feed = source.feed
            return ServiceResponse(
                HTTPResponse(status: .ok),
                body: .stream(
                    source.pieces,
                    end: {
                        feed.yield([UInt8](repeating: 0x78, count: 32 << 20))
                        feed.finish()
                    }), route: "/test")
        }
        var limits = ListenerConfiguration(port: 0)
        limits.shutdownSeconds = 600
        let (ending, end) = AsyncStream.makeStream(of: Void.self)
        let (descriptor, start) = try await LocalListener.run(limits, respond: respond, ending: ending) { port in
            let connection = try RawConnection(port: port)
            connection.send(request("GET", "/stream"))
            source.feed.yield(Array("first".utf8))
            #expect(connection.receive()?.isEmpty == false)
            let start = ContinuousClock.now
            end.yield()
            end.finish()
            // The duplicate keeps the connection open.
            return (dup(connection.descriptor), start)
        }
        let elapsed = ContinuousClock.now - start
        print("shutdown with a last piece for a client that does not read: \(elapsed)")
        #expect(elapsed < .seconds(500))
        #expect(close(descriptor) == 0)
    }

    @Test("A stream that does not end in time during shutdown is closed", .timeLimit(.minutes(15)))
    func longEnd() async throws {
        let source = source
        let respond: @Sendable (ServiceRequest) async -> ServiceResponse = { _ in
            ServiceResponse(HTTPResponse(status: .ok), body: .stream(source.pieces, end: {}), route: "/test")
        }
        var limits = ListenerConfiguration(port: 0)
        limits.shutdownSeconds = 3_000
        let (ending, end) = AsyncStream.makeStream(of: Void.self)
        try await LocalListener.run(limits, respond: respond, ending: ending) { port in
            let connection = try RawConnection(port: port)
            connection.send(request("GET", "/stream"))
            source.feed.yield(Array("first".utf8))
            #expect(connection.receive()?.isEmpty == false)
            let start = ContinuousClock.now
            end.yield()
            end.finish()
            // Shutdown would wait longer than the connection.
            #expect(connection.receiveAll() != nil)
            let elapsed = ContinuousClock.now - start
            source.feed.finish()
            print("a stream that does not end by itself: \(elapsed)")
        }
    }

    @Test("Over HTTP/2 a stream is sent in pieces, and ends when its client resets it")
    func secure() async throws {
        let folder = try TemporaryFolder()
        try #require(try Tool.makeCertificate(in: folder.path).exitCode == 0)
        let source = source
        source.feed.yield(Array("first;".utf8))
        let certificate = ListenerConfiguration.Certificate(
            chainFile: folder.path(of: "certificate.pem"), keyFile: folder.path(of: "key.pem"))
        try await LocalListener.run(
            ListenerConfiguration(port: 0, certificate: certificate), respond: source.respond
        ) { port in
            // curl times out and resets its stream. 5 s allow for the handshake on a slow machine.
            let outcome = try Tool.run(
                "curl",
                [
                    "-sSN", "--http2", "--max-time", "5", "--cacert", folder.path(of: "certificate.pem"),
                    "https://localhost:\(port)/stream",
                ])
            #expect(outcome.exitCode == 28)
            #expect(outcome.output == "first;")
            #expect(source.isEnded())
        }
    }
}
