import Entitlements
import Foundation
import TestSupport
import Testing

@Suite("The example catalogues match the products of their tutorials")
struct ExampleCatalogTests {
    private static let owls = [
        "CarefreeOwl", "CouchOwl", "CryingOwl", "GoodJobOwl", "GoodNightOwl", "InLoveOwl", "LonelyOwl", "NightOwl",
        "ShyOwl",
    ]

    private static func example(_ name: String) throws -> Catalog {
        try Catalog(json: Data(contentsOf: Repository.file("Examples/\(name).json")))
    }

    @Test("InsomniOwl sells nine owls, five random ones at a time, and three or six months of them")
    func insomniOwlProducts() throws {
        let catalog = try Self.example("insomniowl")
        let prefix = "com.back40.InsomniOwl."
        var expected: [ProductID: ProductKind] = [
            ProductID(prefix + "RandomOwls"): .consumable(units: 5),
            ProductID(prefix + "3monthsOfRandom"):
                .nonRenewing(group: "random", duration: CalendarDuration(months: 3)),
            ProductID(prefix + "6monthsOfRandom"):
                .nonRenewing(group: "random", duration: CalendarDuration(months: 6)),
        ]
        for owl in Self.owls { expected[ProductID(prefix + owl)] = .nonConsumable }
        #expect(Dictionary(uniqueKeysWithValues: catalog.products.map { ($0.id, $0.kind) }) == expected)
        let order = Self.owls + ["3monthsOfRandom", "6monthsOfRandom", "RandomOwls"]
        #expect(catalog.products.map(\.id) == order.map { ProductID(prefix + $0) })
        #expect(catalog.groups == ["random"])
    }

    @Test("InsomniOwl's random owls are granted by subscription or units, each single owl by its own product")
    func insomniOwlEntitlements() throws {
        let catalog = try Self.example("insomniowl")
        #expect(
            catalog[entitlement: "random-owls"]?.grantedBy
                == [.group("random"), .units("com.back40.InsomniOwl.RandomOwls")])
        let granted = catalog.entitlements.filter { $0.id != "random-owls" }.map(\.grantedBy)
        let products = Self.owls.map { [Entitlement.Source.product(ProductID("com.back40.InsomniOwl.\($0)"))] }
        #expect(Set(granted) == Set(products))
        #expect(granted.count == 9)
    }

    @Test("InsomniOwl's policy is the default, without a bonus")
    func insomniOwlPolicy() throws {
        let policy = try Self.example("insomniowl").policy
        #expect(policy.bonus == .zero)
        #expect(policy.rules.expiry.name == "stackPurchases")
        #expect(policy.rules.flags.name == "purchasedWins")
        #expect(policy.rules.consumables == .deviceLocal)
    }

    @Test("In Rage an active subscription unlocks every comic, and a bought comic stays owned after it ends")
    func rage() throws {
        let catalog = try Self.example("rage")
        let comic: ProductID = "com.razeware.inapprage.nightlyrage"
        let replay = try Story(catalog).buying("com.razeware.inapprage.3monthsrage", at: "2026-01-01", transaction: "A")
            .buying(comic, at: "2026-02-01", transaction: "B").replay()
        // Three months and the extra day.
        let end = try Timestamp("2026-04-02")
        let during = replay.snapshot(at: end.moved(-1))
        #expect(during.access.count == 5)
        for answer in during.access where answer.entitlement != "nightlyrage" {
            #expect(answer.access == .granted(Access.Grant(until: end, source: .group("comics"))))
        }
        #expect(during[access: "nightlyrage"] == .granted(Access.Grant(until: nil, source: .product(comic))))
        let after = replay.snapshot(at: end)
        for answer in after.access where answer.entitlement != "nightlyrage" {
            #expect(answer.access == .denied(.expired(end)))
        }
        #expect(after[access: "nightlyrage"] == .granted(Access.Grant(until: nil, source: .product(comic))))
    }
}
