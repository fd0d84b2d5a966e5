import EntitlementSync
import Entitlements
import SyncCore
import SyncCoreTesting
import TestSupport
import Testing

@MainActor
@Suite("The view model of a shop page", .timeLimit(.minutes(15)))
struct ModelTests {
    private func offer(for product: ProductID, in model: EntitlementModel) -> EntitlementModel.Offer? {
        model.rows.first { $0.id == product }?.offer
    }

    private func refreshed(_ store: EntitlementStore) async -> EntitlementModel {
        let model = EntitlementModel(store)
        await model.refresh()
        return model
    }

    @Test("The model is empty until it has read the store, then has a row for each product, in the order of the file")
    func rows() async throws {
        let home = try Household()
        let model = EntitlementModel(try await home.offlineDevice())
        #expect(model.rows.isEmpty)
        #expect(model.snapshot == nil)
        await model.refresh()
        #expect(model.rows.map(\.id) == home.catalog.products.map(\.id))
        #expect(model.rows.map(\.id).suffix(3) == [Owls.threeMonths, Owls.sixMonths, Owls.randomOwls])
        #expect(model.snapshot?.at == home.machine.now)
        #expect(model.failure == nil)
    }

    @Test("Before any purchase, owls and units are offered for sale and time for subscription")
    func nothingBought() async throws {
        let model = await refreshed(try await Household().offlineDevice())
        #expect(offer(for: Owls.nightOwl, in: model) == .buy(unitsLeft: nil))
        #expect(offer(for: Owls.randomOwls, in: model) == .buy(unitsLeft: 0))
        #expect(offer(for: Owls.threeMonths, in: model) == .subscribe)
    }

    @Test("For products sold only to accounts, the anonymous model offers sign-in and a signed-in one does not")
    func signIn() async throws {
        let home = try Household(catalog: try Owls.catalogForAccounts())
        let anonymous = await refreshed(try await home.anonymousDevice())
        #expect(Set(anonymous.rows.map(\.offer)) == [.signIn])
        let alice = await refreshed(try await home.offlineDevice())
        #expect(!alice.rows.map(\.offer).contains(.signIn))
    }

    @Test("A purchased owl is owned, and the offer of units shows the number left")
    func ownedAndUnits() async throws {
        let store = try await Household().offlineDevice()
        try await store.record([.reported(Owls.nightOwl), .reported(Owls.randomOwls)])
        _ = try await store.use(Owls.access)
        let model = await refreshed(store)
        #expect(offer(for: Owls.nightOwl, in: model) == .owned)
        #expect(offer(for: Owls.randomOwls, in: model) == .buy(unitsLeft: 4))
    }

    @Test("Products of an active group offer renewal with end and days left, and a subscription after the end")
    func renew() async throws {
        let home = try Household(at: "2026-01-10T12:00:00Z")
        let store = try await home.offlineDevice()
        try await store.record(.reported(Owls.threeMonths))
        let active = await refreshed(store)
        let renewal = EntitlementModel.Offer.renew(until: try date("2026-04-10T12:00:00Z"), daysRemaining: 90)
        #expect(offer(for: Owls.threeMonths, in: active) == renewal)
        #expect(offer(for: Owls.sixMonths, in: active) == renewal)
        try home.machine.set("2026-04-10T12:00:00Z")
        let lapsed = await refreshed(store)
        #expect(offer(for: Owls.threeMonths, in: lapsed) == .subscribe)
    }

    @Test("Products of a group that is active for good are owned, and a refund offers the renewal again")
    func forGood() async throws {
        var home = try Household(at: "2026-01-10T12:00:00Z")
        let lifetime = ["lifetime", "old-lifetime"].map { id in
            Product(
                id: ProductID(id), kind: .nonRenewing(group: Owls.random, duration: .forever),
                isForSale: id == "lifetime")
        }
        home.catalog = try Catalog(
            products: home.catalog.products + lifetime, entitlements: home.catalog.entitlements)
        let store = try await home.offlineDevice()
        #expect(offer(for: "lifetime", in: await refreshed(store)) == .subscribe)
        try await store.record([
            .reported("lifetime", transaction: "L"), .reported(Owls.threeMonths, transaction: "A"),
        ])
        let active = await refreshed(store)
        #expect(offer(for: "lifetime", in: active) == .owned)
        #expect(offer(for: Owls.threeMonths, in: active) == .owned)
        #expect(offer(for: "old-lifetime", in: active) == nil)
        #expect(try await store.access(to: Owls.access) == .granted(.init(until: nil, source: .group(Owls.random))))
        #expect(try await store.preview(buying: Owls.threeMonths) == .latest)
        try await store.record(.refunded(TransactionReference(id: "L")))
        let refunded = EntitlementModel.Offer.renew(until: try date("2026-04-10T12:00:00Z"), daysRemaining: 90)
        #expect(offer(for: "lifetime", in: await refreshed(store)) == refunded)
    }

