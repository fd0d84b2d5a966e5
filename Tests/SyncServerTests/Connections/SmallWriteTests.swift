import Foundation
import HTTPTypes
import Synchronization
import SyncServer
import SyncService
import TestSupport
import Testing

@Suite("Small writes")
struct SmallWriteTests {
    private let handler = GatedHandler { "\($0.head.method.rawValue) \($0.head.path ?? "") \($0.body.count)" }
    private var limits: ListenerConfiguration {
        var limits = ListenerConfiguration(port: 0)
        limits.requestCount = 2
        limits.shutdownSeconds = 20
        return limits
    }

    @Test("Small writes and pipelined requests are answered in order", arguments: [true, false])
    func order(isHeld: Bool) async throws {
        let handler = handler
        if !isHeld { handler.open() }
        let sent = ["PUT a", "PUT bb", "GET c", "PUT dd", "DELETE e", "PUT ff", "POST g", "GET h", "DELETE i", "PUT j"]
            .map { $0.split(separator: " ").map(String.init) }
        try await LocalListener.run(limits, respond: handler.respond) { port in
            let connection = try RawConnection(port: port)
            let texts = sent.map { words in
                request(words[0], "/v1/kv/\(words[1])", body: words[0] == "PUT" || words[0] == "POST" ? words[1] : nil)
            }
            connection.send(texts.joined())
            if isHeld {
                try #require(comesTrue { handler.arrivals == 1 })
                handler.open()
            }
            for words in sent {
                let length = words[0] == "PUT" || words[0] == "POST" ? words[1].utf8.count : 0
                #expect(connection.answer()?.text == "\(words[0]) /v1/kv/\(words[1]) \(length)")
            }
        }
        #expect(handler.arrivals == sent.count)
    }

    @Test("A write that arrives in several parts is processed as a whole")
    func pieces() async throws {
        let handler = handler
        handler.open()
        try await LocalListener.run(limits, respond: handler.respond) { port in
            let text = Array(request("PUT", "/v1/kv/a", body: "12345678").utf8)
            let connection = try RawConnection(port: port)
            for cut in [1, 30, text.count - 8, text.count - 3, text.count - 1] {
                connection.send(Array(text[..<cut]))
                // By then the server has most likely read the first part.
                #expect(try ask(port, "GET", "/healthz")?.status == 200)
                connection.send(Array(text[cut...]))
                #expect(connection.answer()?.text == "PUT /v1/kv/a 8")
            }
        }
    }

    @Test("A write is answered after a half-close, and before the refusal of invalid input behind it")
    func halfClosed() async throws {
        let handler = handler
        try await LocalListener.run(limits, respond: handler.respond) { port in
            let first = try RawConnection(port: port)
            first.send(request("PUT", "/v1/kv/a", body: "1"))
            first.endSending()
            let second = try RawConnection(port: port)
            second.send(request("PUT", "/v1/kv/b", body: "1") + "no request\r\n\r\n")
            try #require(comesTrue { handler.arrivals == 2 })
            handler.open()
            #expect(first.answer()?.text == "PUT /v1/kv/a 1")
            #expect(first.receiveAll() == [])
            #expect(second.answer()?.text == "PUT /v1/kv/b 1")
            #expect(second.answer()?.status == 400)
            #expect(second.receiveAll() == [])
        }
    }

    @Test("A write is answered although the client half-closes in the middle of the next request")
    func cutBehind() async throws {
        let handler = handler
        handler.open()
        try await LocalListener.run(limits, respond: handler.respond) { port in
            for next in ["GET", "GET /v1/kv/b HTTP/1.1\r\nHost: x\r\n"] {
                let connection = try RawConnection(port: port)
                connection.send(request("PUT", "/v1/kv/a", body: "1") + next)
                connection.endSending()
                #expect(connection.answer()?.text == "PUT /v1/kv/a 1")
            }
        }
    }

    @Test("Shutdown answers writes in flight")
    func ending() async throws {
        let handler = handler
        let (ending, end) = AsyncStream.makeStream(of: Void.self)
        try await LocalListener.run(limits, respond: handler.respond, ending: ending) { port in
            let connection = try RawConnection(port: port)
            connection.send(request("PUT", "/v1/kv/a", body: "1"))
            let idle = try RawConnection(port: port)
            idle.send(request("GET", "/healthz"))
            #expect(idle.answer()?.status == 200)
            try #require(comesTrue { handler.arrivals == 1 })
            end.yield()
            end.finish()
            // Idle connections are closed first.
            #expect(idle.receiveAll() == [])
            try #require(comesTrue { (try? RawConnection(port: port)) == nil })
            handler.open()
            #expect(connection.answer()?.text == "PUT /v1/kv/a 1")
            #expect(connection.receiveAll() == [])
        }
    }

    @Test("Writes beyond the request limit are refused, and a disconnected client releases its slot")
    func requestLimit() async throws {
        let handler = handler
        try await LocalListener.run(limits, respond: handler.respond) { port in
            let connections = try (0..<2).map { _ in try RawConnection(port: port) }
            for connection in connections { connection.send(request("PUT", "/v1/kv/a", body: "1")) }
            try #require(comesTrue { handler.arrivals == 2 })
            let refused = try #require(try ask(port, "PUT", "/v1/kv/a", body: "1"))
            #expect(refused.status == 503 && refused.fields["retry-after"] == "1")
            connections[0].reset()
            handler.open()
            #expect(connections[1].answer()?.status == 200)
            try #require(comesTrue { try ask(port, "PUT", "/v1/kv/a", body: "1")?.status == 200 })
            #expect(try ask(port, "GET", "/metrics")?.text.contains("http_server_open_requests 1.0\n") == true)
        }
    }

