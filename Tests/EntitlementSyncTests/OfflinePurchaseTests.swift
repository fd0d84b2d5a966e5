import EntitlementSync
import Entitlements
import SyncCore
import TestSupport
import Testing

@Suite("Purchases on several devices")
struct OfflinePurchaseTests {
    private func endsAfterBothBuyOffline(under rule: any ExpiryRule) async throws -> [Timestamp?] {
        let home = try Household(catalog: try Owls.catalog(expiry: rule))
        let phone = try await home.device()
        let tablet = try await home.device()
        try await phone.record(.reported(Owls.threeMonths, transaction: "phone"))
        try await tablet.record(.reported(Owls.threeMonths, transaction: "tablet"))
        try await phone.sync()
        try await tablet.sync()
        try await phone.sync()
        return [try await phone.end(), try await tablet.end()]
    }

    @Test("After two devices each buy 3 months offline and sync, both have 6 months")
    func bothBuyOffline() async throws {
        let end = try date("2026-07-10T12:00:00Z")
        #expect(try await endsAfterBothBuyOffline(under: StackPurchases()) == [end, end])
    }

    @Test("Under latestExpiryWins both have only 3 months: the rule of the tutorials loses one purchase")
    func bothBuyOfflineUnderTheTutorialsRule() async throws {
        let end = try date("2026-04-10T12:00:00Z")
        #expect(try await endsAfterBothBuyOffline(under: LatestExpiryWins()) == [end, end])
    }

    @Test("A later change of the rule restores the lost months, because merging deletes nothing")
    func ruleChangedLater() async throws {
        var home = try Household(catalog: try Owls.catalog(expiry: LatestExpiryWins()))
        let (phoneStore, tabletStore) = (MemoryBackend(), MemoryBackend())
        for (local, id) in [(phoneStore, "phone"), (tabletStore, "tablet")] {
            try await home.device(local).record(.reported(Owls.threeMonths, transaction: TransactionID(id)))
        }
        for local in [phoneStore, tabletStore] { try await home.device(local).sync() }
        #expect(try await home.device(tabletStore).end() == date("2026-04-10T12:00:00Z"))
        home.catalog = try Owls.catalog(expiry: StackPurchases())
        #expect(try await home.device(tabletStore).end() == date("2026-07-10T12:00:00Z"))
    }

    @Test(
        "A renewal and a purchase on a device that never restored both count, in either order",
        arguments: [true, false], [true, false])
    func renewalThenPurchase(renewalFirst: Bool, phoneSyncsFirst: Bool) async throws {
        let home = try Household(at: "2026-01-10T12:00:00Z")
        let phone = try await home.device()
        let tablet = try await home.device()
        try await phone.record(.reported(Owls.threeMonths, transaction: "first"))
        try await phone.sync()

        let renewal = { try await phone.record(.reported(Owls.sixMonths, transaction: "renewal")) }
        let purchase = { try await tablet.record(.reported(Owls.threeMonths, transaction: "purchase")) }
        try home.machine.set("2026-03-01T08:00:00Z")
        _ = renewalFirst ? try await renewal() : try await purchase()
        try home.machine.set("2026-03-05T20:00:00Z")
        _ = renewalFirst ? try await purchase() : try await renewal()

        for store in phoneSyncsFirst ? [phone, tablet, phone] : [tablet, phone, tablet] { try await store.sync() }
        let end = try date("2027-01-10T12:00:00Z")
        #expect(try await phone.end() == end)
        #expect(try await tablet.end() == end)
    }

    @Test("The same transaction seen by two devices is one purchase")
    func sameTransaction() async throws {
        let home = try Household()
        let phone = try await home.device()
        let tablet = try await home.device()
        let evidence = try Evidence.reported(
            Owls.threeMonths, transaction: "1000", date: date("2026-01-09"), store: .appStore)
        try await phone.record(evidence)
        try await tablet.record(evidence)
        try await phone.sync()
        try await tablet.sync()
        try await phone.sync()
        #expect(try await phone.end() == date("2026-04-09"))
        #expect(try await tablet.end() == date("2026-04-09"))
        #expect(try await phone.localLedgers().account == tablet.localLedgers().account)
    }

    @Test("A sync after convergence writes nothing on either side")
    func quiet() async throws {
        let home = try Household()
        let local = MemoryBackend()
        let phone = try await home.device(local)
        try await phone.record(.reported(Owls.threeMonths))
        try await phone.sync()
        let before = (try await contents(of: local), try await contents(of: home.remote))
        let report = try await phone.sync()
        #expect(report.received.isEmpty)
        #expect(!report.didSend)
        #expect(try await contents(of: local) == before.0)
        #expect(try await contents(of: home.remote) == before.1)
    }
}
