import SyncCore
import SyncCoreTesting
import Testing

@Suite("The remote form of a wrapper")
struct WrapperTests {
    /// A store that is another one as a remote.
    private struct TwoFaced: KeyValueBackend {
        let own = MemoryBackend()
        let remote = MemoryBackend()

        var capabilities: Capabilities { own.capabilities }
        var label: String { own.label }
        var requiringExisting: any KeyValueBackend { remote }

        func read(_ key: EntryKey, unless known: EntryVersion?) async throws(BackendError) -> Answer<ReadOutcome> {
            try await own.read(key, unless: known)
        }

        func write(_ value: [UInt8], to key: EntryKey, if precondition: Precondition) async throws(BackendError)
            -> Answer<WriteOutcome>
        {
            try await own.write(value, to: key, if: precondition)
        }

        func delete(_ key: EntryKey, if precondition: Precondition) async throws(BackendError)
            -> Answer<WriteOutcome>
        {
            try await own.delete(key, if: precondition)
        }

        func list(prefix: String, after cursor: EntryKey?, limit: Int) async throws(BackendError) -> Answer<KeyPage> {
            try await own.list(prefix: prefix, after: cursor, limit: limit)
        }
    }

    @Test("of a counting store is the wrapped store's, counted together with it")
    func counting() async throws {
        let wrapped = TwoFaced()
        let backend = CountingBackend(wrapped)
        let key = try EntryKey("k")
        _ = try await backend.requiringExisting.write([1, 2], to: key, if: .any)
        #expect(try await backend.read(key).outcome == .absent)
        guard case .found = try await backend.requiringExisting.read(key).outcome else {
            Issue.record("it was written elsewhere")
            return
        }
        #expect(backend.counts.description == "2 reads, 1 writes" && backend.fetchedByteCount == 2)
    }

    @Test("of a faulty store is the wrapped store's, and fails by the same plan")
    func faulty() async throws {
        let wrapped = TwoFaced()
        let backend = FaultyBackend(wrapped, plan: .scripted([nil, .transient, nil]))
        let key = try EntryKey("k")
        _ = try await backend.requiringExisting.write([1], to: key, if: .any)
        await #expect(throws: BackendError.self) { try await backend.requiringExisting.read(key) }
        #expect(try await backend.read(key).outcome == .absent)
        #expect(backend.callCount == 3)
        guard case .found = try await wrapped.remote.read(key).outcome else {
            Issue.record("it was written elsewhere")
            return
        }
    }
}
