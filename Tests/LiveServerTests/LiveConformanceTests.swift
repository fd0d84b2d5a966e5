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
        "passes the conformance checks over libcurl", arguments: ["memory:", "file", "sqlite"], [false, true])
    func conformance(store: String, isSecure: Bool) async throws {
        // One for all checks: each of them uses keys of its own.
        let servers = Mutex<[LiveServer]>([])
        await expectConformance(
            of: "\(store) over \(isSecure ? "TLS and HTTP/2" : "HTTP/1.1")", seed: printedSeed("LiveConformanceTests")
        ) {
            let server = try LiveServer(store: store, isSecure: isSecure)
            let backend = try server.backend()
            servers.withLock { $0.append(server) }
            return backend
        }
    }

    @Test("tells a watcher of a write at once")
    func latency() async throws {
        let server = try LiveServer(store: "sqlite")
        let (writer, watcher) = (try server.backend(), try server.backend())
        var signals = watcher.signals().makeAsyncIterator()
        // The first says that the line stands.
        _ = await signals.next()
        var pauses: [Duration] = []
        for round in 0..<200 {
            let begun = ContinuousClock.now
            _ = try await writer.write([1], to: EntryKey("accounts/alice/initial/note\(round)"), if: .absent)
            _ = await signals.next()
            pauses.append(ContinuousClock.now - begun)
        }
        pauses.sort()
        print("from the write's beginning to the signal: median \(pauses[100]), 99th percentile \(pauses[198])")
    }
}
