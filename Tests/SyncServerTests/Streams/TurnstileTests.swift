import Foundation
import HTTPTypes
import NIOCore
import NIOPosix
import Synchronization
import SyncService
import Testing

@testable import SyncServer

@Suite("Streams that open all at once", .serialized)
struct TurnstileTests {
    @Test("each has its turn in the order in which they came; who finds the line full is sent away at once")
    func order() async throws {
        let loop = MultiThreadedEventLoopGroup.singleton.next()
        let (order, refusals) = (Box<[Int]>([]), Box(0))
        let turnstile = Turnstile(capacity: 20) { refusals.value.withLock { $0 += 1 } }
        let admitted = try await loop.submit {
            (0..<22).map { number in turnstile.enter(on: loop) { order.value.withLock { $0.append(number) } } }
        }.get()
        #expect(admitted == Array(repeating: true, count: 20) + [false, false])
        #expect(refusals.value.withLock { $0 } == 2)
        while order.value.withLock({ $0.count }) < 20 { try await loop.submit {}.get() }
        #expect(order.value.withLock { $0 } == Array(0..<20))
        #expect(await turnstile.wait(on: loop))
    }

    @Test("whoever asks after them is answered before most of them are open", .timeLimit(.minutes(2)))
    func others() async throws {
        let count = 80 * ProcessInfo.processInfo.activeProcessorCount
        let metrics = PrometheusMetrics()
        let kept = Box<[AsyncStream<[UInt8]>.Continuation]>([])
        let (opened, before) = (Box<[pthread_t: Int]>([:]), Box(Int.max))
        let hasAsked = Box(false)
        let respond: @Sendable (ServiceRequest) async -> ServiceAnswer = { request in
            guard request.head.path == "/v1/changes" else {
                // Those of the same event loop.
                before.value.withLock { $0 = min($0, opened.value.withLock { $0[pthread_self()] ?? 0 }) }
                return ServiceAnswer(HTTPResponse(status: .ok), body: .bytes([]), route: "/test")
            }
            // Until everything that is asked has come.
            while !hasAsked.value.withLock({ $0 }) {}
            opened.value.withLock { $0[pthread_self(), default: 0] += 1 }
            let (pieces, feed) = AsyncStream.makeStream(of: [UInt8].self)
            kept.value.withLock { $0.append(feed) }
            return ServiceAnswer(
                HTTPResponse(status: .ok), body: .stream(pieces, end: { feed.finish() }), route: "/test")
        }
        var limits = ListenerConfiguration(port: 0)
        limits.shutdownSeconds = 10
        try await LocalListener.run(limits, respond: respond, metrics: ServerMetrics(metrics)) { port in
            let watchers = try (0..<count).map { _ in try RawConnection(port: port) }
            let others = try (0..<8).map { _ in try RawConnection(port: port) }
            // They came before this one, and have been let in.
            #expect(try ask(port, "GET", "/healthz")?.status == 200)
            for watcher in watchers {
                watcher.send(request("GET", "/v1/changes", fields: ["Accept: text/event-stream"]))
            }
            for other in others { other.send(request("PUT", "/v1/kv/a", body: "x")) }
            hasAsked.value.withLock { $0 = true }
            for other in others { #expect(other.answer()?.status == 200) }
            while !metrics.text().contains("http_server_open_streams \(count).0") {}
            withExtendedLifetime(watchers) {}
        }
        let most = before.value.withLock { $0 }
        print("of about 80 streams of an event loop \(most) opened before who asked after them")
        #expect(most < 32)
    }

    private final class Box<Value: Sendable>: Sendable {
        let value: Mutex<Value>
        init(_ value: Value) { self.value = Mutex(value) }
    }
}
