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

/// Keeps what is logged.
private final class Lines: LogHandler, @unchecked Sendable {
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

/// Metrics and tracing are bootstrapped once a process: all tests here share what they count.
private let metrics = {
    let metrics = TestMetrics()
    MetricsSystem.bootstrap(metrics)
    return metrics
}()

@Suite("An observed store", .serialized)
struct ObservedBackendTests {
    private let place: EntryKey

    init() throws { place = try EntryKey("accounts/alice/ledger") }

    @Test("keeps the contract")
    func conformance() async {
        _ = metrics
        await expectConformance(of: "observed memory") { ObservedBackend(MemoryBackend(), as: "memory") }
    }

    @Test("counts and times each request by what became of it")
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
        // Read: both conflicts and the entry itself. Written: 3 and 2.
        #expect(bytes == [9, 5])
    }

    @Test("logs what fails, with the key only where that is asked for", arguments: [false, true])
    func logs(showsKeys: Bool) async throws {
        _ = metrics
        let lines = Lines()
        let failing = FaultyBackend(MemoryBackend()) { call in
            switch call.operation {
            case .read: .permanent(.damaged)
            case .list: .transient
            default: nil
            }
        }
        let store = ObservedBackend(
            failing, as: "failing", logger: Logger(label: "test") { _ in lines }, showsKeys: showsKeys)
        await #expect(throws: BackendError.self) { try await store.read(place) }
        await #expect(throws: BackendError.self) { try await store.list(prefix: "", after: nil, limit: 1) }
        _ = try await store.write([1], to: place, if: .any)
        let all = lines.all
        #expect(all.count == 3)
        #expect(all[0].hasPrefix("error storage request failed: ") && all[0].contains("kind=damaged"))
        #expect(all[1].hasPrefix("notice storage request failed: "))
        #expect(all[2].hasPrefix("trace storage request") && all[2].contains("outcome=written"))
        #expect(all.contains { $0.contains("alice") } == showsKeys)
    }

    @Test("makes a span of each request, which is a child of the caller's")
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
