import EntitlementSync
import Entitlements
import SyncCore
import SyncCoreTesting
import Testing

@Suite("Two devices and a restore")
struct TwoDeviceTests {
    @Test(
        "Each offline buys 3 months: after syncing both have 6, by the tutorials' rule both have 3",
        arguments: [(StackPurchases() as any ExpiryRule, "2026-07-01"), (LatestExpiryWins(), "2026-04-01")])
    func bothBuyOffline(rule: any ExpiryRule, end: String) async throws {
        let home = try Household(on: "2026-01-01", rules: ConflictRules(expiry: rule))
        let phone = try await home.device(1)
        let tablet = try await home.device(2)
        for device in [phone, tablet] {
            try await device.record(.reported(Household.threeMonths))
            #expect(try await device.end() == "2026-04-01")
        }
        for device in [phone, tablet, phone] { try await device.sync() }
        #expect(try await phone.end() == end)
        #expect(try await tablet.end() == end)
    }

    @Test("A renewal on one device, then a purchase on another before any restore: nothing is lost, in either order")
    func renewalThenPurchase() async throws {
        for isTabletFirst in [true, false] {
            let home = try Household(on: "2026-01-01")
            let phone = try await home.device(1)
            try await phone.record(.reported(Household.threeMonths))
            try home.calendar.set("2026-02-01")
            try await phone.record(.reported(Household.threeMonths))
            try home.calendar.set("2026-02-02")
            let tablet = try await home.device(2)
            try await tablet.record(.reported(Household.sixMonths))
            for device in isTabletFirst ? [tablet, phone, tablet] : [phone, tablet, phone] { try await device.sync() }
            #expect(try await phone.end() == "2027-01-01")
            #expect(try await tablet.end() == "2027-01-01")
        }
    }

    @Test("A new device overwrites nothing, restores subscriptions and unlocks, and leaves units behind")
    func newDevice() async throws {
        let home = try Household(on: "2026-01-01")
        let phone = try await home.device(1)
        try await phone.record([
            .reported(Household.threeMonths, transaction: "1"), .reported(Household.nightOwl, transaction: "2"),
            .reported(Household.units, transaction: "3"),
        ])
        try await phone.sync()
        let before = try await contents(of: home.remote)
        let tablet = try await home.device(2)
        _ = home.remote.takeCounts()
        let report = try await tablet.restore()
        #expect(home.remote.takeCounts().total == 1)
        #expect(try await contents(of: home.remote) == before)
        #expect(report.purchases.map(\.transaction.id) == ["1", "2"])
        #expect(report.snapshot.owned == [Household.nightOwl])
        #expect(report.snapshot[group: "random"]?.isActive == true)
        #expect(report.snapshot[balance: Household.units] == 0)
        #expect(try await phone.snapshot()[balance: Household.units] == 5)
    }

    @Test("Under shared the units are restored too, less those that were used")
    func sharedUnits() async throws {
        let home = try Household(on: "2026-01-01", rules: ConflictRules(consumables: .shared))
        let phone = try await home.device(1)
        try await phone.record(.reported(Household.units))
        #expect(try await phone.use(Household.randomOwls, id: "a") == .spent(remaining: 4, of: Household.units))
        try await phone.sync()
        let tablet = try await home.device(2)
        try await tablet.restore()
        #expect(try await tablet.snapshot()[balance: Household.units] == 4)
    }

    @Test("Requests to the remote: one when one side changed or none, two when both did and at first contact")
    func requestTable() async throws {
        let home = try Household(on: "2026-01-01")
        let phone = try await home.device(1)
        let tablet = try await home.device(2)
        try await phone.record(.reported(Household.threeMonths))
        #expect(try await requests(of: phone, home) == 2, "first contact with a ledger that is not empty")
        #expect(try await requests(of: phone, home) == 1, "nothing changed")
        #expect(try await requests(of: tablet, home) == 1, "a new device")
        try await phone.record(.reported(Household.nightOwl))
        #expect(try await requests(of: phone, home) == 1, "local changed and remote not")
        #expect(try await requests(of: tablet, home) == 1, "remote changed")
        try await phone.record(.reported(Household.threeMonths))
        try await tablet.record(.reported(Household.threeMonths))
        #expect(try await requests(of: phone, home) == 1)
        #expect(try await requests(of: tablet, home) == 2, "both changed")
        #expect(try await requests(of: phone, home) == 1)
        let settled = try await contents(of: home.remote)
        for device in [phone, tablet, phone, tablet] { #expect(try await requests(of: device, home) == 1) }
        #expect(try await contents(of: home.remote) == settled, "who has nothing new writes nothing")
    }

    private func requests(of device: EntitlementStore, _ home: Household) async throws -> Int {
        _ = home.remote.takeCounts()
        try await device.sync()
        return home.remote.takeCounts().total
    }
}
