import EntitlementSync
import Entitlements
import SyncCore
import SyncCoreTesting
import Testing

@MainActor
@Suite("The model of a shop page", .timeLimit(.minutes(15)))
struct ModelTests {
    private func offer(for product: ProductID, in model: EntitlementModel) -> EntitlementModel.Offer? {
        model.rows.first { $0.id == product }?.offer
    }

    private func refreshed(_ store: EntitlementStore) async -> EntitlementModel {
        let model = EntitlementModel(store)
        await model.refresh()
        return model
    }

    @Test("It is empty until it has read the store, then has a row for each product, in order")
    func rows() async throws {
        let home = try Household()
        let model = EntitlementModel(try await home.offlineDevice())
        #expect(model.rows.isEmpty)
        #expect(model.snapshot == nil)
        await model.refresh()
        #expect(model.rows.map(\.id) == home.catalog.products.map(\.id))
        #expect(model.snapshot?.at == home.machine.now)
        #expect(model.failure == nil)
    }

    @Test("Nothing bought: owls to buy, units to buy, time to subscribe to")
    func nothingBought() async throws {
        let model = await refreshed(try await Household().offlineDevice())
        #expect(offer(for: Owls.nightOwl, in: model) == .buy(unitsLeft: nil))
        #expect(offer(for: Owls.randomOwls, in: model) == .buy(unitsLeft: 0))
        #expect(offer(for: Owls.threeMonths, in: model) == .subscribe)
    }

    @Test("Nobody is asked to sign in where products are sold to accounts, and somebody is not")
    func signIn() async throws {
        let home = try Household(catalog: try Owls.catalogForAccounts())
        let nobody = await refreshed(try await home.anonymousDevice())
        #expect(Set(nobody.rows.map(\.offer)) == [.signIn])
        let alice = await refreshed(try await home.offlineDevice())
        #expect(!alice.rows.map(\.offer).contains(.signIn))
    }

    @Test("An owl that was bought is owned, and the units left are told")
    func ownedAndUnits() async throws {
        let store = try await Household().offlineDevice()
        try await store.record([.reported(Owls.nightOwl), .reported(Owls.randomOwls)])
        _ = try await store.use(Owls.access)
        let model = await refreshed(store)
        #expect(offer(for: Owls.nightOwl, in: model) == .owned)
        #expect(offer(for: Owls.randomOwls, in: model) == .buy(unitsLeft: 4))
    }

    @Test("Every product of an active group renews it, with its end and the days left; afterwards one subscribes anew")
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

    @Test("What waits for approval is pending until it is bought")
    func pending() async throws {
        let store = try await Household().offlineDevice()
        try await store.record(.deferred(Owls.nightOwl))
        #expect(offer(for: Owls.nightOwl, in: await refreshed(store)) == .pending)
        try await store.record(.reported(Owls.nightOwl))
        #expect(offer(for: Owls.nightOwl, in: await refreshed(store)) == .owned)
    }

    @Test("What is no longer sold has a row only for those who own it")
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

    @Test("A store that cannot be read is told, and the rows stay as they were")
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

    @Test("Before the account's purchases were ever fetched nobody is led to buy twice")
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

    @Test("A subscription that its store renews is shown as such, and its group's other products change it")
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

    @Test("A store that cannot be read for a while is read again, and a cancelled task is no failure")
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

    @Test("It follows the store while it runs, and ends with its task")
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
