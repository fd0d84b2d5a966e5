import CurlTransport
import Foundation
import HTTPStorage
import SyncCore
import SyncCoreTesting
import Synchronization
import TestSupport
import Testing

@Suite("A live server", .serialized)
struct LiveConformanceTests {
    @Test(
        "A live server passes the conformance checks over libcurl, with HTTP/1.1 and with HTTP/2 over TLS",
        arguments: ["memory:", "file", "sqlite"], [false, true])
    func conformance(store: String, isSecure: Bool) async throws {
        let (used, other) = isSecure ? ("HTTP/2", "HTTP/1.1") : ("HTTP/1.1", "HTTP/2")
        let servers = Mutex<[LiveServer]>([])
        let report = await expectConformance(of: "\(store) over \(used)", seed: printedSeed("LiveConformanceTests")) {
            let server = try LiveServer(store: store, isSecure: isSecure)
            let backend = try server.backend()
            servers.withLock { $0.append(server) }
            return backend
        }
        // Print the server log of each failed check.
        for failure in report.failures {
            let server = servers.withLock { $0.first { failure.reason.contains($0.server.url) } }
            print("log of the server of \(failure.check):\n\(server?.server.log.suffix(4_000) ?? "unknown")")
        }
        let logs = servers.withLock { $0.map(\.server.log) }
        #expect(
            logs.contains { $0.contains("protocol=\(used)") } && !logs.contains { $0.contains("protocol=\(other)") })
    }

    @Test("A client that does not trust the certificate does not connect")
    func stranger() async throws {
        let server = try LiveServer(store: "memory:", isSecure: true)
        let stranger = try HTTPBackend(server: server.server.url, transport: try CurlClient())
        await expectKind(.permissionDenied) { try await stranger.read(try EntryKey("k1")) }
    }
}
