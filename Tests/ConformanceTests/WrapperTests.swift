import SyncCore
import SyncCoreTesting
import Testing

@Suite("The `requiringExisting` form of a wrapper")
struct WrapperTests {
    /// A store with a different store as its `requiringExisting` form.
    private struct SeparateRemoteBackend: ForwardingBackend {
        let base: any KeyValueBackend = MemoryBackend()
        let remote = MemoryBackend()

        var requiringExisting: any KeyValueBackend { remote }
    }

    @Test("of a counting store wraps that of the wrapped store, with shared counters")
    func counting() async throws {
        let wrapped = SeparateRemoteBackend()
        let backend = CountingBackend(wrapped)
        let key = try EntryKey("k")
        _ = try await backend.requiringExisting.write([1, 2], to: key, if: .any)
        #expect(try await backend.read(key).outcome == .absent)
        guard case .found = try await backend.requiringExisting.read(key).outcome else {
            Issue.record("the write went to another store")
            return
        }
        #expect(backend.counts.description == "2 reads, 1 writes" && backend.fetchedByteCount == 2)
    }

    @Test("of a faulty store wraps that of the wrapped store, with the same plan")
    func faulty() async throws {
        let wrapped = SeparateRemoteBackend()
        let backend = FaultyBackend(wrapped, plan: .scripted([nil, .transient, nil]))
        let key = try EntryKey("k")
        _ = try await backend.requiringExisting.write([1], to: key, if: .any)
        await #expect(throws: BackendError.self) { try await backend.requiringExisting.read(key) }
        #expect(try await backend.read(key).outcome == .absent)
        #expect(backend.callCount == 3)
        guard case .found = try await wrapped.remote.read(key).outcome else {
            Issue.record("the write went to another store")
            return
        }
    }
}
