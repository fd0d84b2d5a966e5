#if Observed
import InMemoryTracing
import Logging
import Metrics
import MetricsTestKit
import ObservedStorage
import SyncCore
import SyncCoreTesting
import Synchronization
import TestSupport
import Testing
import Tracing

/// A log handler that records all lines.
private final class RecordingLogHandler: LogHandler, @unchecked Sendable {
    private let lines = Mutex<[String]>([])
    var metadata: Logger.Metadata = [:]
    var logLevel: Logger.Level = .trace

    var all: [String] { lines.withLock { $0 } }

    func log(event: LogEvent) {
        let metadata = (event.metadata ?? [:]).map { "\($0.key)=\($0.value)" }.sorted().joined(separator: " ")
        lines.withLock { $0.append("\(event.level) \(event.message) \(metadata)") }
    }

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }
}

/// The metrics system can be bootstrapped only once per process, so all tests share these metrics.
private let metrics = {
    let metrics = TestMetrics()
    MetricsSystem.bootstrap(metrics)
    return metrics
}()

@Suite("An observed store", .serialized)
struct ObservedBackendTests {
    private let place: EntryKey

    init() throws { place = try EntryKey("accounts/alice/ledger") }

    @Test("passes the conformance checks")
    func conformance() async {
        _ = metrics
        await expectConformance(of: "observed memory") { ObservedBackend(MemoryBackend(), as: "memory") }
    }

    @Test("counts and times each request by its outcome")
    func counts() async throws {
        let metrics = metrics
        let store = ObservedBackend(MemoryBackend(), as: "counted")
        _ = try await store.read(place)
        _ = try await store.write([1, 2, 3], to: place, if: .absent)
        _ = try await store.write([4], to: place, if: .absent)
        _ = try await store.read(place)
        _ = try await store.write([
            WriteRequest(try EntryKey("b"), value: [1, 2], if: .any),
            WriteRequest(place, value: nil, if: .absent),
        ])
        for (operation, outcome) in [
            ("read", "absent"), ("write", "written"), ("write", "conflict"), ("read", "found"),
            ("writeBatch", "answered"),
        ] {
            let timer = try metrics.expectTimer(
                "entitlementsync_storage_request_duration",
                [("store", "counted"), ("operation", operation), ("outcome", outcome)])
            #expect(timer.values.count == 1)
            #expect(timer.values.allSatisfy { $0 > 0 && $0 < 60_000_000_000 })
        }
        for outcome in ["written", "conflict"] {
            let counter = try metrics.expectCounter(
                "entitlementsync_storage_items",
                [("store", "counted"), ("operation", "writeBatch"), ("outcome", outcome)])
            #expect(counter.totalValue == 1)
        }
        let bytes = try ["read", "written"].map { direction in
            try metrics.expectCounter(
                "entitlementsync_storage_bytes", [("store", "counted"), ("direction", direction)]
            ).totalValue
        }
        // Read: 3 bytes by the read and by each of the two conflicts. Written: 3 and 2 bytes.
        #expect(bytes == [9, 5])
    }

    @Test("logs failed requests, with the key only if `showsKeys` is set", arguments: [false, true])
    func logs(showsKeys: Bool) async throws {
        _ = metrics
        let handler = RecordingLogHandler()
        let failing = FaultyBackend(MemoryBackend()) { call in
            switch call.operation {
            case .read: .permanent(.damaged)
            case .list: .transient
            default: nil
            }
        }
        let store = ObservedBackend(
            failing, as: "failing", logger: Logger(label: "test") { _ in handler }, showsKeys: showsKeys)
        await #expect(throws: BackendError.self) { try await store.read(place) }
        await #expect(throws: BackendError.self) { try await store.list(prefix: "", after: nil, limit: 1) }
        _ = try await store.write([1], to: place, if: .any)
        let all = handler.all
        #expect(all.count == 3)
        #expect(all[0].hasPrefix("error storage request failed: ") && all[0].contains("kind=damaged"))
        #expect(all[1].hasPrefix("notice storage request failed: "))
        #expect(all[2].hasPrefix("trace storage request") && all[2].contains("outcome=written"))
        #expect(all.contains { $0.contains("alice") } == showsKeys)
    }

    @Test("creates a span for each request, as a child of the caller's span")
    func traces() async throws {
        _ = metrics
        let tracer = InMemoryTracer()
        let failing = FaultyBackend(MemoryBackend()) { $0.operation == .delete ? .permanent(.full) : nil }
        let store = ObservedBackend(failing, as: "traced")
        let place = place
        try await withTracer(tracer) {
            try await withSpan("buy") { _ in
                _ = try await store.write([1], to: place, if: .absent)
                await #expect(throws: BackendError.self) { try await store.delete(place, if: .any) }
            }
        }
        let spans = tracer.finishedSpans
        #expect(spans.map(\.operationName) == ["storage.write", "storage.delete", "buy"])
        #expect(spans[0].parentSpanID == spans[2].spanID && spans[1].parentSpanID == spans[2].spanID)
        #expect(spans[1].status?.code == .error && spans[1].errors.count == 1)
        #expect(spans[0].status == nil && spans[0].errors.isEmpty)
        #expect(spans.allSatisfy { $0.attributes.get("storage.key") == nil })
    }
}
#endif
