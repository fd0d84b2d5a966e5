import EntitlementSync
import EntitlementSyncStoreKit
import Entitlements
import Foundation
import Observation
import SyncCore
import TestSupport
import Testing

@testable import EntitlementKit

@MainActor
@Suite("The access that a shop reports, and its use", .timeLimit(.minutes(15)))
struct ShopAccessTests {
    private static let catalogue = """
        {"products":[{"id":"owls.pack","type":"consumable","units":2},
                     {"id":"owls.3months","type":"nonRenewing","group":"owls","duration":"P3M"},
                     {"id":"owls.lifetime","type":"nonConsumable"},
                     {"id":"selfies.weekly","type":"autoRenewable","group":"selfies","level":2,"duration":"P1W",
                      "introductory":{"mode":"free","duration":"P1W"}}],
         "entitlements":[{"id":"owls","grantedBy":["group:owls","units:owls.pack"]},
                         {"id":"all","grantedBy":["product:owls.lifetime"]},
                         {"id":"selfies","grantedBy":["group:selfies"]}]}
        """
    private let stage: ShopStage
    private let machine = TestHost(at: 1_768_000_000_000, pauses: .endWhenAdvanced)

    init() throws { stage = try ShopStage(catalogue: Self.catalogue) }

    private func shop(_ device: String = "phone") -> Shop {
        stage.shop(device, server: nil) { $0.host = machine.host }
    }

    private var now: Timestamp { Timestamp(milliseconds: machine.milliseconds) }

    @Test("A use spends one unit for each id, also after a restart, and the use after the last unit is denied")
    func use() async throws {
        let shop = shop()
        try await shop.record("owls.pack", transaction: "1")
        #expect(try await shop.access(to: "owls").units == 2)
        let left = try await shop.use("owls", id: "first")
        #expect(left.isGranted && left.units == 1 && left.source == .purchase("owls.pack") && left.until == nil)
        let restarted = self.shop()
        #expect(try await restarted.use("owls", id: "first") == left)
        let last = try await restarted.use("owls")
        #expect(!last.isGranted && last.units == 0 && last.denial == .usedUp && last.source == nil)
        let error = await #expect(throws: ShopError.self) { try await restarted.use("owls", id: "third") }
        #expect(error?.kind == .denied && error?.denial == .usedUp && error?.isTransient == false)
        #expect(error?.description == "owls cannot be used: used up")
        #expect(error?.message == "You have used all of them. Buy more, and try again.")
        // A repeated call succeeds although nothing is left, and the denied id can be used later.
        #expect(try await restarted.use("owls", id: "first") == last)
        try await restarted.record("owls.pack", transaction: "2")
        #expect(try await restarted.use("owls", id: "third").units == 1)
    }

    @Test("A use that paid time covers spends nothing, and the units are there when it has ended")
    func useWithinPaidTime() async throws {
        let shop = shop()
        try await shop.record("owls.pack", transaction: "1")
        try await shop.record("owls.3months", transaction: "2")
        let access = try await shop.use("owls")
        #expect(access.units == nil && access.source == .purchase("owls.3months"))
        machine.advance(by: .seconds(100 * 86_400))
        #expect(try await shop.use("owls").units == 1)
    }

    @Test("A use of an unknown entitlement, and an id that is malformed or taken, are errors that spend nothing")
    func wrongUse() async throws {
        let shop = shop()
        try await shop.record("owls.pack", transaction: "1")
        await expect(.catalog, naming: "owl") { try await shop.use("owl") }
        await expect(.invalid, naming: "spend id") { try await shop.use("owls", id: "") }
        await expect(.denied, naming: "all cannot be used: not purchased") { try await shop.use("all") }
        try await shop.use("owls", id: "one")
        await expect(.invalid, naming: "already spent a unit") { try await shop.use("all", id: "one") }
        #expect(try await shop.access(to: "owls").units == 1)
    }

    @Test("Access has its level, and its source: a trial, a purchase, a grace, a gift, another system or a flag")
    func sources() async throws {
        let shop = shop()
        let store = try await shop.store()
        let week = Int64(7 * 86_400_000)
        let (start, end) = (now, Timestamp(milliseconds: machine.milliseconds + week))
        try await store.record(
            .reported("selfies.weekly", transaction: "1", date: start, expires: end, isIntroductory: true))
        let trial = try await shop.access(to: "selfies")
        #expect(trial.isTrial && trial.source == .trial("selfies.weekly") && trial.level == 2)
        #expect(trial.until == Date(end))
        machine.advance(by: .milliseconds(week))
        #expect(try await shop.access(to: "selfies").denial == .expired(Date(end)))
        try await store.record(.reported("selfies.weekly", transaction: "2", date: end, original: "1"))
        let paid = try await shop.access(to: "selfies")
        #expect(!paid.isTrial && paid.source == .purchase("selfies.weekly") && paid.level == 2 && paid.units == nil)
        machine.advance(by: .milliseconds(week))
        try await store.record(
            .renewal(
                of: TransactionReference(id: "1"), willRenew: true,
                graceEnd: Timestamp(milliseconds: machine.milliseconds + week)))
        #expect(try await shop.access(to: "selfies").source == .grace("selfies.weekly"))

        try await store.record(.reported("owls.3months", transaction: "gift", store: .support))
        #expect(try await shop.access(to: "owls").source == .support)
        try await store.record(.flag("owls.lifetime", isSet: true))
        #expect(try await shop.access(to: "all").source == .flag("owls.lifetime"))
        let former = try await self.shop("tablet").store()
        try await former.record(.asserted("owls", until: end.adding(CalendarDuration(months: 1)), source: "parse"))
        #expect(try await self.shop("tablet").access(to: "owls").source == .system("parse"))
    }

