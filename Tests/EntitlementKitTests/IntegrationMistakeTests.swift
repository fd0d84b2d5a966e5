import EntitlementSync
import EntitlementSyncStoreKit
import Entitlements
import Foundation
import SyncCore
import SyncCoreTesting
import Synchronization
import TestSupport
import Testing

@testable import EntitlementKit

/// The ten mistakes that integrations of in-app purchases make most, in the order of Docs/GettingStarted.md.
@MainActor
@Suite("Mistakes of integrations", .timeLimit(.minutes(15)))
struct IntegrationMistakeTests {
    private let stage: ShopStage
    private let store = FakeAppStore()

    init() throws { stage = try ShopStage() }

    private func phone(_ change: (inout ShopSettings) -> Void = { _ in }) -> Shop {
        stage.shop("phone", server: nil, source: store, change)
    }

    @Test("1. An object that the App Store has not signed grants nothing")
    func localObject() async throws {
        store.set(.forges)
        let shop = phone()
        try await whileRunning(shop) {
            await expect(.appStore, naming: "signature") { _ = try await shop.buy("owls.3months") }
        }
        #expect(try await !shop.access(to: "owls").isGranted)
        #expect(store.finished.isEmpty)
    }

    @Test("2. A check that fails is an error, not a denial, and the rows stay")
    func failedCheck() async throws {
        let isBroken = Mutex(false)
        let local = FaultyBackend(MemoryBackend()) { _ in
            isBroken.withLock { $0 } ? .permanent(.unavailable) : nil
        }
        let shop = phone { $0.local = local }
        try await shop.record("owls.3months", transaction: "1")
        try await shop.refresh()
        let rows = shop.rows
        isBroken.withLock { $0 = true }
        let restarted = phone { $0.local = local }
        await expect(.storage) { _ = try await restarted.access(to: "owls") }
        await expect(.storage) { try await shop.refresh() }
        #expect(shop.rows == rows && !rows.isEmpty)
    }

    @Test("3. A purchase is finished only after it is on the disk: a full disk finishes nothing, and loses nothing")
    func finishingEarly() async throws {
        let isFull = Mutex(true)
        let local = FaultyBackend(MemoryBackend()) { call in
            call.operation == .write && isFull.withLock { $0 } ? .permanent(.full) : nil
        }
        let shop = phone { $0.local = local }
        try await whileRunning(shop) {
            await expect(.full) { _ = try await shop.buy("owls.3months") }
        }
        #expect(store.finished.isEmpty)
        isFull.withLock { $0 = false }
        let restarted = phone { $0.local = local }
        try await whileRunning(restarted) { await until { store.finished == [1] } }
        #expect(try await restarted.access(to: "owls").isGranted)
    }

    @Test("4. A purchase that an interrupted app did not finish is recorded and finished at the next start")
    func neverFinished() async throws {
        store.sell("owls.3months")
        let shop = phone()
        try await whileRunning(shop) { await until { store.finished == [1] } }
        #expect(try await shop.access(to: "owls").isGranted)
    }

    @Test("5. A pending purchase is not bought, until it is approved on another device")
    func pending() async throws {
        store.set(.asks)
        let shop = phone()
        try await whileRunning(shop) {
            let outcome = try await shop.buy("owls.3months")
            #expect(outcome == .pending)
            let access = try await shop.access(to: "owls")
            #expect(!access.isGranted)
            await until { shop.rows.first?.offer == .pending }
            store.sell("owls.3months")
            await until { store.finished == [1] }
        }
        #expect(try await shop.access(to: "owls").isGranted)
    }

    @Test("6. A restore brings back what the App Store knows, and a cancelled purchase changes nothing")
    func restore() async throws {
        store.sell("owls.3months")
        let shop = phone()
        #expect(try await !shop.access(to: "owls").isGranted)
        #expect(try await shop.restore() == 1)
        #expect(try await shop.access(to: "owls").isGranted)
        store.set(.cancels)
        let outcome = try await whileRunning(shop) { try await shop.buy("owls.3months") }
        #expect(outcome == .cancelled)
        store.set(.fails)
        await expect(.appStore) { _ = try await shop.restore() }
        let count = try await shop.store().facts().purchases.count
        #expect(count == 1)
    }

    @Test("7. A purchase needs a shop that listens, and what was missed arrives when it does")
    func listeningLate() async throws {
        let shop = phone()
        #expect(try await !shop.access(to: "owls").isGranted)
        await expect(.notRunning, naming: "run()") { _ = try await shop.buy("owls.3months") }
        #expect(store.tokens.isEmpty)
        store.sell("owls.3months")
        try await whileRunning(shop) { await until { store.finished == [1] } }
        #expect(try await shop.access(to: "owls").isGranted)
    }

    @Test("8. A product that the App Store does not offer has no price, is listed as missing, and cannot be bought")
    func missingProduct() async throws {
        store.set([StoreKitOffer(id: "owls.3months", type: .nonRenewing, name: "Owls", price: "€ 9.99")])
        let shop = phone()
        try await whileRunning(shop) {
            await until { !shop.missingProducts.isEmpty && !shop.rows.isEmpty }
            #expect(shop.missingProducts == ["owls.lifetime"])
            #expect(shop.rows.map(\.price) == ["€ 9.99", nil])
            store.set([])
            await expect(.appStore, naming: "owls.3months") { _ = try await shop.buy("owls.3months") }
            await expect(.catalog, naming: "owls.4months") { _ = try await shop.buy("owls.4months") }
            await expect(.logInNeeded, naming: "owls.lifetime") { _ = try await shop.buy("owls.lifetime") }
        }
        #expect(store.tokens.isEmpty)
    }

    @Test("9. The device keeps no password, and its session can be read by its owner only")
    func secrets() async throws {
        let server = try stage.server()
        let shop = stage.shop("phone", server: server.url)
        try await shop.signUp("alice", password: ShopStage.password, earlierPurchases: .adopt)
        let folder = stage.folder.path(of: "phone")
        var sessions = 0
        for file in try FileManager.default.subpathsOfDirectory(atPath: folder) {
            let path = "\(folder)/\(file)"
            guard let bytes = FileManager.default.contents(atPath: path) else { continue }
            #expect(bytes.range(of: Data(ShopStage.password.utf8)) == nil, "\(file)")
            guard bytes.range(of: Data("refresh".utf8)) != nil else { continue }
            sessions += 1
            let mode = try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? Int
            #expect((mode ?? 0o777) & 0o077 == 0, "\(file)")
        }
        #expect(sessions == 1)
        let careless = stage.shop("tablet", server: "https://alice:secret@purchases.example.com")
        await expect(.noServer) { _ = try await careless.access(to: "owls") }
        #expect(server.stop() == 0)
    }

    @Test("10. A product with another type in the App Store is a failure that names both, and cannot be bought")
    func wrongType() async throws {
        store.set([
            StoreKitOffer(id: "owls.3months", type: .consumable, name: "Owls", price: "€ 9.99"),
            StoreKitOffer(id: "owls.lifetime", type: .nonConsumable, name: "All owls", price: "€ 49.99"),
        ])
        let shop = phone()
        try await whileRunning(shop) {
            await until { shop.failure != nil }
            #expect(shop.failure?.kind == .catalog)
            let text = "owls.3months is nonRenewing in the catalogue and consumable in the App Store"
            #expect(shop.failure?.description.contains(text) == true)
            await expect(.catalog, naming: text) { _ = try await shop.buy("owls.3months") }
        }
        #expect(store.tokens.isEmpty)
    }
}
