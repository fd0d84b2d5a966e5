import EntitlementSync
import EntitlementSyncStoreKit
import Entitlements
import SyncCore
import SyncCoreTesting
import TestSupport
import Testing

@Suite("Approval, restoring and log-in with StoreKit")
struct StoreKitRequestTests {
    private let household: Household
    private let local = MemoryBackend()

    init() throws { household = try Household() }

    private func feed(_ source: FakeStoreKit, _ store: EntitlementStore) -> StoreKitFeed {
        StoreKitFeed(store, source: source, host: household.machine.host)
    }

    private func owl(_ id: UInt64) throws -> StoreKitTransaction {
        StoreKitTransaction(
            id: id, product: Owls.nightOwl, productType: .nonConsumable, purchaseDate: try date("2026-01-10"),
            signedDate: try date("2026-01-10T12:00:00Z"), jws: "header.\(id).signature")
    }

    @Test("A purchase that awaits approval is pending, and bought once it is approved on another device")
    func approved() async throws {
        let store = try await household.offlineDevice(local)
        let source = FakeStoreKit()
        let feed = feed(source, store)
        try await feed.take(.pending, of: Owls.nightOwl)
        #expect(try await store.snapshot().pending == [Owls.nightOwl])
        #expect(try await store.access(to: Owls.nightOwlAccess) == .denied(.pendingApproval))
        source.deliver([try owl(1)])
        await feed.run()
        #expect(try await store.access(to: Owls.nightOwlAccess).isGranted)
        #expect(try await store.snapshot().pending.isEmpty)
        #expect(source.finished == [1])
    }

    @Test("A request that was declined on another device ends a day later; a cancelled purchase leaves it pending")
    func declined() async throws {
        let store = try await household.offlineDevice(local)
        let feed = feed(FakeStoreKit(), store)
        try await feed.take(.pending, of: Owls.nightOwl)
        try household.machine.set("2026-01-11T11:00:00Z")
        await feed.run()
        #expect(try await store.snapshot().pending == [Owls.nightOwl])
        try household.machine.set("2026-01-11T13:00:00Z")
        await feed.run()
        #expect(try await store.snapshot().pending.isEmpty)
        try await feed.take(.pending, of: Owls.nightOwl)
        let before = try await contents(of: local)
        #expect(try await feed.take(.cancelled, of: Owls.nightOwl).isEmpty)
        #expect(try await store.snapshot().pending == [Owls.nightOwl])
        #expect(try await contents(of: local) == before)
    }

    @Test("A restore records the history and syncs; without a server it records the history only")
    func restore() async throws {
        let source = FakeStoreKit([try owl(1)])
        let alone = try await household.offlineDevice()
        #expect(try await feed(source, alone).restore() == nil)
        #expect(try await alone.access(to: Owls.nightOwlAccess).isGranted)
        let tablet = try await household.device()
        let report = try #require(try await feed(source, tablet).restore())
        #expect(report.sync.didSend)
        #expect(try await tablet.access(to: Owls.nightOwlAccess).isGranted)
        source.failToRefresh()
        let phone = try await household.offlineDevice()
        await #expect(throws: FakeStoreKit.RefreshCancelled.self) { try await feed(source, phone).restore() }
        #expect(try await !phone.access(to: Owls.nightOwlAccess).isGranted)
    }

    @Test("A restore records and sends everything but the one transaction that is not valid, and reports that one")
    func restoreWithInvalid() async throws {
        var wrong = try owl(1)
        wrong.quantity = 0
        let source = FakeStoreKit([wrong, try owl(2)])
        let tablet = try await household.device()
        #expect(await kind { try await feed(source, tablet).restore() } == .invalid)
        let phone = try await household.device()
        #expect(try await phone.restore().purchases.map(\.transaction.id) == ["2"])
    }

