import SyncCore
import SyncCoreTesting
import TestSupport
import Testing

@Suite("Updating an entry")
struct UpdateTests {
    private let memory = MemoryBackend()
    private let key: EntryKey

    init() throws { key = try EntryKey("counter") }

    private func store(_ faults: FaultyBackend.Fault?...) -> FaultyBackend {
        FaultyBackend(memory, plan: .scripted(faults))
    }

    /// Adds one to the first byte.
    private static func raise(_ entry: Entry?) -> [UInt8] { [(entry?.value.first ?? 0) + 1] }

    @Test("reads once and writes once if no other writer interferes")
    func undisturbed() async throws {
        let store = store()
        let created = try await store.update(key) { entry throws(BackendError) in Self.raise(entry) }
        #expect(created?.value == [1])
        #expect(store.callCount == 2)
        let raised = try await store.update(key) { entry throws(BackendError) in Self.raise(entry) }
        #expect(try await memory.read(key).outcome == raised.map { .found($0) })
        #expect(raised?.value == [2])
    }

    @Test("leaves the entry as it is, and returns it")
    func unchanged() async throws {
        let store = store()
        #expect(try await store.update(key) { _ throws(BackendError) in nil } == nil)
        guard case .written(let version) = try await memory.write([7], to: key, if: .absent).outcome else {
            Issue.record("the entry was not created")
            return
        }
        let entry = try await store.update(key) { _ throws(BackendError) in nil }
        #expect(entry == Entry(value: [7], version: version))
        #expect(store.callCount == 2)
    }

    @Test("continues from the entry of another writer without reading it again")
    func conflict() async throws {
        let store = store()
        var seen: [UInt8?] = []
        let entry = try await store.update(key) { entry async throws(BackendError) in
            seen.append(entry?.value.first)
            if seen.count == 1 { _ = try await memory.write([40], to: key, if: .absent) }
            return Self.raise(entry)
        }
        #expect(entry?.value == [41])
        #expect(seen == [nil, 40])
        #expect(store.callCount == 3)
    }

    @Test("settles a write of unknown outcome", arguments: [true, false])
    func unknownOutcome(isApplied: Bool) async throws {
        let store = store(nil, isApplied ? .lostAnswer : .lostRequest)
        let entry = try await store.update(key) { entry throws(BackendError) in Self.raise(entry) }
        #expect(entry?.value == [1], "raised once")
        // A visible value is written again until a write is acknowledged.
        #expect(store.callCount == 4)
        #expect(try await memory.read(key).outcome == entry.map { .found($0) })
    }

    @Test("reports an unknown outcome after the last attempt, and a known one otherwise")
    func exhausted() async throws {
        let lost = await #expect(throws: BackendError.self) {
            try await store(nil, .lostRequest, nil, .lostRequest, nil, .lostRequest).update(key) {
                entry throws(BackendError) in Self.raise(entry)
            }
        }
        #expect(lost?.kind == .unavailable)
        #expect(lost?.disposition == .outcomeUnknown)
        let overtaken = await #expect(throws: BackendError.self) {
            try await store().update(key) { entry async throws(BackendError) in
                _ = try await memory.write([UInt8.random(in: 0...9)], to: key, if: .any)
                return Self.raise(entry)
            }
        }
        #expect(overtaken?.kind == .busy)
        #expect(overtaken?.disposition == .transient)
    }

    @Test("deletes an entry for which the condition holds, also after an unknown outcome")
    func remove() async throws {
        _ = try await memory.write([1], to: key, if: .absent)
        try await memory.remove(key) { entry throws(BackendError) in entry.value == [2] }
        #expect(try await memory.read(key).outcome != .absent)
        for fault in [FaultyBackend.Fault?.none, .lostAnswer, .lostRequest] {
            _ = try await memory.write([1], to: key, if: .any)
            try await store(nil, fault).remove(key) { entry throws(BackendError) in entry.value == [1] }
            #expect(try await memory.read(key).outcome == .absent)
        }
    }

    @Test("asks again before it deletes what another writer has written")
    func removeChanged() async throws {
        _ = try await memory.write([1], to: key, if: .absent)
        var seen: [[UInt8]] = []
        try await memory.remove(key) { entry async throws(BackendError) in
            seen.append(entry.value)
            if seen.count == 1 { _ = try await memory.write([2], to: key, if: .any) }
            return entry.value == [1]
        }
        #expect(seen == [[1], [2]])
        #expect(try await memory.read(key).outcome != .absent)
    }

    @Test("throws an error of the store without calling it absence")
    func failedRead() async throws {
        let error = await #expect(throws: BackendError.self) {
            try await store(.permanent(.damaged)).update(key) { _ throws(BackendError) in [1] }
        }
        #expect(error?.kind == .damaged)
        #expect(try await memory.read(key).outcome == .absent)
    }
}
