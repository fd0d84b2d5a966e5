import EntitlementSync
import Entitlements
import SyncCore
import SyncCoreTesting
import Testing
import TestSupport

@Suite("Conflict rules, which each device may choose for itself")
struct RuleTests {
    private func catalog(
        expiry: any ExpiryRule = StackPurchases(), flags: any FlagRule = PurchasedWins(),
        consumables: ConsumableScope = .shared, without product: ProductID? = nil
    ) throws -> Catalog {
        let catalog = try Owls.catalog()
        return try Catalog(
            products: catalog.products.filter { $0.id != product },
            entitlements: catalog.entitlements.filter { $0.id != Owls.nightOwlAccess },
            policy: Policy(
                bonus: product == nil ? .zero : CalendarDuration(days: 1),
                rules: ConflictRules(expiry: expiry, flags: flags, consumables: consumables)))
    }

    @Test("Under remoteWins a purchase counts once the remote has it, and still counts after a restart")
    func remoteWins() async throws {
        var home = try Household(at: "2026-01-02T00:00:00Z")
        home.catalog = try catalog(expiry: RemoteWins(), flags: RemoteWins())
        let local = MemoryBackend()
        let phone = try await home.device(local)
        try await phone.record(.reported(Owls.threeMonths, transaction: "A", date: date("2026-01-01")))
        try await phone.flag(Owls.couchOwl)
        #expect(try await phone.end() == nil)
        #expect(try await phone.snapshot().owned.isEmpty)
        try await phone.sync()
        #expect(try await phone.end() == date("2026-04-01"))
        #expect(try await phone.snapshot().owned == [Owls.couchOwl])
        try await phone.record(.reported(Owls.threeMonths, transaction: "B"))
        let restarted = try await home.device(local)
        #expect(try await restarted.end() == date("2026-04-01"))
        let effects = try await restarted.replay().explanation(of: Owls.access, at: date("2026-01-02"))?
            .sections.flatMap(\.lines).map(\.effect)
        #expect(effects?.contains(.setAside(.overruled("remoteWins"))) == true)
        // No fact was lost: under another rule they all count immediately.
        home.catalog = try catalog()
        #expect(try await home.device(local).end() == date("2026-07-01"))
    }

    @Test("Without a remote, remoteWins counts every local purchase")
    func remoteWinsAlone() async throws {
        var home = try Household(at: "2026-01-02T00:00:00Z")
        home.catalog = try catalog(expiry: RemoteWins())
        let store = try await home.offlineDevice()
        try await store.record(.reported(Owls.threeMonths, date: date("2026-01-01")))
        #expect(try await store.end() == date("2026-04-01"))
    }

    @Test("Devices with different rules and catalogues converge on one ledger and then stop writing")
    func otherRules() async throws {
        var home = try Household(at: "2026-01-02T00:00:00Z")
        let remote = CountingBackend(home.remote)
        let catalogs = [
            try catalog(), try catalog(expiry: LatestExpiryWins(), flags: LastWriterWins(), without: Owls.nightOwl),
            try catalog(expiry: RemoteWins(), flags: RemoteWins(), consumables: .deviceLocal, without: Owls.sixMonths),
        ]
        var devices: [(store: EntitlementStore, local: CountingBackend)] = []
        for catalog in catalogs {
            let local = CountingBackend(MemoryBackend())
            home.catalog = catalog
            devices.append((try await home.device(local, remote: remote), local))
        }
        try await devices[0].store.record([.reported(Owls.nightOwl), .reported(Owls.sixMonths)])
        try await devices[1].store.record(.reported(Owls.threeMonths))
        try await devices[2].store.flag(Owls.couchOwl)
        try await devices[1].store.flag(Owls.couchOwl, isSet: true)
        for _ in 0..<2 { for device in devices { try await device.store.sync() } }
        _ = remote.takeCounts()
        for device in devices { _ = device.local.takeCounts() }
        for _ in 0..<3 { for device in devices { try await device.store.sync() } }
        #expect(remote.counts.writes == 0)
        #expect(devices.allSatisfy { $0.local.counts.writes == 0 })
        let ledgers = try await [
            devices[0].store.localLedgers().account, devices[1].store.localLedgers().account,
            devices[2].store.localLedgers().account,
        ]
        #expect(Set(ledgers).count == 1)
    }

