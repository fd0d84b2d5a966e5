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

    @Test("Values, conflicts, batches and signals work over HTTP/2 and TLS with libcurl")
    func secure() async throws {
        let server = try LiveServer(store: "sqlite", isSecure: true)
        let backend = try server.backend()
        var signals = backend.signals().makeAsyncIterator()
        _ = await signals.next()
        for number in 0..<50 as Range<UInt8> {
            let (key, value) = (try EntryKey("k\(number)"), [UInt8](repeating: number, count: 40_000))
            guard case .written(let version) = try await backend.write(value, to: key, if: .absent).outcome else {
                Issue.record("\(key) must be written")
                continue
            }
            let entry = Entry(value: value, version: version)
            #expect(try await backend.read(key).outcome == .found(entry))
            #expect(try await backend.write([], to: key, if: .absent).outcome == .conflict(entry))
        }
        _ = await signals.next()
        let keys = try (0..<50).map { ReadRequest(try EntryKey("k\($0)")) }
        let answers = try await backend.read(keys).outcome
        #expect(answers.count == 50)
        for answer in answers {
            guard case .found = try answer.get() else {
                Issue.record("\(answer)")
                continue
            }
        }
        // A client that does not trust the certificate must not connect.
        let stranger = try HTTPBackend(server: server.server.url, transport: try CurlClient())
        await expectKind(.permissionDenied) { try await stranger.read(try EntryKey("k1")) }
    }

    @Test("A write signals its watchers without delay")
    func latency() async throws {
        let server = try LiveServer(store: "sqlite")
        let (writer, watcher) = (try server.backend(), try server.backend())
        var signals = watcher.signals().makeAsyncIterator()
        // The first signal means that the stream is open.
        _ = await signals.next()
        var pauses: [Duration] = []
        for round in 0..<200 {
            let begun = ContinuousClock.now
            _ = try await writer.write([1], to: EntryKey("accounts/alice/initial/note\(round)"), if: .absent)
            _ = await signals.next()
            pauses.append(ContinuousClock.now - begun)
        }
        pauses.sort()
        print("from the start of the write to the signal: median \(pauses[100]), 99th percentile \(pauses[198])")
    }
}
