import EntitlementSync
import Entitlements
import SyncCore
import SyncCoreTesting
import Testing

@Suite("Snapshots", .timeLimit(.minutes(15)))
struct SnapshotTests {
    private let home: Household
    private let local = MemoryBackend()

    init() throws {
        home = try Household()
    }

    @Test("The first is what holds now, the next what holds after a change")
    func first() async throws {
        let store = try await home.offlineDevice(local)
        try await store.record(.reported(Owls.nightOwl))
        var snapshots = try await store.snapshots().makeAsyncIterator()
        #expect(await snapshots.next()?.owned == [Owls.nightOwl])
        try await store.record(.reported(Owls.couchOwl))
        #expect(await snapshots.next()?.owned == [Owls.couchOwl, Owls.nightOwl])
    }

    @Test("A slow reader misses old ones, never the latest")
    func slow() async throws {
        let store = try await home.offlineDevice(local)
        var snapshots = try await store.snapshots().makeAsyncIterator()
        for product in [Owls.nightOwl, Owls.couchOwl] { try await store.record(.reported(product)) }
        #expect(await snapshots.next()?.owned == [Owls.couchOwl, Owls.nightOwl])
    }

    @Test("A change of nothing that shows is not told")
    func invisible() async throws {
        let store = try await home.offlineDevice(local)
        try await store.record(.reported(Owls.nightOwl, transaction: "a"))
        var snapshots = try await store.snapshots().makeAsyncIterator()
        _ = await snapshots.next()
        try await store.record(.reported(Owls.nightOwl, transaction: "b"))
        try await store.record(.reported(Owls.randomOwls))
        #expect(await snapshots.next()?[balance: Owls.randomOwls] == 5)
    }

    @Test("Meeting an empty remote for the first time is a change: nothing needs restoring any more")
    func meeting() async throws {
        let store = try await home.device()
        var snapshots = try await store.snapshots().makeAsyncIterator()
        #expect(await snapshots.next()?[access: Owls.access] == .denied(.restoreNeeded))
        try await store.restore()
        #expect(await snapshots.next()?[access: Owls.access] == .denied(.notPurchased))
    }

    @Test("A state that was read before a purchase is not told after it")
    func noneOlder() async throws {
        let writer = Writer()
        let deviceKey = try EntryKey("device/accounts/alice/initial/ledger")
        let backend = FaultyBackend(local) { call in
            // The account's ledger has been read by now, and is out of date when this read is done.
            if call.operation == .read, call.key == deviceKey { await writer.write() }
            return nil
        }
        let store = try await home.offlineDevice(backend)
        var early = try await store.snapshots().makeAsyncIterator()
        #expect(await early.next()?.owned == [])
        writer.arm { try await store.record(.reported(Owls.nightOwl)) }
        var late = try await store.snapshots().makeAsyncIterator()
        #expect(await late.next()?.owned == [Owls.nightOwl])
        #expect(await early.next()?.owned == [Owls.nightOwl])
    }

    @Test("Of changes made at once the last snapshot has all, in each of 100 rounds, also for late subscribers")
    func noneMissed() async throws {
        let products = home.catalog.products.filter { $0.kind == .nonConsumable }.map(\.id)
        for _ in 0..<100 {
            let store = try await home.offlineDevice()
            let early = try await store.snapshots()
            let complete = try await withThrowingTaskGroup(of: Bool.self) { group in
                for product in products {
                    group.addTask {
                        try await store.record(.reported(product))
                        return true
                    }
                }
                for _ in 0..<3 {
                    group.addTask { await ends(with: products, try await store.snapshots()) }
                }
                group.addTask { await ends(with: products, early) }
                return try await group.reduce(0) { $0 + ($1 ? 1 : 0) }
            }
            #expect(complete == products.count + 4)
        }
    }
}

/// Whether a snapshot comes in which all of `products` are owned.
private func ends(with products: [ProductID], _ snapshots: AsyncStream<Snapshot>) async -> Bool {
    for await snapshot in snapshots where snapshot.owned == products { return true }
    return false
}
