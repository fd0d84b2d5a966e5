import Foundation
import HTTPTypes
import Synchronization
import SyncServer
import SyncService
import TestSupport
import Testing

@Suite("Request limits and timeouts")
struct LimitTests {
    /// Answers with the length of the body, and records the bodies.
    private final class Recorder: Sendable {
        private let bodies = Mutex<[[UInt8]]>([])
        var received: [[UInt8]] { bodies.withLock { $0 } }

        @Sendable func respond(_ request: ServiceRequest) async -> ServiceResponse {
            bodies.withLock { $0.append(request.body) }
            let text = "\(request.head.method.rawValue) \(request.head.path ?? "") \(request.body.count)"
            return ServiceResponse(HTTPResponse(status: .ok), body: .bytes(Array(text.utf8)), route: "/test")
        }
    }

    private let recorder = Recorder()
    /// Timeouts that do not pass, also on a busy machine.
    private var patient: ListenerConfiguration {
        var limits = ListenerConfiguration(port: 0)
        (limits.bodyByteCount, limits.headerByteCount) = (1_000, 2_000)
        let seconds = Int64(Patience.seconds)
        (limits.bodySeconds, limits.idleSeconds, limits.handshakeSeconds) = (seconds, seconds, seconds)
        limits.silenceSeconds = seconds
        limits.shutdownSeconds = 2
        return limits
    }
    /// Timeouts that tests let pass.
    private var impatient: ListenerConfiguration {
        var limits = patient
        limits.bodySeconds = 3
        limits.idleSeconds = 4
        limits.handshakeSeconds = 5
        limits.silenceSeconds = 6
        return limits
    }

    @Test("A too long body is refused: by its announced length, or when a chunked body exceeds the limit")
    func tooLong() async throws {
        try await LocalListener.run(patient, respond: recorder.respond) { port in
            let announced = try RawConnection(port: port)
            announced.send("PUT /a HTTP/1.1\r\nHost: x\r\nContent-Length: 1001\r\n\r\n")
            let refused = try #require(announced.answer())
            #expect(refused.status == 413)
            #expect(refused.fields["content-type"] == "application/problem+json")
            #expect(refused.fields["connection"] == "close")
            #expect(refused.fields["entitlementsync-time"] != nil)
            #expect(announced.receiveAll() == [])

            let chunked = try RawConnection(port: port)
            chunked.send("PUT /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
            for _ in 0..<11 { chunked.send("64\r\n" + String(repeating: "x", count: 100) + "\r\n") }
            #expect(chunked.answer()?.status == 413)

            // A body of the maximum length is accepted, and the connection is kept.
            let fitting = try RawConnection(port: port)
            for _ in 0..<2 {
                fitting.send(request("PUT", "/a", body: String(repeating: "x", count: 1_000)))
                #expect(fitting.answer()?.text == "PUT /a 1000")
            }
        }
        #expect(recorder.received.map(\.count) == [1_000, 1_000])
    }

    @Test("A client that sends Expect: 100-continue gets 100 Continue")
    func expectation() async throws {
        try await LocalListener.run(patient, respond: recorder.respond) { port in
            let connection = try RawConnection(port: port)
            connection.send("PUT /a HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n")
            #expect(connection.answer()?.status == 100)
            connection.send("hello")
            #expect(connection.answer()?.text == "PUT /a 5")
        }
    }

    @Test("An incomplete request is not processed, if its connection is closed, half-closed or idle")
    func cutBody() async throws {
        try await LocalListener.run(impatient, respond: recorder.respond) { port in
            for framing in ["Content-Length: 100\r\n\r\nhalf", "Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n"] {
                for end in 0..<3 {
                    let connection = try RawConnection(port: port)
                    connection.send("PUT /a HTTP/1.1\r\nHost: x\r\n" + framing)
                    switch end {
                    case 0: connection.cut()
                    case 1: connection.endSending()
                    // Send nothing until the timeout.
                    default: break
                    }
                    if let answer = connection.answer() { #expect(answer.status >= 400) }
                }
            }
        }
        #expect(recorder.received.isEmpty)
    }

    @Test("A header that is too long or never complete closes the connection")
    func header() async throws {
        try await LocalListener.run(patient, respond: recorder.respond) { port in
            let long = try RawConnection(port: port)
            long.send(request("GET", "/a", fields: ["X-Long: " + String(repeating: "x", count: 3_000)]))
            let refused = try #require(long.answer())
            #expect(refused.status == 431)
            #expect(refused.fields["content-type"] == "application/problem+json")
            #expect(refused.text.contains("at most 2000 bytes"))
            #expect(long.receiveAll() == [])

            let many = try RawConnection(port: port)
            many.send(request("GET", "/a", fields: (0..<200).map { "X-\($0): y" }))
            #expect(many.answer()?.status == 431)
        }
        try await LocalListener.run(impatient, respond: recorder.respond) { port in
            let endless = try RawConnection(port: port)
            endless.send("GET /a HTTP/1.1\r\nHost: x\r\nX-")
            #expect(endless.receiveAll() != nil)
        }
        #expect(recorder.received.isEmpty)
    }

    @Test("An idle connection is closed, before and after a request")
    func idle() async throws {
        try await LocalListener.run(impatient, respond: recorder.respond) { port in
            let silent = try RawConnection(port: port)
            #expect(silent.receiveAll() == [])
            let used = try RawConnection(port: port)
            used.send(request("GET", "/a"))
            #expect(used.answer()?.status == 200)
            #expect(used.receiveAll() == [])
        }
    }

    @Test("A connection without a TLS handshake is closed")
    func handshake() async throws {
        let folder = try TemporaryFolder()
        try #require(try Tool.makeCertificate(in: folder.path).exitCode == 0)
        var limits = impatient
        limits.certificate = .init(chainFile: folder.path(of: "certificate.pem"), keyFile: folder.path(of: "key.pem"))
        limits.silenceSeconds = 60
        try await LocalListener.run(limits, respond: recorder.respond) { port in
            let silent = try RawConnection(port: port)
            #expect(silent.receiveAll() != nil)
        }
        var kept = patient
        kept.certificate = limits.certificate
        try await LocalListener.run(kept, respond: recorder.respond) { port in
            // A connection with a timely handshake is kept.
            let outcome = try Tool.run(
                "curl",
                ["-sS", "--cacert", folder.path(of: "certificate.pem"), "--http2", "https://localhost:\(port)/a"])
            #expect(outcome.output == "GET /a 0")
        }
    }

    @Test("Pipelined requests are answered in order")
    func pipelining() async throws {
        try await LocalListener.run(patient, respond: recorder.respond) { port in
            let connection = try RawConnection(port: port)
            connection.send((0..<20).map { request("PUT", "/\($0)", body: "x\($0)") }.joined())
            for number in 0..<20 {
                #expect(connection.answer()?.text == "PUT /\(number) \("x\(number)".utf8.count)")
            }
        }
    }
}
