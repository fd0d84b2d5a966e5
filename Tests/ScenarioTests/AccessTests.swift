import EntitlementSync
import Entitlements
import SyncCore
import Testing

@Suite("What an app is told")
struct AccessTests {
    @Test("A unit is used only when no subscription is active, and one id spends once")
    func units() async throws {
        let home = try Household(on: "2026-01-01")
        let phone = try await home.device(1)
        try await phone.record([.reported(Household.units), .reported(Household.threeMonths)])
        let grant = Access.Grant(until: try Timestamp("2026-04-01"), because: .group("random"))
        #expect(try await phone.use(Household.randomOwls) == .granted(grant))
        #expect(try await phone.snapshot()[balance: Household.units] == 5)
        try home.calendar.set("2026-04-01")
        for _ in 1...2 {
            #expect(try await phone.use(Household.randomOwls, id: "one") == .spent(remaining: 4, of: Household.units))
        }
        #expect(try await phone.use(Household.randomOwls, id: "two") == .spent(remaining: 3, of: Household.units))
    }

    @Test("A refused use changes nothing")
    func refusedUse() async throws {
        let home = try Household(on: "2026-01-01")
        let local = MemoryBackend()
        let phone = try await home.device(1, local: local)
        try await phone.sync()
        try await phone.record(.reported(Household.units))
        for _ in 1...5 { _ = try await phone.use(Household.randomOwls) }
        let before = try await contents(of: local)
        #expect(try await phone.use(Household.randomOwls) == .denied(.notPurchased))
        #expect(try await contents(of: local) == before)
    }

    @Test("Each reason for a denial is reached, and goes when its cause goes")
    func denials() async throws {
        let home = try Household(on: "2026-01-01")
        let phone = try await home.device(1)
        #expect(try await phone.access(to: "night-owl") == .denied(.restoreNeeded))
        try await phone.sync()
        #expect(try await phone.access(to: "night-owl") == .denied(.notPurchased))
        try await phone.record(.deferred(Household.nightOwl))
        #expect(try await phone.access(to: "night-owl") == .denied(.pendingApproval))
        try await phone.record(.withdrawn(Household.nightOwl))
        #expect(try await phone.access(to: "night-owl") == .denied(.notPurchased))
        try await phone.record(.deferred(Household.nightOwl))
        let receipt = try await phone.record(.reported(Household.nightOwl))
        #expect(
            try await phone.access(to: "night-owl")
                == .granted(Access.Grant(until: nil, because: .product(Household.nightOwl))))
        try home.calendar.set("2026-02-01")
        try await phone.refund(try #require(receipt.transactions.first))
        #expect(try await phone.access(to: "night-owl") == .denied(.revoked(try Timestamp("2026-02-01"))))
        try await phone.record(.reported(Household.threeMonths))
        try home.calendar.set("2026-06-01")
        #expect(try await phone.access(to: Household.randomOwls) == .denied(.expired(try Timestamp("2026-05-01"))))
    }

    @Test("Who is not signed in is told to where a product is sold to accounts only, and its row says so")
    @MainActor
    func signInNeeded() async throws {
        let owl = Product(id: "owl", kind: .nonConsumable, requiresAccount: true)
        let catalog = try Catalog(
            products: [owl], entitlements: [Entitlement(id: "owl", grantedBy: [.product("owl")])])
        let store = try await EntitlementStore(catalog: catalog, local: MemoryBackend())
        #expect(try await store.access(to: "owl") == .denied(.signInNeeded))
        let model = EntitlementModel(store)
        await model.refresh()
        #expect(model.rows.map(\.offer) == [.signIn])
    }

    @Test("The shop page has a row a product: buy, subscribe, renew, owned, pending")
    @MainActor
    func rows() async throws {
        let home = try Household(on: "2026-01-01")
        let phone = try await home.device(1)
        let model = EntitlementModel(phone)
        func offer(_ product: ProductID) -> EntitlementModel.Offer? { model.rows.first { $0.id == product }?.offer }
        await model.refresh()
        #expect(model.rows.count == home.catalog.products.count)
        #expect(offer(Household.nightOwl) == .buy(unitsLeft: nil))
        #expect(offer(Household.units) == .buy(unitsLeft: 0))
        #expect(offer(Household.threeMonths) == .subscribe)
        try await phone.record([
            .reported(Household.nightOwl), .reported(Household.threeMonths),
            .deferred("com.back40.InsomniOwl.ShyOwl"),
        ])
        await model.refresh()
        #expect(offer(Household.nightOwl) == .owned)
        let end = try Timestamp("2026-04-01")
        #expect(offer(Household.threeMonths) == .renew(until: end, daysRemaining: 90))
        #expect(offer("com.back40.InsomniOwl.ShyOwl") == .pending)
    }

    @Test("A preview is the end that buying then gives")
    func preview() async throws {
        let home = try Household(on: "2026-01-01")
        let phone = try await home.device(1)
        try await phone.record(.reported(Household.threeMonths))
        try home.calendar.set("2026-02-01")
        let end = try await phone.preview(buying: Household.sixMonths, quantity: 2)
        try await phone.record(.reported(Household.sixMonths, quantity: 2))
        #expect(try await phone.snapshot()[group: "random"]?.expires == end)
        #expect("\(end)" == "2027-04-01T00:00:00.000Z")
    }
}
