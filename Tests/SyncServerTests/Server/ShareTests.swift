import Foundation
import HTTPTypes
import SyncServer
import SyncService
import TestSupport
import Testing

/// Loopback addresses have no share limit, so these tests forward addresses as a trusted proxy.
@Suite("The share of an address")
struct ShareTests {
    private static let (attacker, other) = ("203.0.113.1", "198.51.100.1")
    private let handler = GatedHandler()

    private var limits: ListenerConfiguration {
        get throws {
            var limits = ListenerConfiguration(port: 0)
            (limits.requestCount, limits.addressRequestCount, limits.shutdownSeconds) = (40, 10, 2)
            // Slots are held until the end, also on a slow machine.
            limits.bodySeconds = 300
            let isTaken = limits.trustedProxies.insert("127.0.0.1")
            try #require(isTaken)
            return limits
        }
    }

    private static func forwarded(_ address: String) -> [String] { ["X-Forwarded-For: \(address)"] }

    @Test("Over HTTP/1.1, bodies that never arrive use only the slots of their address")
    func bodies() async throws {
        handler.open()
        try await LocalListener.run(try limits, respond: handler.respond) { port in
            let head = "POST /v1/sessions HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: \(Self.attacker)\r\n"
            let held = try (0..<60).map { number in
                let connection = try RawConnection(port: port)
                // Half of them send a part of the body, the others nothing.
                connection.send(head + "Content-Length: 9\r\n\r\n" + (number % 2 == 0 ? "x" : ""))
                return connection
            }
            // Half of the slots of an address allow bodies that have not arrived.
            let statuses = Self.statuses(of: held, count: 55)
            #expect(statuses == Array(repeating: 429, count: 55))
            for _ in 0..<20 {
                let answer = try ask(port, "POST", "/v1/sessions", fields: Self.forwarded(Self.other), body: "x")
                #expect(answer?.status == 200)
            }
            let again = try RawConnection(port: port)
            again.send(head + "Content-Length: 9\r\n\r\nx")
            let refused = again.answer()
            #expect(refused?.status == 429 && refused?.fields["retry-after"] == "1")
            withExtendedLifetime(held) {}
        }
    }

    /// The statuses of the first `count` answered connections.
    private static func statuses(of connections: [RawConnection], count: Int) -> [Int] {
        var rest = connections
        var statuses: [Int] = []
        while statuses.count < count {
            var ready = rest.map { pollfd(fd: $0.descriptor, events: Int16(POLLIN), revents: 0) }
            guard poll(&ready, nfds_t(ready.count), Patience.milliseconds) > 0 else { break }
            for (index, entry) in ready.enumerated().reversed() where entry.revents != 0 {
                statuses.append(rest.remove(at: index).answer()?.status ?? 0)
            }
        }
        return statuses
    }

    @Test("Over HTTP/2, bodies that never arrive use only the slots of their address")
    func secureBodies() async throws {
        let folder = try TemporaryFolder()
        try #require(try Tool.makeCertificate(in: folder.path).exitCode == 0)
        var limits = try limits
        limits.certificate = .init(
            chainFile: folder.path(of: "certificate.pem"), keyFile: folder.path(of: "key.pem"))
        handler.open()
        let refused = try await LocalListener.run(limits, respond: handler.respond) { port in
            let attacker = try SecureConnection(port: port, protocol: "h2")
            try attacker.beginHTTP2()
            for number in 0..<60 {
                try attacker.send([
                    .request(
                        "POST", "/v1/sessions", stream: UInt32(1 + 2 * number), isWhole: false,
                        fields: ["x-forwarded-for": Self.attacker])
                ])
            }
            try attacker.send([.ping])
            _ = attacker.frames { $0.isPong }
            for number in 0..<4 {
                let other = try SecureConnection(port: port, protocol: "http/1.1")
                try other.send(
                    Array(
                        request(
                            "POST", "/v1/sessions", fields: Self.forwarded(Self.other) + ["Connection: close"],
                            body: "\(number)"
                        ).utf8))
                #expect(other.text().hasPrefix("HTTP/1.1 200"))
            }
            let frames = attacker.frames { $0.isData && $0.stream == 119 }
            return try #require(frames).count {
                $0.isData && String(decoding: $0.payload, as: UTF8.self).contains("429")
            }
        }
        #expect(refused >= 1)
        #expect(handler.arrivals == 4)
    }

    @Test("Clients whose address cannot be read share the limits of one address")
    func unreadable() async throws {
        try await LocalListener.run(try limits, respond: handler.respond) { [handler] port in
            let held = try (0..<11).map { _ in
                let connection = try RawConnection(port: port)
                // A proxy that adds one field and passes on a forged other one contradicts itself.
                connection.send(
                    request(
                        "PUT", "/v1/kv/a", fields: Self.forwarded(Self.attacker) + ["Forwarded: for=192.0.2.9"],
                        body: "x"))
                return connection
            }
            #expect(Self.statuses(of: held, count: 1) == [429])
            try #require(comesTrue { handler.arrivals == 10 })
            handler.open()
        }
    }

    @Test("Event streams are limited in total and per address")
    func streams() async throws {
        let feeds = Feeds()
        var limits = try limits
        (limits.streamCount, limits.addressStreamCount) = (6, 4)
        try await LocalListener.run(limits, respond: feeds.respond) { port in
            func open(_ address: String) throws -> (connection: RawConnection, status: Int) {
                let connection = try RawConnection(port: port)
                connection.send(request("GET", "/v1/changes", fields: Self.forwarded(address)))
                return (connection, connection.answer(hasBody: false)?.status ?? 0)
            }
            let first = try (0..<5).map { _ in try open(Self.attacker) }
            #expect(first.map(\.status) == [200, 200, 200, 200, 429])
            let second = try (0..<3).map { _ in try open(Self.other) }
            #expect(second.map(\.status) == [200, 200, 503])
            first[0].connection.reset()
            #expect(try comesTrue { try open(Self.attacker).status == 200 })
            withExtendedLifetime((first, second)) {}
        }
    }

    /// Answers with streams that stay open.
    private final class Feeds: Sendable {
        @Sendable func respond(_ request: ServiceRequest) async -> ServiceResponse {
            let (pieces, feed) = AsyncStream.makeStream(of: [UInt8].self)
            feed.yield(Array(": open\n\n".utf8))
            return ServiceResponse(
                HTTPResponse(status: .ok), body: .stream(pieces, end: { feed.finish() }), route: "/test")
        }
    }
}
