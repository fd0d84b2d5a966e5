import EntitlementSync
import Entitlements
import SyncCore
import SyncCoreTesting
import Testing

@Suite("A remote without compare-and-swap")
struct UnconditionalRemoteTests {
    private let home: Household

    init() throws {
        home = try Household()
    }

    @Test("Two devices exchange purchases through one remote entry per device, and idle syncs write nothing")
    func exchange() async throws {
        let remote = CountingBackend(UnconditionalBackend(home.remote))
        let locals = [CountingBackend(MemoryBackend()), CountingBackend(MemoryBackend())]
        let phone = try await home.device(locals[0], remote: remote)
        let tablet = try await home.device(locals[1], remote: remote)
        try await phone.record(.reported(Owls.nightOwl, transaction: "night"))
        try await tablet.record(.reported(Owls.couchOwl, transaction: "couch"))
        #expect(try await phone.sync().didSend)
        let report = try await tablet.restore()
        #expect(report.purchases.map(\.transaction.id) == ["night"])
        #expect(report.sync.didSend && report.sync.unreadable.isEmpty)
        #expect(try await phone.sync().received.count == 2)
        let keys = try await home.remote.list(prefix: "", after: nil, limit: 9).outcome.items.map(\.key.text)
        #expect(keys.count == 2)
        for key in keys { #expect(key.wholeMatch(of: /accounts\/alice\/initial\/ledger\/[0-9a-f]{32}/) != nil) }
        for backend in locals + [remote] { _ = backend.takeCounts() }
        for store in [phone, tablet] { try await store.sync() }
        #expect(remote.takeCounts().description == "2 lists")
        #expect(locals.map { $0.takeCounts().writes } == [0, 0])
    }

    @Test("A dry run on a new device creates no replica id and writes nothing")
    func dryRun() async throws {
        let local = CountingBackend(MemoryBackend())
        let store = try await home.device(local, remote: UnconditionalBackend(home.remote))
        #expect(try await !store.syncDryRun().didSend)
        #expect(local.takeCounts().writes == 0)
    }

    @Test("While another device's entry is unreadable, a new device still has to restore")
    func unreadable() async throws {
        let remote = UnconditionalBackend(home.remote)
        let phone = try await home.device(remote: remote)
        try await phone.record(.reported(Owls.nightOwl))
        try await phone.sync()
        let item = try #require(try await home.remote.list(prefix: "", after: nil, limit: 1).outcome.items.first)
        guard case .found(let entry) = try await home.remote.read(item.key).outcome else {
            Issue.record("the remote has no entry \(item.key)")
            return
        }
        _ = try await home.remote.write(Array(entry.value.prefix(50)), to: item.key, if: .any)
        let tablet = try await home.device(remote: remote)
        let report = try await tablet.restore()
        #expect(report.sync.unreadable.map(\.key) == [item.key])
        #expect(try await tablet.access(to: Owls.nightOwlAccess) == .denied(.restoreNeeded))
        _ = try await home.remote.write(entry.value, to: item.key, if: .any)
        #expect(try await tablet.restore().purchases.count == 1)
        #expect(try await tablet.access(to: Owls.access) == .denied(.notPurchased))
    }

    @Test("A successful read of a read-only remote counts as contact: access is denied as not purchased")
    func metByReading() async throws {
        for remote in [home.remote, UnconditionalBackend(home.remote)] as [any KeyValueBackend] {
            let readOnly = FaultyBackend(remote) { $0.operation == .write ? .permanent(.permissionDenied) : nil }
            let phone = try await home.device(remote: readOnly)
            try await phone.record(.reported(Owls.nightOwl))
            #expect(try await phone.access(to: Owls.access) == .denied(.restoreNeeded))
            await #expect(throws: EntitlementError.self) { try await phone.sync() }
            #expect(try await phone.access(to: Owls.access) == .denied(.notPurchased))
        }
    }

    @Test("A purchase made on this device during a restore is not reported as received")
    func boughtMeanwhile() async throws {
        let tablet = try await home.device()
        try await tablet.record(.reported(Owls.couchOwl, transaction: "couch"))
        try await tablet.sync()
        let local = MemoryBackend()
        let other = try await home.offlineDevice(local)
        let action = OneTimeAction()
        let phone = try await home.device(local, remote: action.duringRead(in: home.remote))
        action.arm { _ = try await other.record(.reported(Owls.nightOwl, transaction: "night")) }
        let report = try await phone.restore()
        #expect(report.purchases.map(\.transaction.id) == ["couch"])
        #expect(report.snapshot.owned == [Owls.couchOwl, Owls.nightOwl])
    }
}
