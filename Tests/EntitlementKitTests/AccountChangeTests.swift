import EntitlementSync
import EntitlementSyncStoreKit
import Entitlements
import Foundation
import HTTPStorage
import HTTPTypes
import ServiceTestSupport
import SyncCore
import SyncService
import TestSupport
import Testing

@testable import EntitlementKit

/// A server in this process, and devices whose App Store is a fake.
@MainActor
@Suite("Changes of the account while a shop runs", .timeLimit(.minutes(15)))
struct AccountChangeTests {
    private let stage: ShopStage
    private let store = FakeAppStore()
    private let requests: CountingTransport

    init() async throws {
        stage = try ShopStage()
        let host = HostServices.system
        let service = try await EntitlementService(
            MemoryBackend(), configuration: ServiceConfiguration(name: "https://sync.example.com"),
            passwords: PlainPasswords(), host: host, onError: { Issue.record($0) })
        requests = CountingTransport(service)
    }

    private func shop(_ device: String = "phone", _ change: (inout ShopSettings) -> Void = { _ in }) -> Shop {
        stage.shop(device, server: "https://sync.example.com", source: store) { settings in
            settings.transport = requests
            change(&settings)
        }
    }

    private func signUp(_ name: String, _ shop: Shop, _ earlier: Shop.EarlierPurchases = .adopt) async throws {
        try await shop.signUp(name, password: ShopStage.password, earlierPurchases: earlier)
    }

    @Test("A log-in in the middle of a run adopts what was bought, and later purchases belong to the account")
    func logInWhileRunning() async throws {
        let shop = shop()
        try await whileRunning(shop) {
            _ = try await shop.buy("owls.3months")
            try await signUp("alice", shop)
            _ = try await shop.buy("owls.lifetime")
        }
        try await shop.refresh()
        let tablet = self.shop("tablet")
        try await tablet.logIn("alice", password: ShopStage.password, earlierPurchases: .leaveOnDevice)
        #expect(try await tablet.access(to: "owls").isGranted)
        #expect(try await tablet.access(to: "all").isGranted)
        #expect(Set(store.finished) == [1, 2])
    }

    @Test("Purchases left on a shared device stay there while the shop runs, also for the next account")
    func sharedDevice() async throws {
        store.sell("owls.3months")
        let shop = shop()
        try await whileRunning(shop) {
            await until { store.finished == [1] }
            try await signUp("bob", shop, .leaveOnDevice)
        }
        try await whileRunning(shop) { await until { shop.rows.first?.offer == .subscribe } }
        #expect(try await !shop.access(to: "owls").isGranted)
        try await shop.logOut()
        #expect(try await shop.access(to: "owls").isGranted)
    }

    @Test("After a log-out the rows are those of the device, and the next log-in keeps its session")
    func logOutWhileRunning() async throws {
        let shop = shop()
        try await whileRunning(shop) {
            try await signUp("alice", shop)
            _ = try await shop.buy("owls.lifetime")
            await until { shop.rows.last?.offer == .owned }
            // The server answers no log-out. Bob does not wait for it.
            requests.decide { $0.method == .delete ? .neverArrives : .arrives }
            try await shop.logOut()
            #expect(shop.rows.last?.offer == .logIn && shop.account == nil)
            try await signUp("bob", shop, .leaveOnDevice)
            try await shop.refresh()
        }
        #expect(shop.account == "bob")
        #expect(shop.failure == nil || shop.failure?.kind == .offline)
    }

    @Test("An account that is deleted while the shop runs is gone, and its session with it")
    func deletionWhileRunning() async throws {
        let shop = shop()
        try await whileRunning(shop) {
            try await signUp("alice", shop)
            _ = try await shop.buy("owls.3months")
            try await shop.deleteAccount(password: ShopStage.password)
            #expect(shop.account == nil)
            await until { shop.rows.first?.offer == .subscribe }
        }
        await expect(.logInNeeded) { try await shop.deleteAccount(password: ShopStage.password) }
        #expect(try await shop.open().accounts().tokens.session() == nil)
    }

    @Test("A log-in that fails on this device leaves the account before it logged in, with its session")
    func failedLogIn() async throws {
        let shop = shop()
        try await signUp("alice", shop)
        try await signUp("bob", self.shop("tablet"))
        requests.decide { request in
            request.method == .get && request.path?.contains("accounts/bob") == true ? .neverArrives : .arrives
        }
        await expect(.offline) {
            try await shop.logIn("bob", password: ShopStage.password, earlierPurchases: .adopt)
        }
        #expect(shop.account == "alice")
        requests.decide { _ in .arrives }
        try await shop.refresh()
    }

    @Test("At a new address of the server the user must log in again, which works, and the purchases are there")
    func newAddress() async throws {
        let shop = shop()
        try await whileRunning(shop) {
            try await signUp("alice", shop)
            _ = try await shop.buy("owls.lifetime")
        }
        try await shop.refresh()
        let moved = stage.shop("phone", server: "https://new.example.com") { $0.transport = requests }
        await expect(.logInNeeded, naming: "belongs to") { try await moved.refresh() }
        await expect(.logInNeeded, naming: "https://sync.example.com") { _ = try await moved.restore() }
        #expect(try await moved.access(to: "all").isGranted)
        try await whileRunning(moved) { await until { moved.failure?.kind == .logInNeeded } }
        try await moved.logIn("alice", password: ShopStage.password, earlierPurchases: .leaveOnDevice)
        try await moved.refresh()
        #expect(moved.account == "alice" && moved.failure == nil)
        // Back at the former address, the session is again that of another server.
        let back = self.shop()
        try await back.logOut()
        #expect(back.account == nil && back.failure == nil)
        try await signUp("bob", back, .leaveOnDevice)
    }

    @Test("In TestFlight and in review the purchases of the sandbox count, and a fixed environment names the mistake")
    func environments() async throws {
        store.set(.sandbox)
        let shop = shop()
        try await whileRunning(shop) { _ = try await shop.buy("owls.3months") }
        #expect(try await shop.access(to: "owls").isGranted)
        let fixed = self.shop("tablet") { $0.environment = .production }
        try await whileRunning(fixed) {
            await expect(.otherEnvironment, naming: "sandbox") { _ = try await fixed.buy("owls.3months") }
        }
        #expect(try await !fixed.access(to: "owls").isGranted)
    }

    @Test("A failure in the background is gone after the next success of the same activity, and only then")
    func failure() async throws {
        let machine = TestHost(at: 1_768_000_000_000, pauses: .endWhenAdvanced)
        let shop = shop { settings in
            settings.host = machine.host
            settings.source = nil
        }
        try await signUp("alice", shop)
        requests.decide { _ in .neverArrives }
        let running = Task { await shop.run() }
        await until {
            machine.advance(by: .seconds(1))
            return shop.failure?.kind == .offline
        }
        #expect(shop.failure?.isTransient == true)
        requests.decide { _ in .arrives }
        await until {
            machine.advance(by: .seconds(1))
            return shop.failure == nil
        }
        running.cancel()
        await running.value
        #expect(shop.failure == nil)
    }
}
