import EntitlementSync
import Entitlements
import SyncCore
import TestSupport
import Testing

@Suite("Refunds, flags and previews")
struct RefundTests {
    private let home: Household
    private let local = MemoryBackend()
    private let owl = TransactionReference(id: "owl")

    init() throws {
        home = try Household()
    }

    @Test("A second refund of the same purchase adds nothing and does not move its date")
    func twice() async throws {
        let store = try await home.offlineDevice(local)
        try await store.record(.reported(Owls.nightOwl, transaction: "owl"))
        #expect(try await store.refund(owl, at: date("2026-01-11")) != nil)
        let before = try await contents(of: local)
        try home.machine.set("2026-02-01T00:00:00Z")
        #expect(try await store.refund(owl, at: date("2026-01-11")) == nil)
        #expect(try await store.refund(owl) == nil)
        #expect(try await contents(of: local) == before)
    }

    @Test("A refund with another date corrects the first")
    func corrected() async throws {
        let store = try await home.offlineDevice()
        try await store.record(.reported(Owls.nightOwl, transaction: "owl"))
        try await store.refund(owl, at: date("2026-02-01"))
        #expect(try await store.access(to: Owls.nightOwlAccess).isGranted)
        try await store.refund(owl, at: date("2026-01-10"))
        #expect(try await store.access(to: Owls.nightOwlAccess) == .denied(.revoked(date("2026-01-10"))))
    }

    @Test("A refunded period ends at the refund, and the following period moves up")
    func movesUp() async throws {
        let store = try await home.offlineDevice()
        try await store.record(.reported(Owls.threeMonths, transaction: "first", date: date("2026-01-01")))
        try await store.record(.reported(Owls.threeMonths, transaction: "second", date: date("2026-01-05")))
        #expect(try await store.end() == date("2026-07-01"))
        try await store.refund(TransactionReference(id: "first"), at: date("2026-02-01"))
        #expect(try await store.end() == date("2026-05-01"))
    }

    @Test("A refund of device-local units stays on the device and revokes them")
    func units() async throws {
        let store = try await home.device(local)
        try await store.record(.reported(Owls.randomOwls, transaction: "units"))
        try await store.refund(TransactionReference(id: "units"))
        #expect(try await store.use(Owls.access) == .denied(.restoreNeeded))
        #expect(try await store.localLedgers().account.isEmpty)
        try await store.sync()
        #expect(try await store.access(to: Owls.access) == .denied(.revoked(home.machine.now)))
        #expect(try await contents(of: home.remote).isEmpty)
    }

    @Test("A flag makes an owl owned, is synced, and adds nothing when set again")
    func flag() async throws {
        let phone = try await home.device()
        #expect(try await phone.flag(Owls.nightOwl) != nil)
        #expect(try await phone.flag(Owls.nightOwl) == nil)
        try await phone.sync()
        let tablet = try await home.device()
        #expect(try await tablet.restore().snapshot.owned == [Owls.nightOwl])
    }

    @Test("Under purchasedWins a flag that was set counts even after it is cleared")
    func cleared() async throws {
        let store = try await home.offlineDevice(local)
        #expect(try await store.flag(Owls.nightOwl, isSet: false) == nil)
        try await store.flag(Owls.nightOwl)
        #expect(try await store.flag(Owls.nightOwl, isSet: false) != nil)
        #expect(try await store.access(to: Owls.nightOwlAccess).isGranted)
    }

    @Test("A preview equals the end after the purchase, for both rules and any date and quantity", arguments: 0..<2)
    func preview(rule: Int) async throws {
        let rules: [any ExpiryRule] = [StackPurchases(), LatestExpiryWins()]
        let home = try Household(
            at: "2026-01-31T23:59:59.999Z", catalog: try Owls.catalog(expiry: rules[rule]))
        let store = try await home.offlineDevice()
        let steps: [(date: String, product: ProductID, quantity: Int64)] = [
            ("2026-01-31T23:59:59.999Z", Owls.threeMonths, 1), ("2026-02-28T00:00:00Z", Owls.sixMonths, 1),
            ("2026-02-28T00:00:00Z", Owls.threeMonths, 12), ("2031-08-31T10:00:00Z", Owls.sixMonths, 3),
        ]
        for step in steps {
            try home.machine.set(step.date)
            let preview = try await store.preview(buying: step.product, quantity: step.quantity)
            let end = try await store.end()
            #expect(preview > end ?? home.machine.now)
            try await store.record(.reported(step.product, quantity: step.quantity))
            #expect(try await store.end() == preview, "bought on \(step.date)")
        }
    }

    @Test("Previews of permanent unlocks, unknown products and invalid quantities are rejected")
    func noPreview() async throws {
        let store = try await home.offlineDevice()
        #expect(await kind { try await store.preview(buying: Owls.nightOwl) } == .invalid)
        #expect(await kind { try await store.preview(buying: "no-such") } == .unknownProduct)
        for quantity: Int64 in [0, -1, 10_001] {
            #expect(await kind { try await store.preview(buying: Owls.threeMonths, quantity: quantity) } == .invalid)
        }
    }
}
