// README begin
import EntitlementKit

// README end
import Foundation

/// The body is the rest of the README's sample.
@MainActor
func restoreWithShop(catalog: URL, folder: URL, server: String, password: String) async throws -> (ShopAccess, Shop) {
    // README begin
    let shop = Shop(catalog: catalog, server: server, folder: folder)  // returns at once; the first call opens it
    try await shop.logIn("alice", password: password, earlierPurchases: .adopt)  // once; the session is kept
    let current = Task { await shop.run() }  // records what StoreKit reports, and syncs; in SwiftUI: .task { … }
    let access = try await shop.access(to: "random-owls")  // isGranted, until; also offline
    let offers = shop.rows.map { "\($0.name): \($0.offer)" }  // a shop page observes them
    // README end
    current.cancel()
    await current.value
    _ = offers
    return (access, shop)
}
