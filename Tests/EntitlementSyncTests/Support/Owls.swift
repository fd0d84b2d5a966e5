import EntitlementSync
import Entitlements
import Foundation

/// The catalogue of the known tutorial app, `Examples/insomniowl.json`.
enum Owls {
    static let threeMonths: ProductID = "com.back40.InsomniOwl.3monthsOfRandom"
    static let sixMonths: ProductID = "com.back40.InsomniOwl.6monthsOfRandom"
    static let randomOwls: ProductID = "com.back40.InsomniOwl.RandomOwls"
    static let nightOwl: ProductID = "com.back40.InsomniOwl.NightOwl"
    static let couchOwl: ProductID = "com.back40.InsomniOwl.CouchOwl"

    static let random: GroupID = "random"
    static let access: EntitlementID = "random-owls"
    static let nightOwlAccess: EntitlementID = "night-owl"

    private static let file = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent().deletingLastPathComponent().appending(path: "Examples/insomniowl.json")

    /// The catalogue of the file with the given rules.
    static func catalog(
        expiry: any ExpiryRule = StackPurchases(), consumables: ConsumableScope = .deviceLocal
    ) throws -> Catalog {
        let catalog = try Catalog.json(at: file)
        return try Catalog(
            products: catalog.products, entitlements: catalog.entitlements,
            policy: Policy(
                bonus: catalog.policy.bonus,
                rules: ConflictRules(expiry: expiry, flags: catalog.policy.rules.flags, consumables: consumables)))
    }

    /// The same catalogue with products that require an account.
    static func catalogForAccounts() throws -> Catalog {
        let catalog = try Catalog.json(at: file)
        let products = catalog.products.map { product in
            var product = product
            product.requiresAccount = true
            return product
        }
        return try Catalog(products: products, entitlements: catalog.entitlements, policy: catalog.policy)
    }
}