    @Test("What was bought before a log-in with adoption and what arrives after it belong to the account, once")
    func logIn() async throws {
        try await AccountDirectory(backend: household.remote).adopt(household.alice)
        let store = try await household.store(local, remote: household.remote)
        let source = FakeStoreKit([try owl(1)])
        let feed = feed(source, store)
        await feed.run()
        try await store.logIn("alice", adoptAnonymous: true)
        source.deliver([
            try owl(1),
            StoreKitTransaction(
                id: 2, product: Owls.threeMonths, productType: .nonRenewing, purchaseDate: try date("2026-01-10"),
                signedDate: try date("2026-01-10T12:00:00Z"), jws: "header.2.signature"),
        ])
        await feed.run()
        try await store.sync()
        let tablet = try await household.device()
        try await tablet.restore()
        #expect(try await tablet.access(to: Owls.nightOwlAccess).isGranted)
        #expect(try await tablet.end() == date("2026-04-10"))
    }

    @Test("A purchase that this device holds for another account, or for none, stays there until the user restores")
    func purchasesOfOthers() async throws {
        let remote = household.remote
        let bob = try Account("bob")
        for account in [household.alice, bob] { try await AccountDirectory(backend: remote).adopt(account) }
        let source = FakeStoreKit([try owl(1)])
        let store = try await household.anonymousDevice(local, remote: remote)
        let feed = feed(source, store)
        await feed.run()
        // Bob leaves what was bought on the device, and the app runs again.
        try await store.logIn("bob")
        await feed.run()
        source.deliver([try owl(1)])
        await feed.run()
        #expect(try await store.facts().purchases.isEmpty)
        #expect(source.finished.contains(1))
        // A refund is recorded where the purchase is.
        var refunded = try owl(1)
        refunded.revocationDate = try date("2026-01-10T11:00:00Z")
        refunded.signedDate = try date("2026-01-10T13:00:00Z")
        source.deliver([refunded])
        await feed.run()
        let anonymous = try await household.anonymousDevice(local, remote: remote)
        #expect(try await anonymous.facts().revocations.count == 1)
        refunded.revocationDate = nil
        refunded.signedDate = try date("2026-01-10T14:00:00Z")
        source.set(refunded)
        // Alice adopts it. After her log-out it belongs to her still.
        try await store.logOut()
        try await store.logIn("alice", adoptAnonymous: true)
        #expect(try await store.facts().purchases.map(\.transaction.id) == ["1"])
        try await store.logOut()
        await feed.run()
        try await store.logIn("bob", adoptAnonymous: true)
        await feed.run()
        #expect(try await store.facts().purchases.isEmpty)
        try await feed.restore()
        #expect(try await store.facts().purchases.map(\.transaction.id) == ["1"])
    }

    @Test("The states of StoreKit 1: only what is durable, and what has failed, is to be finished")
    func paymentQueue() async throws {
        let store = try await household.offlineDevice(local)
        let date = try date("2026-01-10")
        #expect(try await !store.record(QueuedPayment(.purchasing, of: Owls.nightOwl)))
        #expect(try await !store.record(QueuedPayment(.deferred, of: Owls.nightOwl)))
        #expect(try await store.snapshot().pending == [Owls.nightOwl])
        #expect(try await store.record(QueuedPayment(.failed, of: Owls.nightOwl)))
        #expect(try await store.snapshot().pending.isEmpty)
        #expect(
            try await store.record(QueuedPayment(.purchased, of: Owls.threeMonths, transaction: "1", date: date)))
        // A restored transaction has an ID of its own and names the original.
        #expect(
            try await store.record(
                QueuedPayment(.restored, of: Owls.threeMonths, transaction: "9", original: "1", date: date)))
        #expect(try await store.end() == (try EntitlementSyncTests.date("2026-04-10")))
        let error = await #expect(throws: EntitlementError.self) {
            _ = try await store.record(QueuedPayment(.purchased, of: Owls.threeMonths, date: date))
        }
        #expect(error?.kind == .invalid)
    }
}
