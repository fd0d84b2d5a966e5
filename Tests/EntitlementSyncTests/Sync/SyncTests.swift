import EntitlementSync
import Entitlements
import SyncCore
import SyncCoreTesting
import Testing

@Suite("Sync")
struct SyncTests {
    private let home: Household
    private let local = MemoryBackend()

    init() throws {
        home = try Household()
    }

    @Test("Without a remote, sync and restore throw `noRemote`")
    func noRemote() async throws {
        let store = try await home.offlineDevice()
        for call in [{ _ = try await store.sync() }, { _ = try await store.restore() }] as [() async throws -> Void] {
            #expect(await #expect(throws: EntitlementError.self) { try await call() }?.kind == .noRemote)
        }
    }

    @Test("The anonymous ledger is not synced, and the remote receives no request")
    func anonymous() async throws {
        let remote = CountingBackend(home.remote)
        let store = try await home.anonymousDevice(local, remote: remote)
        try await store.record(.reported(Owls.nightOwl))
        #expect(await #expect(throws: EntitlementError.self) { try await store.sync() }?.kind == .signInNeeded)
        #expect(remote.counts.total == 0)
        #expect(try await store.access(to: Owls.nightOwlAccess).isGranted)
    }

    @Test("A failed sync leaves the local facts unchanged, and the remote receives them once it recovers")
    func remoteFails() async throws {
        let isDown = Switch()
        isDown.set()
        let remote = FaultyBackend(home.remote) { _ in isDown.isSet ? .transient : nil }
        let store = try await home.device(local, remote: remote)
        try await store.record(.reported(Owls.threeMonths, transaction: "t"))
        let before = try await contents(of: local)
        let error = await #expect(throws: EntitlementError.self) { try await store.sync() }
        #expect(error?.kind == .sync)
        #expect(error?.isTransient == true)
        #expect(error?.syncError?.side == .remote)
        #expect(try await contents(of: local) == before)
        isDown.set(false)
        #expect(try await store.sync().didSend)
        #expect(try await home.device().restore().purchases.map(\.transaction.id) == ["t"])
    }

    @Test("A damaged remote document is an error and changes neither the remote nor this device")
    func damagedRemote() async throws {
        let key = try EntryKey("accounts/alice/initial/ledger")
        _ = try await home.remote.write(Array("ESLG and nonsense".utf8), to: key, if: .absent)
        let store = try await home.device(local)
        try await store.record(.reported(Owls.nightOwl))
        let before = (try await contents(of: local), try await contents(of: home.remote))
        let error = await #expect(throws: EntitlementError.self) { try await store.sync() }
        #expect(error?.kind == .sync)
        #expect(error?.isTransient == false)
        #expect(error?.message.hasPrefix("remote store: ") == true)
        #expect(try await contents(of: local) == before.0)
        #expect(try await contents(of: home.remote) == before.1)
    }

    @Test("A sync whose write succeeds but whose response is lost reports that it sent the facts")
    func lostResponse() async throws {
        let writes = Counter()
        let remote = FaultyBackend(home.remote) { call in
            call.operation == .write && writes.next() == 0 ? .lostAnswer : nil
        }
        let store = try await home.device(remote: remote)
        try await store.record(.reported(Owls.nightOwl))
        let report = try await store.sync()
        #expect(report.didSend)
        #expect(report.collisions == 0)
        #expect(try await !store.sync().didSend)
    }

    @Test("The report lists received facts and access changes, and states whether anything was sent")
    func report() async throws {
        let phone = try await home.device()
        let tablet = try await home.device()
        try await tablet.sync()
        try await phone.record(.reported(Owls.nightOwl, transaction: "owl"))
        #expect(try await phone.sync().didSend)
        let report = try await tablet.sync()
        #expect(report.received.count == 2)
        #expect(!report.didSend)
        #expect(report.accessChanges.map(\.entitlement) == [Owls.nightOwlAccess])
        #expect(report.accessChanges.map(\.before) == [.denied(.notPurchased)])
        #expect(report.accessChanges.first?.after.isGranted == true)
    }

    @Test("A dry run predicts the result of a sync and writes on neither side")
    func dryRun() async throws {
        let phone = try await home.device()
        try await phone.record(.reported(Owls.nightOwl, transaction: "owl"))
        try await phone.sync()
        let tablet = try await home.device(local)
        try await tablet.record(.reported(Owls.couchOwl, transaction: "couch"))
        let before = (try await contents(of: local), try await contents(of: home.remote))
        let predicted = try await tablet.syncDryRun()
        #expect(try await contents(of: local) == before.0)
        #expect(try await contents(of: home.remote) == before.1)
        #expect(try await tablet.access(to: Owls.nightOwlAccess) == .denied(.restoreNeeded))

        let actual = try await tablet.sync()
        #expect(predicted.received == actual.received)
        #expect(predicted.didSend == actual.didSend)
        #expect(predicted.accessChanges == actual.accessChanges)
        #expect(actual.accessChanges.contains { $0.entitlement == Owls.nightOwlAccess && $0.after.isGranted })
    }
}