    @Test("A purchase that waits for approval is pending until it is made")
    func pending() async throws {
        let store = try await Household().offlineDevice()
        try await store.record(.deferred(Owls.nightOwl))
        #expect(offer(for: Owls.nightOwl, in: await refreshed(store)) == .pending)
        try await store.record(.reported(Owls.nightOwl))
        #expect(offer(for: Owls.nightOwl, in: await refreshed(store)) == .owned)
    }

    @Test("A product that is no longer sold has a row only if it is owned")
    func notForSale() async throws {
        var home = try Household()
        let products = home.catalog.products.map { product in
            var product = product
            product.isForSale = product.id != Owls.nightOwl && product.id != Owls.couchOwl
            return product
        }
        home.catalog = try Catalog(products: products, entitlements: home.catalog.entitlements)
        let store = try await home.offlineDevice()
        try await store.record(.reported(Owls.nightOwl))
        let model = await refreshed(store)
        #expect(offer(for: Owls.nightOwl, in: model) == .owned)
        #expect(offer(for: Owls.couchOwl, in: model) == nil)
    }

    @Test("A failed read of the store is reported, and the rows stay unchanged")
    func failure() async throws {
        let isAway = Switch()
        let local = FaultyBackend(MemoryBackend()) { _ in isAway.isSet ? .transient : nil }
        let model = await refreshed(try await Household().offlineDevice(local))
        let rows = model.rows
        isAway.set()
        await model.refresh()
        #expect(model.failure?.kind == .storage)
        #expect(model.rows == rows)
        isAway.set(false)
        await model.refresh()
        #expect(model.failure == nil)
    }

    @Test("Until the account's purchases have been fetched, the model offers a restore instead of a purchase")
    func restoreFirst() async throws {
        let home = try Household()
        let phone = try await home.device()
        try await phone.record(.reported(Owls.nightOwl))
        try await phone.sync()
        let tablet = try await home.device()
        #expect(Set(await refreshed(tablet).rows.map(\.offer)) == [.restore])
        try await tablet.restore()
        let restored = await refreshed(tablet)
        #expect(offer(for: Owls.nightOwl, in: restored) == .owned)
        #expect(offer(for: Owls.threeMonths, in: restored) == .subscribe)
    }

    @Test("An auto-renewable subscription is shown as subscribed, and other products of its group offer a change")
    func autoRenewable() async throws {
        let week = CalendarDuration(days: 7)
        let products = [("all", Int64(1)), ("some", 2)].map { id, level in
            Product(
                id: ProductID(id),
                kind: .autoRenewable(group: "selfies", level: level, duration: week, introductory: nil))
        }
        let home = try Household(at: "2026-01-10T12:00:00Z", catalog: try Catalog(products: products))
        let store = try await home.offlineDevice()
        let first = TransactionReference(store: .appStore, id: "1")
        try await store.record(.reported("some", transaction: "1", store: .appStore))
        let end = try date("2026-01-17T12:00:00Z")
        var model = await refreshed(store)
        #expect(offer(for: "some", in: model) == .subscribed(until: end, daysRemaining: 7, willRenew: nil))
        #expect(offer(for: "all", in: model) == .change(from: "some"))
        try await store.record(.renewal(of: first, willRenew: false))
        model = await refreshed(store)
        #expect(offer(for: "some", in: model) == .subscribed(until: end, daysRemaining: 7, willRenew: false))
        try home.machine.set("2026-01-17T12:00:00Z")
        #expect(offer(for: "some", in: await refreshed(store)) == .subscribe)
    }

    @Test("A temporarily unreadable store is read again, and cancellation is not reported as a failure")
    func retries() async throws {
        let isAway = Switch()
        let local = FaultyBackend(MemoryBackend()) { _ in isAway.isSet ? .transient : nil }
        let model = EntitlementModel(try await Household().offlineDevice(local))
        isAway.set()
        await withTaskGroup(of: Void.self) { group in
            group.addTask { await model.run() }
            while model.failure == nil { await Task.yield() }
            isAway.set(false)
            while model.snapshot == nil { await Task.yield() }
            group.cancelAll()
        }
        #expect(model.failure == nil)
    }

    @Test("A running model follows the store, and stops when its task is cancelled")
    func runs() async throws {
        let store = try await Household().offlineDevice()
        let model = EntitlementModel(store)
        await withTaskGroup(of: Void.self) { group in
            group.addTask { await model.run() }
            while model.snapshot == nil { await Task.yield() }
            do { try await store.record(.reported(Owls.nightOwl)) } catch { Issue.record(error) }
            while model.snapshot?.owned != [Owls.nightOwl] { await Task.yield() }
            group.cancelAll()
        }
        #expect(offer(for: Owls.nightOwl, in: model) == .owned)
    }
}
