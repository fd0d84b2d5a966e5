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

    @Test("The stream starts with the current snapshot and delivers a new one after a change")
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

    @Test("A change that does not affect the snapshot is not delivered")
    func invisible() async throws {
        let store = try await home.offlineDevice(local)
        try await store.record(.reported(Owls.nightOwl, transaction: "a"))
        var snapshots = try await store.snapshots().makeAsyncIterator()
        _ = await snapshots.next()
        try await store.record(.reported(Owls.nightOwl, transaction: "b"))
        try await store.record(.reported(Owls.randomOwls))
        #expect(await snapshots.next()?[balance: Owls.randomOwls] == 5)
    }

    @Test("Restoring from an empty remote delivers a snapshot that no longer asks to restore")
    func firstContact() async throws {
        let store = try await home.device()
        var snapshots = try await store.snapshots().makeAsyncIterator()
        #expect(await snapshots.next()?[access: Owls.access] == .denied(.restoreNeeded))
        try await store.restore()
        #expect(await snapshots.next()?[access: Owls.access] == .denied(.notPurchased))
    }

    @Test("A snapshot that a purchase makes outdated while it is read is not delivered")
    func outdated() async throws {
        let action = OneTimeAction()
        let deviceKey = try EntryKey("device/accounts/alice/initial/ledger")
        // The account's ledger is read before the device's, so a purchase at this point outdates it.
        let store = try await home.offlineDevice(action.duringRead(of: deviceKey, in: local))
        var early = try await store.snapshots().makeAsyncIterator()
        #expect(await early.next()?.owned == [])
        action.arm { try await store.record(.reported(Owls.nightOwl)) }
        var late = try await store.snapshots().makeAsyncIterator()
        #expect(await late.next()?.owned == [Owls.nightOwl])
        #expect(await early.next()?.owned == [Owls.nightOwl])
    }

    @Test("After concurrent changes, every subscriber, early or late, receives a snapshot with all of them")
    func noneMissed() async throws {
        let products = home.catalog.products.filter { $0.kind == .nonConsumable }.map(\.id)
        for _ in 0..<100 {
            let store = try await home.offlineDevice()
            let early = try await store.snapshots()
            let finishedCount = try await withThrowingTaskGroup(of: Bool.self) { group in
                for product in products {
                    group.addTask {
                        try await store.record(.reported(product))
                        return true
                    }
                }
                for _ in 0..<3 {
                    group.addTask { await (try await store.snapshots()).owns(products) }
                }
                group.addTask { await early.owns(products) }
                return try await group.reduce(0) { $0 + ($1 ? 1 : 0) }
            }
            #expect(finishedCount == products.count + 4)
        }
    }
}
