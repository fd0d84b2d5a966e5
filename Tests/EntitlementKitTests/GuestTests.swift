import EntitlementSync
import EntitlementSyncStoreKit
import Foundation
import HTTPStorage
import HTTPTypes
import ServiceTestSupport
import SyncCore
import SyncService
import Synchronization
import TestSupport
import Testing

@testable import EntitlementKit

@MainActor
@Suite("Syncing before a log-in", .timeLimit(.minutes(15)))
struct GuestTests {
    private static let server = "https://sync.example.com"

    /// A device with a server of its own in this process.
    @MainActor
    private final class World {
        let stage: ShopStage
        let requests: CountingTransport
        let local = MemoryBackend()

        init(allowsSignUp: Bool = true) async throws {
            stage = try ShopStage()
            var configuration = ServiceConfiguration(name: GuestTests.server)
            configuration.allowsSignUp = allowsSignUp
            configuration.operatorToken = .operatorToken
            requests = CountingTransport(
                try await EntitlementService(
                    MemoryBackend(), configuration: configuration, passwords: PlainPasswords(),
                    onError: { Issue.record($0) }))
        }

        func shop(_ device: String = "phone", local: (any KeyValueBackend)? = nil, syncs: Bool = true) -> Shop {
            stage.shop(device, server: GuestTests.server) { settings in
                settings.transport = requests
                settings.syncsBeforeLogIn = syncs
                settings.local = local
            }
        }

        /// The names of the accounts that are not erased.
        func accounts() async throws -> [String] {
            let client = try AccountClient(server: GuestTests.server, transport: requests)
            return try await client.accounts { _ in .operatorToken }.accounts.filter { $0.created != nil }.map(\.name)
        }

        /// Expects that the purchase is in the account `alice` alone.
        func expectAdopted(sourceLocation: SourceLocation = #_sourceLocation) async throws {
            #expect(try await accounts() == ["alice"], sourceLocation: sourceLocation)
            let tablet = shop("tablet", local: MemoryBackend(), syncs: false)
            try await tablet.logIn("alice", password: ShopStage.password, earlierPurchases: .leaveOnDevice)
            #expect(try await tablet.access(to: "owls").isGranted, sourceLocation: sourceLocation)
        }
    }

    private func signUp(_ shop: Shop, _ earlier: Shop.EarlierPurchases) async throws {
        try await shop.signUp("alice", password: ShopStage.password, earlierPurchases: earlier)
    }

    @Test("The server has what was bought without a log-in, and no account is shown")
    func sync() async throws {
        let world = try await World()
        let shop = world.shop()
        try await shop.record("owls.3months", transaction: "1")
        try await shop.refresh()
        #expect(shop.account == nil && shop.failure == nil)
        #expect(try await shop.access(to: "owls").isGranted)
        #expect(shop.rows.last?.offer == .logIn, "the product requires an account")
        let guests = try await world.accounts()
        #expect(guests.count == 1 && guests.allSatisfy { $0.hasPrefix("guest-") && $0.utf8.count == 38 })
        #expect(try await !(shop.store()).hasUnsentFacts(shop.store().account))
        for act in [
            { try await shop.logOut() }, { try await shop.deleteAccount() },
            { try await shop.deleteAccount(password: ShopStage.password) },
        ] as [@MainActor () async throws -> Void] {
            await expect(.logInNeeded) { try await act() }
        }
        // A restart resumes the same guest.
        let restarted = world.shop()
        try await restarted.refresh()
        #expect(restarted.account == nil)
        #expect(try await restarted.access(to: "owls").isGranted)
        #expect(try await world.accounts() == guests)
    }

    @Test("A log-in that adopts moves the purchases to the account and erases the guest, also while the shop runs")
    func adoption() async throws {
        let world = try await World()
        let shop = world.shop()
        try await shop.record("owls.3months", transaction: "1")
        try await whileRunning(shop) {
            while try await world.accounts().isEmpty { await Task.yield() }
            try await signUp(shop, .adopt)
            #expect(shop.account == "alice")
            #expect(try await shop.access(to: "owls").isGranted)
        }
        try await world.expectAdopted()
        #expect(!FileManager.default.fileExists(atPath: world.stage.folder.path(of: "phone/guest.json")))
        // The next guest has nothing of the account.
        try await shop.logOut()
        try await shop.refresh()
        #expect(try await !shop.access(to: "owls").isGranted)
        #expect(try await world.accounts().count == 2)
    }

