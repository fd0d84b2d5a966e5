import EntitlementSync
import Entitlements
import SyncCore
import SyncCoreTesting
import TestSupport
import Testing

@Suite("Restoring on a new device")
struct RestoreTests {
    /// A household whose phone bought one product of each kind, synced, and was lost.
    private func lostPhone(consumables: ConsumableScope = .deviceLocal) async throws -> Household {
        let home = try Household(catalog: try Owls.catalog(consumables: consumables))
        let phone = try await home.device()
        try await phone.record([
            .reported(Owls.threeMonths, transaction: "time", date: date("2026-01-09")),
            .reported(Owls.nightOwl, transaction: "owl", date: date("2026-01-08")),
            .reported(Owls.randomOwls, transaction: "units", date: date("2026-01-07")),
        ])
        try await phone.sync()
        return home
    }

    @Test("Restoring or syncing overwrites nothing on the remote")
    func overwritesNothing() async throws {
        let home = try await lostPhone()
        let before = try await contents(of: home.remote)
        let remote = CountingBackend(home.remote)
        let tablet = try await home.device(remote: remote)
        try await tablet.restore()
        try await tablet.sync()
        #expect(try await contents(of: home.remote) == before)
        #expect(remote.counts.writes == 0)
        #expect(remote.counts.reads == 2)
    }

    @Test("A restore brings back subscriptions and unlocks, and reports the received purchases by date")
    func restores() async throws {
        let home = try await lostPhone()
        let tablet = try await home.device()
        #expect(try await tablet.access(to: Owls.access) == .denied(.restoreNeeded))
        let report = try await tablet.restore()
        #expect(report.purchases.map(\.transaction.id) == ["owl", "time"])
        #expect(report.snapshot.owned == [Owls.nightOwl])
        #expect(report.snapshot[group: Owls.random]?.expires == (try date("2026-04-09")))
        #expect(try await tablet.access(to: Owls.nightOwlAccess).isGranted)
        #expect(report.sync.didSend == false)
        #expect(report.sync.accessChanges.map(\.entitlement).contains(Owls.access))
        let again = try await tablet.restore()
        #expect(again.purchases.isEmpty && again.snapshot.owned == [Owls.nightOwl])
    }

    @Test("Under deviceLocal, units stay on the device that bought them")
    func deviceLocalUnits() async throws {
        let home = try await lostPhone()
        let report = try await home.device().restore()
        #expect(report.snapshot[balance: Owls.randomOwls] == 0)
        #expect(!report.purchases.map(\.product).contains(Owls.randomOwls))
    }

    @Test("Under shared, a restore brings back the units that were not spent")
    func sharedUnits() async throws {
        let home = try await lostPhone(consumables: .shared)
        let tablet = try await home.device()
        let report = try await tablet.restore()
        #expect(report.snapshot[balance: Owls.randomOwls] == 5)
        try home.machine.set("2027-01-01T00:00:00Z")
        #expect(try await tablet.use(Owls.access, id: "first") == .spent(remaining: 4, of: Owls.randomOwls))
        try await tablet.sync()
        let laptop = try await home.device()
        #expect(try await laptop.restore().snapshot[balance: Owls.randomOwls] == 4)
    }

    @Test("Restoring an account without purchases ends the need to restore, also in later processes")
    func nothingToRestore() async throws {
        let home = try Household()
        let local = MemoryBackend()
        let phone = try await home.device(local)
        let report = try await phone.restore()
        #expect(report.purchases.isEmpty)
        #expect(report.snapshot[access: Owls.access] == .denied(.notPurchased))
        #expect(report.sync.accessChanges.map(\.before).allSatisfy { $0 == .denied(.restoreNeeded) })
        #expect(try await home.device(local).access(to: Owls.access) == .denied(.notPurchased))
    }

    @Test("A restore from a read-only remote still brings in its purchases")
    func readOnlyRemote() async throws {
        let home = try await lostPhone()
        let readOnly = FaultyBackend(home.remote) { $0.operation == .write ? .permanent(.permissionDenied) : nil }
        let tablet = try await home.device(remote: readOnly)
        try await tablet.record(.reported(Owls.couchOwl, transaction: "couch"))
        for _ in 0..<2 {
            let error = await #expect(throws: EntitlementError.self) { try await tablet.restore() }
            #expect(error?.kind == .sync)
            #expect(error?.isTransient == false)
        }
        #expect(try await tablet.snapshot().owned == [Owls.couchOwl, Owls.nightOwl])
    }
}