    @Test("A small write beyond the body limit is refused")
    func bodyLimit() async throws {
        let handler = handler
        handler.open()
        var limits = limits
        limits.bodyByteCount = 1_024
        try await LocalListener.run(limits, respond: handler.respond) { port in
            let long = String(repeating: "x", count: 1_025)
            let taken = try ask(port, "PUT", "/v1/kv/a", body: String(long.dropLast()))
            let refused = try ask(port, "PUT", "/v1/kv/a", body: long)
            #expect(taken?.status == 200 && refused?.status == 413)
        }
        #expect(handler.arrivals == 1)
    }

    @Test("Requests after Connection: close or a refusal are not processed")
    func closing() async throws {
        let handler = handler
        handler.open()
        try await LocalListener.run(limits, respond: handler.respond) { port in
            let first = try RawConnection(port: port)
            first.send(request("GET", "/v1/kv/a", fields: ["Connection: close"]))
            #expect(first.answer()?.status == 200)
            first.send(request("PUT", "/v1/kv/b", body: "1"))
            #expect(first.receiveAll() == [])
            for fields in [["Connection: keep-alive", "Connection: close"], ["Connection: TE, Close"]] {
                let both = try RawConnection(port: port)
                both.send(request("GET", "/v1/kv/a", fields: fields))
                #expect(both.answer()?.status == 200)
                #expect(both.receiveAll() == [])
            }
            let second = try RawConnection(port: port)
            second.send(request("PUT", "/v1/kv/a", fields: ["Content-Encoding: gzip"], body: "1"))
            #expect(second.answer()?.status == 415)
            // The server may read further input, and discards it.
            second.send(request("PUT", "/v1/kv/b", body: "1"))
            #expect(second.receiveAll() == [])
            #expect(try ask(port, "GET", "/v1/kv/c")?.status == 200)
        }
        #expect(handler.arrivals == 4)
    }

    @Test("Connection: keep-alive is accepted and has no effect")
    func staying() async throws {
        let handler = handler
        handler.open()
        try await LocalListener.run(limits, respond: handler.respond) { port in
            let connection = try RawConnection(port: port)
            for wish in ["keep-alive", "Keep-Alive"] {
                connection.send(request("PUT", "/v1/kv/a", fields: ["Connection: \(wish)"], body: "1"))
                let answer = connection.answer()
                #expect(answer?.status == 200 && answer?.fields["connection"] == nil)
            }
        }
        #expect(handler.arrivals == 2)
    }

    // The test passes if it ends: without cancellation it would run into the time limit.
    @Test(
        "A write that does not finish is cancelled after the shutdown timeout", .timeLimit(.minutes(15)))
    func cancelled() async throws {
        var limits = limits
        limits.shutdownSeconds = 1
        let patient = Patient()
        try await LocalListener.run(limits, respond: patient.respond) { port in
            let connection = try RawConnection(port: port)
            connection.send(request("PUT", "/v1/kv/a", body: "1"))
            try #require(comesTrue { patient.arrivals.load(ordering: .relaxed) == 1 })
        }
    }

    /// A handler that answers when its task is cancelled.
    private final class Patient: Sendable {
        let arrivals = Atomic(0)

        @Sendable func respond(_: ServiceRequest) async -> ServiceResponse {
            arrivals.add(1, ordering: .relaxed)
            for await _ in AsyncStream<Void>.makeStream().stream {}
            return ServiceResponse(HTTPResponse(status: .ok), body: .bytes([]), route: "/test")
        }
    }

    private static let long = [UInt8](repeating: 7, count: 3 << 20)
    private static let longAnswer: @Sendable (ServiceRequest) async -> ServiceResponse = { _ in
        ServiceResponse(HTTPResponse(status: .preconditionFailed), body: .bytes(long), route: "/test")
    }

    @Test("A write can get a long answer")
    func longAnswers() async throws {
        try await LocalListener.run(limits, respond: Self.longAnswer) { port in
            let connection = try RawConnection(port: port)
            connection.send(request("PUT", "/v1/kv/a", body: "1") + request("PUT", "/v1/kv/b", body: "2"))
            for _ in 0..<2 {
                let answer = try #require(connection.answer())
                #expect(answer.status == 412 && answer.body == Self.long)
            }
            // Another client disconnects in the middle of its answer.
            let other = try RawConnection(port: port, kernelByteCount: 4_096)
            other.send(request("PUT", "/v1/kv/a", body: "1"))
            #expect(other.receive()?.isEmpty == false)
            other.reset()
            connection.send(request("PUT", "/v1/kv/a", body: "1"))
            #expect(connection.answer()?.body == Self.long)
        }
    }

    @Test("A write whose long answer is not read is disconnected and releases its slot")
    func stalledReader() async throws {
        var limits = limits
        limits.writeSeconds = 1
        limits.requestCount = 1
        try await LocalListener.run(limits, respond: Self.longAnswer) { port in
            let slow = try RawConnection(port: port, kernelByteCount: 4_096)
            slow.send(request("PUT", "/v1/kv/a", body: "1"))
            try #require(
                comesTrue {
                    try ask(port, "GET", "/metrics")?.text.contains(#"http_server_refusals_total{reason="slow"} 1"#)
                        == true
                })
            #expect((slow.receiveAll() ?? []).count < Self.long.count)
            try #require(comesTrue { try ask(port, "PUT", "/v1/kv/a", body: "1")?.body == Self.long })
        }
    }
}
