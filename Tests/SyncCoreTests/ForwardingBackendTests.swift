import SyncCore
import SyncCoreTesting
import Synchronization
import Testing

@Suite("A wrapper that forwards")
struct ForwardingBackendTests {
    private let base = RecordedBase()

    @Test("passes every call and its answer on")
    func forwarding() async throws {
        let key = try EntryKey("a/k")
        let plain = Plain(base: base)
        #expect(plain.capabilities == base.capabilities && plain.label == "recorded:")
        let writing = try await plain.write([1], to: key, if: .absent)
        guard case .written(let version) = writing.outcome else {
            Issue.record("\(writing)")
            return
        }
        #expect(writing.serverTime == 7)
        let reading = try await plain.read(key)
        #expect(reading.outcome == .found(Entry(value: [1], version: version)))
        #expect(reading.serverTime == 7 && reading.relatedVersion == RecordedBase.related)
        #expect(try await plain.read(key, unless: version).outcome == .unchanged)
        #expect(try await plain.list(prefix: "a/", after: nil, limit: 3).outcome.items.map(\.key) == [key])
        #expect(try await plain.changes(since: nil, prefix: "a/", limit: 4).outcome.changes.count == 1)
        #expect(try await plain.latestCursor().outcome?.sequence == 1)
        #expect(try await plain.delete(key, if: .matches(version)).outcome == .deleted)
        #expect(
            base.takeCalls() == [
                "write a/k absent", "read a/k", "read a/k unless", "list a/ 3", "changes a/ 4",
                "latest cursor", "delete a/k",
            ])
    }

    @Test("passes errors on unchanged")
    func errors() async throws {
        let plain = Plain(base: FaultyBackend(MemoryBackend(), plan: .scripted([.permanent(.full)])))
        let error = await #expect(throws: BackendError.self) { try await plain.read(EntryKey("k")) }
        #expect(error?.kind == .full)
    }

    @Test("divides batches into its own single calls, which it may have changed")
    func batches() async throws {
        let (a, b) = (try EntryKey("a"), try EntryKey("b"))
        let doubling = Doubling(base: base)
        let answer = try await doubling.write([
            WriteRequest(a, value: [1], if: .absent), WriteRequest(b, value: [2], if: .absent),
            WriteRequest(a, value: nil, if: .any),
        ])
        #expect(answer.outcome.count == 3 && answer.serverTime == 7)
        let found = try await doubling.read([ReadRequest(a), ReadRequest(b)]).outcome.map { try $0.get() }
        #expect(found.first == .absent)
        guard case .found(let entry) = found.last else {
            Issue.record("\(found)")
            return
        }
        #expect(entry.value == [2, 2])
        #expect(base.takeCalls() == ["write a absent", "write b absent", "delete a", "read a", "read b"])
    }

    @Test("sends the signals of its base")
    func signals() async throws {
        var signals = Plain(base: base).signals().makeAsyncIterator()
        _ = try await base.write([1], to: EntryKey("k"), if: .any)
        #expect(await signals.next() != nil)
    }

    @Test("is its own form for a store that must exist, so that it is not bypassed")
    func existing() {
        #expect(Plain(base: base).requiringExisting is Plain)
    }

    @Test("reads synchronously if it says so and its base can")
    func synchronousReads() async throws {
        let key = try EntryKey("k")
        let memory = MemoryBackend()
        guard case .written(let version) = try await memory.write([1], to: key, if: .any).outcome else { return }
        let plain = Plain(base: memory)
        #expect(plain.readSynchronously(key, unless: nil) == .found(Entry(value: [1], version: version)))
        #expect(plain.readSynchronously(key, unless: version) == .unchanged)
        #expect(Plain(base: base).readSynchronously(key, unless: nil) == nil)
        #expect((Doubling(base: memory) as any KeyValueBackend) is any SynchronousReading == false)
    }

    @Test("passes the conformance checks of its base")
    func conformance() async {
        let report = await Conformance.run(seed: 1) { () async throws -> StoreUnderTest in
            let memory = MemoryBackend()
            return StoreUnderTest(Plain(base: memory), reopen: { Plain(base: memory) })
        }
        #expect(report.failures.isEmpty, "\(report)")
    }
}

/// A wrapper that changes nothing.
private struct Plain: ForwardingBackend, SynchronousReading {
    let base: any KeyValueBackend
}

/// A wrapper that writes every value twice.
private struct Doubling: ForwardingBackend {
    let base: any KeyValueBackend

    func write(_ value: [UInt8], to key: EntryKey, if precondition: Precondition) async throws(BackendError)
        -> Answer<WriteOutcome>
    {
        try await base.write(value + value, to: key, if: precondition)
    }
}

/// A backend that records its calls, and answers with a time and a related version.
private final class RecordedBase: KeyValueBackend {
    static let related = EntryVersion(bytes: [9])
    private let memory = MemoryBackend()
    private let calls = Mutex<[String]>([])

    let label = "recorded:"
    var capabilities: Capabilities { memory.capabilities }

    func takeCalls() -> [String] {
        calls.withLock { calls in
            defer { calls = [] }
            return calls
        }
    }

    private func record(_ call: String) { calls.withLock { $0.append(call) } }

    func read(_ key: EntryKey, unless knownVersion: EntryVersion?) async throws(BackendError) -> Answer<ReadOutcome> {
        record("read \(key)\(knownVersion == nil ? "" : " unless")")
        let outcome = try await memory.read(key, unless: knownVersion).outcome
        return Answer(outcome, serverTime: 7, relatedVersion: Self.related)
    }

    func write(_ value: [UInt8], to key: EntryKey, if precondition: Precondition) async throws(BackendError)
        -> Answer<WriteOutcome>
    {
        record("write \(key)\(precondition == .absent ? " absent" : "")")
        return Answer(try await memory.write(value, to: key, if: precondition).outcome, serverTime: 7)
    }

    func delete(_ key: EntryKey, if precondition: Precondition) async throws(BackendError) -> Answer<WriteOutcome> {
        record("delete \(key)")
        return try await memory.delete(key, if: precondition)
    }

    func list(prefix: String, after cursor: EntryKey?, limit: Int) async throws(BackendError) -> Answer<KeyPage> {
        record("list \(prefix) \(limit)")
        return try await memory.list(prefix: prefix, after: cursor, limit: limit)
    }

    func changes(since cursor: ChangeCursor?, prefix: String, limit: Int) async throws(BackendError)
        -> Answer<ChangePage>
    {
        record("changes \(prefix) \(limit)")
        return try await memory.changes(since: cursor, prefix: prefix, limit: limit)
    }

    func latestCursor() async throws(BackendError) -> Answer<ChangeCursor?> {
        record("latest cursor")
        return try await memory.latestCursor()
    }

    func signals() -> AsyncStream<Void> { memory.signals() }
}
