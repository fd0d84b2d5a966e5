import SyncCore
import SyncCoreTesting
import TestSupport
import Testing

@Suite("The memory store")
struct MemoryBackendTests {
    @Test("draws versions and tags from its host, so a seeded run is reproducible")
    func seeded() async throws {
        let key = try EntryKey("k")
        var versions: [WriteOutcome] = []
        for _ in 0..<2 {
            let backend: MemoryBackend = .memory(host: ManualHost(seed: 5).host)
            versions.append(try await backend.write([1], to: key, if: .absent).outcome)
        }
        #expect(versions[0] == versions[1])
    }

    @Test("has a unique label, which a seeded run reproduces")
    func labels() {
        let labels = (0..<100).map { _ in MemoryBackend().label }
        #expect(Set(labels).count == 100)
        #expect(labels.allSatisfy { $0.wholeMatch(of: /memory:[0-9a-f]{16}/) != nil })
        #expect(
            MemoryBackend(host: ManualHost(seed: 5).host).label == MemoryBackend(host: ManualHost(seed: 5).host).label)
    }

    @Test("keeps one signal for a subscriber that is not waiting yet, for any number of changes")
    func coalescing() async throws {
        let backend = MemoryBackend()
        let stream = backend.signals()
        for number in 0..<10 { _ = try await backend.write([UInt8(number)], to: EntryKey("k"), if: .any) }
        var iterator = stream.makeAsyncIterator()
        #expect(await iterator.next() != nil)
    }

    @Test("sends no signal for a conflict, and its streams end with the store")
    func silence() async throws {
        var backend: MemoryBackend? = MemoryBackend()
        let stream = backend?.signals()
        _ = try await backend?.write([1], to: EntryKey("k"), if: .matches(EntryVersion(bytes: [1])))
        _ = try await backend?.delete(EntryKey("k"), if: .any)
        backend = nil
        var signalCount = 0
        for await _ in try #require(stream) { signalCount += 1 }
        #expect(signalCount == 0)
    }

    @Test("removes a subscriber that stopped listening")
    func unsubscribing() {
        let hub = SignalHub()
        do {
            let stream = hub.subscribe()
            #expect(hub.subscriberCount == 1)
            withExtendedLifetime(stream) {}
        }
        #expect(hub.subscriberCount == 0)
    }
}

@Suite("The change log")
struct ChangeLogTests {
    @Test("is bounded by its keys and recognized cursors, for any number of writes")
    func bounded() throws {
        var log = ChangeLog(recognizedCount: 50)
        let keys = try (0..<10).map { try EntryKey("\($0)") }
        for number in 0..<100_000 { log.append(keys[number % 10], tag: UInt64(number)) }
        #expect(log.count <= 2 * (10 + 50))
        let page = try log.page(since: nil, prefix: "", limit: 100) { _ in nil }
        #expect(page.changes.map(\.key) == keys)
        #expect(page.cursor == ChangeCursor(sequence: 100_000, tag: 99_999))
    }

    @Test("recognizes the newest cursors and rejects older ones as expired")
    func recognition() throws {
        var log = ChangeLog(recognizedCount: 50)
        let key = try EntryKey("k")
        for number in 1...1_000 { log.append(key, tag: UInt64(number)) }
        for number in 951...1_000 {
            let page = try log.page(
                since: ChangeCursor(sequence: UInt64(number), tag: UInt64(number)), prefix: "", limit: 1
            ) { _ in
                nil
            }
            #expect(page.changes.count == (number == 1_000 ? 0 : 1))
        }
        let error = #expect(throws: BackendError.self) {
            try log.page(since: ChangeCursor(sequence: 1, tag: 1), prefix: "", limit: 1) { _ in nil }
        }
        #expect(error?.kind == .cursorExpired)
    }
}
