#if Sealed
import SealedStorage
import SyncCore
import SyncCoreTesting
import Synchronization
import Testing

/// A key store that several processes share.
private final class KeyStore: Sendable {
    private let state: Mutex<(keys: SealingKeys, isUnavailable: Bool)>

    init(_ keys: SealingKeys) { state = Mutex((keys, false)) }

    struct Unavailable: Error {}

    func load() throws -> SealingKeys {
        try state.withLock { state in
            if state.isUnavailable { throw Unavailable() }
            return state.keys
        }
    }

    func rotate(to keys: SealingKeys) { state.withLock { $0.keys = keys } }

    func becomeUnavailable() { state.withLock { $0.isUnavailable = true } }
}

@Suite("Key rotation of a sealed store")
struct KeyRotationTests {
    private let store = MemoryBackend()
    private let keyStore: KeyStore
    private let old: SealingKey
    private let new: SealingKey
    private let places: [EntryKey]

    init() async throws {
        old = try SealingKey(bytes: Array(1...32))
        new = try SealingKey(bytes: Array(2...33))
        keyStore = KeyStore(SealingKeys(old))
        places = try (100..<140).map { try EntryKey("k/\($0)") }
        let first = process()
        for place in places { _ = try await first.write(Array(place.text.utf8), to: place, if: .absent) }
    }

    /// Returns a backend as another process would open it: it loads the keys from the key store and caches them.
    private func process(over store: (any KeyValueBackend)? = nil) -> SealedBackend {
        let keyStore = keyStore
        return SealedBackend(store ?? self.store) { try keyStore.load() }
    }

    private func rotate() { keyStore.rotate(to: SealingKeys(new, previous: [old])) }

    /// Returns the number of values that the new key alone decrypts.
    private func newKeyCount() async throws -> Int {
        let newKeyOnly = SealedBackend(store, keys: SealingKeys(new))
        var count = 0
        for item in try await store.list(prefix: "", after: nil, limit: 1_000).outcome.items {
            do throws(BackendError) {
                if case .found(let entry) = try await newKeyOnly.read(item.key).outcome,
                    entry.value == Array(item.key.text.utf8)
                {
                    count += 1
                }
            } catch {
                #expect(error.kind == .permissionDenied)
            }
        }
        return count
    }

    @Test("A process that cached the old key reseals every value with the new one")
    func cached() async throws {
        let process = process()
        _ = try await process.read(places[0])
        rotate()
        #expect(try await process.reseal() == 40)
        #expect(try await newKeyCount() == 40)
        #expect(try await process.reseal() == 0)
        // Later writes use the new key too.
        let place = try EntryKey("k/later")
        _ = try await process.write(Array(place.text.utf8), to: place, if: .absent)
        #expect(try await newKeyCount() == 41)
    }

    @Test("A value that is sealed with the old key behind the cursor is found by the next pass")
    func behindTheCursor() async throws {
        let late = process()
        _ = try await late.read(places[0])
        rotate()
        let behind = try (0..<3).map { try EntryKey("a/\($0)") }
        let counting = FaultyBackend(store) { call in
            // Each of these calls comes after the pass has listed the beginning of the store.
            let index = [30: 0, 60: 1, 90: 2][call.number]
            guard let index else { return nil }
            let key = behind[index]
            let answer = try? await late.write(Array(key.text.utf8), to: key, if: .absent)
            #expect(answer != nil)
            return nil
        }
        #expect(try await process(over: counting).reseal() == 43)
        #expect(try await newKeyCount() == 43)
    }

    @Test("A writer that keeps using the old key is reported, and resealed values stay resealed")
    func endless() async throws {
        let late = process()
        _ = try await late.read(places[0])
        rotate()
        let number = Mutex(0)
        let disturbed = FaultyBackend(store) { call in
            guard call.operation == .list else { return nil }
            let next = number.withLock { number in
                number += 1
                return number
            }
            do {
                let key = try EntryKey("a/\(next)")
                _ = try await late.write(Array(key.text.utf8), to: key, if: .absent)
            } catch {
                Issue.record(error)
            }
            return nil
        }
        let error = await #expect(throws: BackendError.self) { try await process(over: disturbed).reseal() }
        #expect(error?.kind == .busy && error?.message.contains("load the new key in all writers first") == true)
        #expect(try await newKeyCount() == 60)
        // Resealing completes once the writer has loaded the new key.
        try await late.reloadKeys()
        #expect(try await process(over: disturbed).reseal() == 0)
        #expect(try await newKeyCount() == 61)
    }

    @Test("An interrupted reseal does the rest when it is called again", arguments: [3, 20, 47, 79])
    func interrupted(call: Int) async throws {
        rotate()
        let failing = FaultyBackend(store) { $0.number == call ? .lostAnswer : nil }
        let second = process(over: failing)
        await #expect(throws: BackendError.self) { try await second.reseal() }
        let done = try await newKeyCount()
        #expect(done < 40)
        #expect(try await second.reseal() == 40 - done)
        #expect(try await newKeyCount() == 40)
    }

    @Test("A writer uses the new key after reloading the keys, and the old one without")
    func reloading() async throws {
        let (reloaded, stale) = (process(), process())
        for writer in [reloaded, stale] { _ = try await writer.read(places[0]) }
        rotate()
        try await reloaded.reloadKeys()
        for (name, writer) in [("reloaded", reloaded), ("stale", stale)] {
            let place = try EntryKey(name)
            _ = try await writer.write(Array(name.utf8), to: place, if: .absent)
        }
        #expect(try await newKeyCount() == 1)
    }

    @Test("If the keys cannot be loaded, both calls fail with the cause, and cached keys stay in use")
    func unavailableKeys() async throws {
        let process = process()
        _ = try await process.read(places[0])
        keyStore.becomeUnavailable()
        let reloading = await #expect(throws: BackendError.self) { try await process.reloadKeys() }
        let resealing = await #expect(throws: BackendError.self) { try await process.reseal() }
        for error in [reloading, resealing] {
            #expect(error?.kind == .unavailable && error?.cause is KeyStore.Unavailable)
        }
        guard case .found = try await process.read(places[1]).outcome else {
            Issue.record("the cached key was dropped")
            return
        }
    }
}
#endif