    @Test("Purchases left on the device stay with the guest, count again after the log-out, and can be adopted later")
    func leaving() async throws {
        let world = try await World()
        let shop = world.shop()
        try await shop.record("owls.3months", transaction: "1")
        try await shop.refresh()
        try await signUp(shop, .leaveOnDevice)
        try await shop.refresh()
        #expect(try await !shop.access(to: "owls").isGranted)
        let accounts = try await world.accounts()
        #expect(accounts.count == 2)
        try await shop.logOut()
        world.requests.decide { _ in .neverArrives }
        try await shop.refresh()
        #expect(shop.failure?.kind == .offline)
        #expect(try await shop.access(to: "owls").isGranted, "the guest resumes without a network")
        world.requests.decide { _ in .arrives }
        try await shop.refresh()
        #expect(shop.account == nil && shop.failure == nil)
        #expect(try await world.accounts() == accounts)
        try await signUp(shop, .adopt)
        try await world.expectAdopted()
    }

    @Test("A sign-up that the server refuses fails in the background, and purchases count on the device")
    func refused() async throws {
        let world = try await World(allowsSignUp: false)
        let shop = world.shop()
        try await shop.record("owls.3months", transaction: "1")
        try await shop.refresh()
        #expect(shop.failure?.kind == .notAllowed)
        #expect(try await shop.access(to: "owls").isGranted)
        _ = world.requests.take()
        let machine = TestHost(at: HostServices.system.now(), pauses: .endWhenAdvanced)
        let running = world.stage.shop("phone", server: Self.server) { settings in
            settings.transport = world.requests
            settings.syncsBeforeLogIn = true
            settings.host = machine.host
        }
        try await whileRunning(running) {
            for _ in 0..<3 {
                await until { machine.pending.contains { $0 < .seconds(10) } }
                machine.advance(by: .seconds(10))
            }
        }
        #expect(world.requests.take().filter { $0 == "POST /v1/accounts" }.count >= 3)
        #expect(running.failure?.kind == .notAllowed)
    }

    /// Lets `interrupt` stop an adopting sign-up, restarts the app, and expects that nothing is lost.
    ///
    /// - Returns: `true` if the sign-up was complete nevertheless.
    private func interrupted(_ interrupt: @MainActor (World, HookedBackend) -> Void) async throws -> Bool {
        let world = try await World()
        let hooked = HookedBackend(world.local)
        let shop = world.shop(local: hooked)
        try await shop.record("owls.3months", transaction: "1")
        try await shop.refresh()
        interrupt(world, hooked)
        var isComplete = true
        do { try await signUp(shop, .adopt) } catch { isComplete = false }
        isComplete = isComplete && shop.failure == nil
        hooked.before(nil)
        world.requests.decide { _ in .arrives }
        // Once the guest is gone, the account may have claimed the purchase without being logged in here.
        let mayBeClaimed = try await world.accounts() == ["alice"]
        world.requests.decide { _ in .neverArrives }
        let restarted = world.shop(local: world.local)
        if !mayBeClaimed {
            #expect(try await restarted.access(to: "owls").isGranted, "offline, after the restart")
        }
        world.requests.decide { _ in .arrives }
        // A log-in that was not complete is repeated by the user, after the restart has cleaned up.
        do { try await restarted.refresh() } catch { #expect(!isComplete) }
        if !mayBeClaimed { #expect(try await restarted.access(to: "owls").isGranted) }
        try await signUp(restarted, .adopt)
        try await restarted.refresh()
        #expect(restarted.account == "alice" && restarted.failure == nil)
        try await world.expectAdopted()
        return isComplete
    }

    @Test(
        "If the app is killed after any write to its store of an adoption, nothing is lost, and a log-in completes it"
    )
    func killedAtWrite() async throws {
        var count = 0
        while try await !interrupted({ _, hooked in hooked.fail(after: count) }) { count += 1 }
        #expect(count > 5)
    }

    @Test(
        "If the connection breaks at any request of an adoption, nothing is lost and a log-in completes it",
        arguments: [CountingTransport.Fate.neverArrives, .answerIsLost])
    func lostRequests(fate: CountingTransport.Fate) async throws {
        var count = 0
        while try await !interrupted({ world, _ in
            let left = Mutex(count)
            world.requests.decide { _ in
                left.withLock { left in
                    left -= 1
                    return left < 0 ? fate : .arrives
                }
            }
        }) {
            count += 1
        }
        #expect(count > 5)
    }
}
