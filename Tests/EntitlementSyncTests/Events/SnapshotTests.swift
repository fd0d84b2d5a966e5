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

    @Test("The first snapshot is the current state, the next one the state after a change")
    func first() async throws {
        let store = try await home.offlineDevice(local)
        try await store.record(.reported(Owls.nightOwl))
        var snapshots = try await store.snapshots().makeAsyncIterator()
        #expect(await snapshots.next()?.owned == [Owls.nightOwl])
        try await store.record(.reported(Owls.couchOwl))
        #expect(await snapshots.next()?.owned == [Owls.couchOwl, Owls.nightOwl])
    }

    @Test("A slow reader may miss old snapshots but never the latest")
    func slow() async throws {
        let store = try await home.offlineDevice(local)
        var snapshots = try await store.snapshots().makeAsyncIterator()
        for product in [Owls.nightOwl, Owls.couchOwl] { try await store.record(.reported(product)) }
        #expect(await snapshots.next()?.owned == [Owls.couchOwl, Owls.nightOwl])
    }

    @Test("A change that leaves the snapshot the same is not delivered")
    func invisible() async throws {
        let store = try await home.offlineDevice(local)
        try await store.record(.reported(Owls.nightOwl, transaction: "a"))
        var snapshots = try await store.snapshots().makeAsyncIterator()
        _ = await snapshots.next()
        try await store.record(.reported(Owls.nightOwl, transaction: "b"))
        try await store.record(.reported(Owls.randomOwls))
        #expect(await snapshots.next()?[balance: Owls.randomOwls] == 5)
    }

    @Test("The first contact with an empty remote yields a snapshot that no longer asks for a restore")
    func firstContact() async throws {
        let store = try await home.device()
        var snapshots = try await store.snapshots().makeAsyncIterator()
        #expect(await snapshots.next()?[access: Owls.access] == .denied(.restoreNeeded))
        try await store.restore()
        #expect(await snapshots.next()?[access: Owls.access] == .denied(.notPurchased))
    }

    @Test("A state that was read before a purchase is not delivered after it")
    func noneOlder() async throws {
        let action = OneTimeAction()
        let deviceKey = try EntryKey("device/accounts/alice/initial/ledger")
        let backend = FaultyBackend(local) { call in
            // By this read the account's ledger has been read already; the purchase makes that copy outdated.
            if call.operation == .read, call.key == deviceKey { await action.run() }
            return nil
        }
        let store = try await home.offlineDevice(backend)
        var early = try await store.snapshots().makeAsyncIterator()
        #expect(await early.next()?.owned == [])
        action.arm { try await store.record(.reported(Owls.nightOwl)) }
        var late = try await store.snapshots().makeAsyncIterator()
        #expect(await late.next()?.owned == [Owls.nightOwl])
        #expect(await early.next()?.owned == [Owls.nightOwl])
    }

    @Test("After concurrent changes the last snapshot contains all of them, also for late subscribers")
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

/// Waits for a snapshot that owns all of `products`; `false` if the stream ends first.
private func ends(with products: [ProductID], _ snapshots: AsyncStream<Snapshot>) async -> Bool {
    for await snapshot in snapshots where snapshot.owned == products { return true }
    return false
}