    @Test("One call returns the access to all entitlements, equal to that of each call, and views have the same")
    func all() async throws {
        let shop = shop()
        #expect(shop.access.isEmpty)
        try await shop.record("owls.pack", transaction: "1")
        let all = try await shop.allAccess()
        #expect(all.keys.sorted() == ["all", "owls", "selfies"])
        for (entitlement, access) in all {
            #expect(try await shop.access(to: entitlement) == access)
        }
        #expect(shop.access == all)
        try await shop.use("owls")
        #expect(shop.access["owls"]?.units == 1)
        #expect(shop.access["owl"] == nil)
        let other = self.shop()
        try await other.refresh()
        #expect(other.access == shop.access)
        await expect(.catalog) {
            _ = try await Shop(catalog: URL(filePath: stage.folder.path(of: "none.json"))).allAccess()
        }
    }

    @Test("While a shop runs, views are told of a use, and of time that ends, to the millisecond")
    func observed() async throws {
        let shop = shop()
        try await shop.record("owls.3months", transaction: "1")
        let end = try #require(try await shop.access(to: "owls").until)
        let left = Int64((end.timeIntervalSince1970 * 1_000).rounded()) - machine.milliseconds
        try await whileRunning(shop) {
            await until { shop.access["owls"]?.isGranted == true }
            await until { machine.pending.contains { $0 > .seconds(50) } }
            machine.advance(by: .milliseconds(left - 1))
            await until { machine.pending.contains(.milliseconds(1)) }
            #expect(shop.access["owls"]?.isGranted == true)
            let (changes, changed) = AsyncStream<Void>.makeStream()
            withObservationTracking {
                _ = shop.access
            } onChange: {
                changed.yield()
            }
            machine.advance(by: .milliseconds(1))
            for await _ in changes { break }
            await until { shop.access["owls"]?.denial == .expired(end) }
            try await shop.record("owls.pack", transaction: "2")
            #expect(shop.access["owls"]?.units == 2)
            // Without the shop.
            _ = try await shop.store().use("owls")
            await until { shop.access["owls"]?.units == 1 }
        }
    }
}

@MainActor
@Suite("A paid purchase that does not count says why", .timeLimit(.minutes(15)))
struct ShopDenialTests {
    private let stage: ShopStage

    init() throws { stage = try ShopStage() }

    @Test("Under `verified`, a purchase without evidence is unverified, also after a restart")
    func unverified() async throws {
        let server = try stage.server(["--policy", "verified"])
        let shop = stage.shop("phone", server: server.url)
        try await shop.record("owls.3months", transaction: "1")
        #expect(try await shop.access(to: "owls").isGranted)
        try await shop.signUp("alice", password: ShopStage.password, earlierPurchases: .adopt)
        #expect(try await shop.access(to: "owls").denial == .unverified)
        #expect(try await shop.access(to: "all").denial == .notPurchased)
        let error = await #expect(throws: ShopError.self) { try await shop.use("owls") }
        #expect(error?.denial == .unverified)
        #expect(error?.message.contains("not confirmed yet") == true)
        #expect(server.stop() == 0)
        let restarted = stage.shop("phone", server: server.url)
        #expect(try await restarted.access(to: "owls").denial == .unverified)
        #expect(try await restarted.allAccess()["owls"]?.denial == .unverified)
    }

    @Test("A purchase whose evidence the server refuses has the server's reason, also after a restart")
    func refused() async throws {
        let server = try stage.server(["--policy", "verified", "--app-store-bundle", "com.example"])
        let store = FakeAppStore()
        let shop = stage.shop("phone", server: server.url, source: store)
        try await shop.signUp("alice", password: ShopStage.password, earlierPurchases: .adopt)
        try await whileRunning(shop) {
            let outcome = try await shop.buy("owls.lifetime")
            #expect(outcome == .bought)
            await until { if case .refusedByServer = shop.access["all"]?.denial { true } else { false } }
        }
        let denial = try #require(try await shop.access(to: "all").denial)
        guard case .refusedByServer(let reason) = denial else {
            Issue.record("\(denial)")
            return
        }
        #expect(!reason.isEmpty && "\(denial)" == "refused by the server: \(reason)")
        #expect(try await shop.access(to: "owls").denial == .notPurchased)
        #expect(server.stop() == 0)
        #expect(try await stage.shop("phone", server: server.url).access(to: "all").denial == denial)
    }

    @Test("With `keepWithFirst`, a purchase of another account is denied as such, and the first account keeps it")
    func owned() async throws {
        let server = try stage.server(["--ownership", "keepWithFirst"])
        let (first, second) = (stage.shop("phone", server: server.url), stage.shop("tablet", server: server.url))
        for (shop, name) in [(first, "alice"), (second, "bob")] {
            try await shop.signUp(name, password: ShopStage.password, earlierPurchases: .adopt)
            try await shop.record("owls.3months", transaction: "order-1")
            #expect(try await shop.access(to: "owls").isGranted)
            try await shop.refresh()
        }
        #expect(try await first.access(to: "owls").isGranted)
        #expect(try await second.access(to: "owls").denial == .ownedByAnotherAccount)
        #expect(second.access["owls"]?.denial == .ownedByAnotherAccount)
        let error = await #expect(throws: ShopError.self) { try await second.use("owls") }
        #expect(error?.message == "Your purchase belongs to another account. Log in to that account.")
        // A purchase of its own counts.
        try await second.record("owls.3months", transaction: "order-2")
        try await second.refresh()
        #expect(try await second.access(to: "owls").isGranted)
        #expect(server.stop() == 0)
    }
}
