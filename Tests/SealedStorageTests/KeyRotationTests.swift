#if Sealed
import SealedStorage
import SyncCore
import SyncCoreTesting
import Synchronization
import Testing

/// A key store that several processes ask.
private final class KeyStore: Sendable {
    private let state: Mutex<(keys: SealingKeys, isAway: Bool)>

    init(_ keys: SealingKeys) { state = Mutex((keys, false)) }

    struct Away: Error {}

    func answer() throws -> SealingKeys {
        try state.withLock { state in
            if state.isAway { throw Away() }
            return state.keys
        }
    }

    func move(to keys: SealingKeys) { state.withLock { $0.keys = keys } }

    func goAway() { state.withLock { $0.isAway = true } }
}

@Suite("Changing the key of a sealed store")
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

    /// What another process would open: it asks the key store by itself, and remembers what it heard.
    private func process(over store: (any KeyValueBackend)? = nil) -> SealedBackend {
        let keyStore = keyStore
        return SealedBackend(store ?? self.store) { try keyStore.answer() }
    }

    private func move() { keyStore.move(to: SealingKeys(new, previous: [old])) }

    /// How many values the new key alone opens.
    private func openedByNew() async throws -> Int {
        let blind = SealedBackend(store, keys: SealingKeys(new))
        var count = 0
        for item in try await store.list(prefix: "", after: nil, limit: 1_000).outcome.items {
            do throws(BackendError) {
                if case .found(let entry) = try await blind.read(item.key).outcome,
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

    @Test("a process that has known the old key for long seals everything with the new one")
    func cached() async throws {
        let long = process()
        _ = try await long.read(places[0])
        move()
        #expect(try await long.reseal() == 40)
        #expect(try await openedByNew() == 40)
        #expect(try await long.reseal() == 0)
        // And writes with it from then on.
        let place = try EntryKey("k/later")
        _ = try await long.write(Array(place.text.utf8), to: place, if: .absent)
        #expect(try await openedByNew() == 41)
    }

    @Test("what another process seals with the old key behind the cursor is found by the next pass")
    func behindTheCursor() async throws {
        let late = process()
        _ = try await late.read(places[0])
        move()
        let behind = try (0..<3).map { try EntryKey("a/\($0)") }
        let counting = FaultyBackend(store) { call in
            // In the first pass, long after the beginning was listed; in the second; never again.
            let index = [30: 0, 60: 1, 90: 2][call.number]
            guard let index else { return nil }
            let key = behind[index]
            let answer = try? await late.write(Array(key.text.utf8), to: key, if: .absent)
            #expect(answer != nil)
            return nil
        }
        #expect(try await process(over: counting).reseal() == 43)
        #expect(try await openedByNew() == 43)
    }

    @Test("a writer that goes on with the old key for ever is named, and what was done stays")
    func endless() async throws {
        let late = process()
        _ = try await late.read(places[0])
        move()
        let number = Mutex(0)
        let hampered = FaultyBackend(store) { call in
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
        let error = await #expect(throws: BackendError.self) { try await process(over: hampered).reseal() }
        #expect(error?.kind == .busy && error?.message.contains("let all writers load the new one first") == true)
        #expect(try await openedByNew() == 60)
        // Once the writer knows the new key, it is done.
        try await late.reloadKeys()
        #expect(try await process(over: hampered).reseal() == 0)
        #expect(try await openedByNew() == 61)
    }

    @Test("a reseal that is cut off is called again and does the rest", arguments: [3, 20, 47, 79])
    func cutOff(call: Int) async throws {
        move()
        let failing = FaultyBackend(store) { $0.number == call ? .lostAnswer : nil }
        let second = process(over: failing)
        await #expect(throws: BackendError.self) { try await second.reseal() }
        let done = try await openedByNew()
        #expect(done < 40)
        #expect(try await second.reseal() == 40 - done)
        #expect(try await openedByNew() == 40)
    }

    @Test("a writer that has loaded the keys again seals with the new one; without, it goes on with the old")
    func reloading() async throws {
        let (careful, careless) = (process(), process())
        for writer in [careful, careless] { _ = try await writer.read(places[0]) }
        move()
        try await careful.reloadKeys()
        for (name, writer) in [("careful", careful), ("careless", careless)] {
            let place = try EntryKey(name)
            _ = try await writer.write(Array(name.utf8), to: place, if: .absent)
        }
        #expect(try await openedByNew() == 1)
    }

    @Test("keys that cannot be had end both with the cause, and the known ones stay in use")
    func away() async throws {
        let long = process()
        _ = try await long.read(places[0])
        keyStore.goAway()
        let reloading = await #expect(throws: BackendError.self) { try await long.reloadKeys() }
        let resealing = await #expect(throws: BackendError.self) { try await long.reseal() }
        for error in [reloading, resealing] { #expect(error?.kind == .unavailable && error?.cause is KeyStore.Away) }
        guard case .found = try await long.read(places[1]).outcome else {
            Issue.record("the known key is forgotten")
            return
        }
    }
}
#endif