    @Test("A contradictory transaction is logged once with the dropped version, and a dry run predicts it")
    func contradiction() async throws {
        let home = try Household(at: "2026-01-02T00:00:00Z")
        let phone = try await home.device()
        let tablet = try await home.device()
        try await phone.record(.reported(Owls.threeMonths, transaction: "A", date: date("2026-01-01")))
        try await tablet.record(.reported(Owls.sixMonths, transaction: "A", date: date("2026-01-01")))
        try await phone.sync()
        #expect(try await tablet.conflicts().isEmpty)
        let planned = try await tablet.syncDryRun()
        let report = try await tablet.sync()
        #expect(planned.conflicts.count == 1 && report.conflicts == planned.conflicts)
        guard case .contradiction(let note)? = report.conflicts.first else {
            Issue.record("\(report.conflicts)")
            return
        }
        #expect(Set([note.kept.product, note.dropped.product]) == [Owls.threeMonths, Owls.sixMonths])
        let known = try await tablet.replay().facts[TransactionReference(id: "A")]
        #expect(known?.product == note.kept.product)
        for _ in 0..<3 {
            try await tablet.sync()
            try await phone.sync()
        }
        #expect(try await tablet.conflicts() == report.conflicts)
        // The conflict log stays on the device.
        let third = try await home.device()
        try await third.restore()
        #expect(try await third.conflicts().isEmpty)
    }

    @Test("After a switch to shared units, a device spends its own device-local units first")
    func scopeSwitched() async throws {
        var home = try Household(at: "2026-01-02T00:00:00Z")
        let local = MemoryBackend()
        home.catalog = try catalog(consumables: .deviceLocal)
        try await home.device(local).record(.reported(Owls.randomOwls))
        home.catalog = try catalog(consumables: .shared)
        let phone = try await home.device(local)
        let tablet = try await home.device()
        try await tablet.record(.reported(Owls.randomOwls))
        try await tablet.sync()
        try await phone.sync()
        #expect(try await phone.snapshot()[balance: Owls.randomOwls] == 10)
        for _ in 0..<7 { _ = try await phone.use(Owls.access) }
        try await phone.sync()
        try await tablet.sync()
        #expect(try await phone.snapshot()[balance: Owls.randomOwls] == 3)
        #expect(try await tablet.snapshot()[balance: Owls.randomOwls] == 3)
    }

    @Test("An overspend by two offline devices is written off once and logged; the next purchase counts in full")
    func overspent() async throws {
        var home = try Household(at: "2026-01-02T00:00:00Z")
        home.catalog = try catalog(consumables: .shared)
        let phone = try await home.device()
        let tablet = try await home.device()
        try await phone.record(.reported(Owls.randomOwls))
        try await phone.sync()
        try await tablet.sync()
        for index in 0..<4 {
            _ = try await phone.use(Owls.access, id: SpendID("phone-\(index)"))
            _ = try await phone.use(Owls.access, id: SpendID("phone-\(index)"))
            _ = try await tablet.use(Owls.access)
        }
        for store in [phone, tablet, phone] { try await store.sync() }
        #expect(try await phone.snapshot()[balance: Owls.randomOwls] == 0)
        let writtenOff = try await phone.conflicts().map { conflict -> Int64 in
            if case .overspent(_, let units) = conflict { units } else { 0 }
        }
        #expect(writtenOff.reduce(0, +) == 3)
        try await tablet.record(.reported(Owls.randomOwls))
        try await tablet.sync()
        try await phone.sync()
        for store in [phone, tablet] { #expect(try await store.snapshot()[balance: Owls.randomOwls] == 5) }
    }
}
