import HTTPStorage
import HTTPTypes
import ServiceTestSupport
import SyncCore
import SyncProtocol
import Synchronization
import TestSupport
import Testing

/// A transport that records the requests and returns scripted streams in order, then silent ones.
private final class ScriptedStreams: HTTPStreamingTransport {
    struct Script: Sendable {
        var code = 200
        var fields: HTTPFields = [.contentType: "text/event-stream"]
        var text = ""
        /// Keeps the stream open and silent after `text`, instead of ending it.
        var isOpen = false
    }

    private let state: Mutex<(scripts: [Result<Script, TransportError>], requests: [HTTPRequest])>

    init(_ scripts: [Result<Script, TransportError>]) { state = Mutex((scripts, [])) }

    var requests: [HTTPRequest] { state.withLock { $0.requests } }

    func send(
        _ request: HTTPRequest, body: [UInt8], timeout: Duration, maximumByteCount: Int
    ) async throws(TransportError) -> TransportAnswer {
        throw TransportError(.other, mayHaveArrived: false, message: "only streams are supported")
    }

    func stream(_ request: HTTPRequest, idleTimeout: Duration) async throws(TransportError) -> TransportStream {
        let next = state.withLock { state in
            state.requests.append(request)
            return state.scripts.isEmpty ? .success(Script(isOpen: true)) : state.scripts.removeFirst()
        }
        let script = try next.get()
        return TransportStream(
            HTTPResponse(status: HTTPResponse.Status(code: script.code), headerFields: script.fields),
            source: Source(script))
    }

    private final class Source: TransportSource {
        private let rest: Mutex<[UInt8]?>
        private let isOpen: Bool

        init(_ script: Script) {
            rest = Mutex(Array(script.text.utf8))
            isOpen = script.isOpen
        }

        func next() async throws(TransportError) -> [UInt8]? {
            let bytes = rest.withLock { rest in
                defer { rest = nil }
                return rest
            }
            if let bytes, !bytes.isEmpty { return bytes }
            guard isOpen else { return nil }
            let (never, hold) = AsyncStream.makeStream(of: Void.self)
            for await _ in never {}
            withExtendedLifetime(hold) {}
            throw TransportError(.cancelled, mayHaveArrived: true, message: "cancelled")
        }
    }
}

@Suite("Signals over HTTP", .timeLimit(.minutes(15)))
struct SignalTests {
    private typealias Script = ScriptedStreams.Script
    private let manual = ManualHost(seed: 3)

    private func backend(
        _ transport: ScriptedStreams, token: @escaping HTTPBackend.Token = { _ throws(BackendError) in nil }
    ) throws -> HTTPBackend {
        try HTTPBackend(server: "http://127.0.0.1:1/base", transport: transport, host: manual.host, token: token)
    }

    private let id = HTTPField.Name("Last-Event-ID")

    @Test("are sent on connecting and for each change, and a broken connection resumes after the last event")
    func resuming() async throws {
        let transport = ScriptedStreams([
            .success(
                Script(
                    text: "retry: 1000\n\nid: 4-00000000000000ff\nevent: cursor\ndata: {}\n\n: 17\n"
                        + "id: 5-00000000000000ff\nevent: change\ndata: {}\n\n")),
            .failure(TransportError(.unreachable, mayHaveArrived: false, message: "connection refused")),
            .success(Script(code: 503, fields: [.retryAfter: "9"])), .success(Script(text: ": 18\n\n", isOpen: true)),
        ])
        let backend = try backend(transport)
        #expect(backend.capabilities.signals == .pushed)
        var signals = backend.signals().makeAsyncIterator()
        for _ in 0..<3 { #expect(await signals.next() != nil) }
        let id = try #require(id)
        #expect(
            transport.requests.map { $0.headerFields[id] } == [
                nil, "5-00000000000000ff", "5-00000000000000ff", "5-00000000000000ff",
            ])
        #expect(transport.requests[0].path == "/base/v1/changes")
        #expect(transport.requests[0].headerFields[.accept] == "text/event-stream")
        // The pauses have jitter: at most 1 s, then at most 2 s, and finally at least the server's Retry-After.
        #expect(manual.pauses.count == 3)
        #expect(manual.pauses[0] <= .seconds(1) && manual.pauses[1] <= .seconds(2) && manual.pauses[2] >= .seconds(9))
        withExtendedLifetime(backend) {}
    }

    @Test("start again, with a signal, if the server cannot resume the stream")
    func expiry() async throws {
        let transport = ScriptedStreams([
            .success(Script(text: "id: 1-0000000000000001\nevent: change\ndata: {}\n\n")), .success(Script(code: 410)),
            .success(Script(text: "id: 2-0000000000000002\nevent: expired\ndata: {}\n\n")),
            .success(Script(isOpen: true)),
        ])
        let backend = try backend(transport)
        var signals = backend.signals().makeAsyncIterator()
        // The signals are: connected, changed, expired, connected, expired, connected.
        for _ in 0..<6 { #expect(await signals.next() != nil) }
        let id = try #require(id)
        #expect(transport.requests.map { $0.headerFields[id] } == [nil, "1-0000000000000001", nil, nil])
        withExtendedLifetime(backend) {}
    }

    @Test("continue with a new token after the old one was rejected")
    func tokens() async throws {
        let transport = ScriptedStreams([
            .success(Script(text: ": 1\n")), .success(Script(code: 401)), .success(Script(isOpen: true)),
        ])
        let backend = try backend(transport) { refused in refused.map { $0 + "+" } ?? "t" }
        var signals = backend.signals().makeAsyncIterator()
        for _ in 0..<2 { #expect(await signals.next() != nil) }
        #expect(
            transport.requests.map { $0.headerFields[.authorization] } == ["Bearer t", "Bearer t", "Bearer t+"])
        withExtendedLifetime(backend) {}
    }

    @Test("are sent at intervals if the server has no change stream")
    func unsupported() async throws {
        let transport = ScriptedStreams([
            .success(Script(code: 404)), .success(Script(code: 200, fields: [.contentType: "application/json"])),
        ])
        let backend = try backend(transport)
        var signals = backend.signals().makeAsyncIterator()
        for _ in 0..<2 { #expect(await signals.next() != nil) }
        #expect(manual.pauses.count == 2 && manual.pauses.allSatisfy { $0 >= .seconds(60) })
        withExtendedLifetime(backend) {}
    }

    @Test("end when the backend is deallocated or their task is cancelled")
    func endings() async throws {
        var backend: HTTPBackend? = try backend(ScriptedStreams([.success(Script(isOpen: true))]))
        let stream = try #require(backend?.signals())
        let (connected, note) = AsyncStream.makeStream(of: Void.self)
        await withTaskGroup(of: Void.self) { group in
            group.addTask { for await _ in stream { note.yield() } }
            var first = connected.makeAsyncIterator()
            await first.next()
            // The task waits for the next signal now or soon; the stream ends in both cases.
            backend = nil
        }
        let cancelled = try self.backend(ScriptedStreams([.success(Script(isOpen: true))]))
        await withTaskGroup(of: Void.self) { group in
            let signals = cancelled.signals()
            let (connected, note) = AsyncStream.makeStream(of: Void.self)
            group.addTask { for await _ in signals { note.yield() } }
            var first = connected.makeAsyncIterator()
            await first.next()
            group.cancelAll()
        }
        let silent = try HTTPBackend(server: "http://127.0.0.1:1", transport: ScriptedTransport([]))
        #expect(silent.capabilities.signals == .polled)
    }
}
