import CurlTransport
import HTTPTypes
import SyncProtocol
import Synchronization
import TestSupport
import Testing

@Suite("A client by libcurl for addresses that others choose")
struct CurlAddressTests {
    private func client(_ addresses: CurlClient.Configuration.Addresses) throws -> CurlClient {
        var configuration = CurlClient.Configuration()
        (configuration.addresses, configuration.ignoresRest, configuration.proxy) = (addresses, true, .none)
        return try CurlClient(configuration)
    }

    private static func bytes(_ text: String) -> [UInt8] {
        guard text.contains(":") else { return text.split(separator: ".").compactMap { UInt8($0) } }
        let halves = text.split(separator: "::", maxSplits: 1, omittingEmptySubsequences: false).map { half in
            half.split(separator: ":").flatMap { part in
                let number = UInt16(part, radix: 16) ?? 0
                return [UInt8(number >> 8), UInt8(number & 0xFF)]
            }
        }
        guard halves.count == 2 else { return halves[0] }
        return halves[0] + [UInt8](repeating: 0, count: 16 - halves[0].count - halves[1].count) + halves[1]
    }

    @Test("Addresses are public or not")
    func ranges() {
        let isPublic = [
            "1.1.1.1", "8.8.8.8", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "126.255.255.255",
            "128.0.0.0", "169.253.255.255", "172.15.255.255", "172.32.0.0", "192.167.255.255", "198.17.255.255",
            "198.20.0.0", "223.255.255.255", "2606:4700::1111", "2a00:1450::1", "::ffff:808:808", "64:ff9b::808:808",
            "2002:808:808::1",
        ]
        let isPrivate = [
            "0.0.0.0", "10.0.0.1", "100.64.0.1", "100.127.255.255", "127.0.0.1", "127.255.255.255", "169.254.169.254",
            "172.16.0.1", "172.31.255.255", "192.0.0.8", "192.0.2.1", "192.88.99.1", "192.168.1.1", "198.18.0.1",
            "198.19.255.255", "198.51.100.1", "203.0.113.1", "224.0.0.1", "240.0.0.1", "255.255.255.255", "::", "::1",
            "::7f00:1", "fe80::1", "fc00::1", "fd12::1", "ff02::1", "2001::1", "2001:db8::1", "3fff::1", "100::1",
            "::ffff:7f00:1", "::ffff:a9fe:a9fe", "64:ff9b::a00:1", "2002:7f00:1::1", "64:ff9b:1::1",
        ]
        for text in isPublic { #expect(IPAddress.isPublic(Self.bytes(text)), "\(text)") }
        for text in isPrivate { #expect(!IPAddress.isPublic(Self.bytes(text)), "\(text)") }
        #expect(!IPAddress.isPublic([]))
    }

    @Test("A private address is not connected to, also behind a name", arguments: ["127.0.0.1", "localhost", "0x7f.1"])
    func refused(host: String) async throws {
        let server = try RawServer.echo()
        let error = await expectError(.unreachable, mayHaveArrived: false) {
            try await client(.publicOnly).ask("\(host):\(server.port)", "POST", [1])
        }
        #expect(error?.message.hasSuffix(", which is not public") == true, "\(error?.message ?? "")")
        #expect(server.connectionCount == 0)
        let answer = try await client(.privateOnly).ask("\(host):\(server.port)", "GET", path: "/a")
        #expect(answer.body == Array("/a".utf8))
    }

    @Test("A body that is too long is cut off, and its connection ends")
    func gigabyte() async throws {
        let sent = Mutex(0)
        let (ends, end) = AsyncStream.makeStream(of: Void.self)
        let server = try RawServer { connection, _ in
            _ = connection.readRequest()
            connection.write("HTTP/1.1 200 OK\r\nContent-Length: 1073741824\r\n\r\n")
            let piece = [UInt8](repeating: 0x61, count: 65_536)
            while connection.write(piece) { sent.withLock { $0 += piece.count } }
            end.yield()
        }
        let answer = try await client(.any).ask(server, "POST", [1], maximumByteCount: 4_096)
        #expect(answer.response.status == 200 && answer.body.count <= 4_096)
        for await _ in ends { break }
        // Buffers of the system.
        #expect(sent.withLock { $0 } < 32 << 20)
    }

    @Test("An answer counts once its header is complete", .timeLimit(.minutes(5)))
    func partial() async throws {
        let server = try RawServer { connection, number in
            _ = connection.readRequest()
            connection.write("HTTP/1.1 204 No Content\r\nX: 1\r\n" + (number == 0 ? "" : "\r\n"))
        }
        let client = try client(.any)
        await expectError(.interrupted, mayHaveArrived: true) { try await client.ask(server, "POST", [1]) }
        #expect(try await client.ask(server, "POST", [1]).response.status == 204)
        let silent = try RawServer { connection, _ in
            _ = connection.readRequest()
            connection.write("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n12345")
            connection.ignore()
        }
        let start = ContinuousClock.now
        try await client.ask(RawServer.echo(), "GET")
        let answer = try await client.ask(silent, "POST", [1], timeout: Patience.timeout(scaledBy: start))
        #expect(answer.response.status == 200)
    }
}
