import EntitlementSync
import EntitlementSyncStoreKit
import Entitlements
import Foundation
import ServiceTestSupport
import SyncCore
import SyncService
import TestSupport
import Testing

@testable import EntitlementKit

/// Two devices of an account, a server in this process, and one clock that only the test moves.
@MainActor
@Suite("A shop in the background and in the foreground", .timeLimit(.minutes(15)))
struct BackgroundTests {
    private let stage: ShopStage
    private let machine: TestHost
    private let service: EntitlementService
    private let requests: CountingTransport

    init() async throws {
        stage = try ShopStage()
        machine = TestHost(at: 1_768_000_000_000, pauses: .endWhenAdvanced)
        service = try await EntitlementService(
            MemoryBackend(), configuration: ServiceConfiguration(name: "https://sync.example.com"),
            passwords: PlainPasswords(), host: machine.host, onError: { Issue.record($0) })
        requests = CountingTransport(service)
    }

    /// A shop that is logged in.
    private func shop(_ device: String, over transport: CountingTransport) async throws -> Shop {
        let shop = stage.shop(device, server: "https://sync.example.com") { settings in
            settings.transport = transport
            settings.host = machine.host
        }
        try await shop.signUp("alice", password: ShopStage.password, earlierPurchases: .adopt)
        return shop
    }

    private func tablet() async throws -> Shop { try await shop("tablet", over: CountingTransport(service)) }

    /// Waits until the running shop pauses for another `duration`.
    private func pause(of duration: Duration) async { await until { machine.pending.contains(duration) } }

    /// Waits until the running shop pauses until its next poll, which comes within a minute.
    private func pauseUntilPoll() async {
        await until { machine.pending.contains { $0 >= .seconds(54) && $0 <= .seconds(60) } }
    }

    /// Lets `count` minutes pass, each until the running shop has made a request.
    ///
    /// - Returns: The number of requests.
    private func minutes(_ count: Int) async -> Int {
        // Each run asks for the catalogue once.
        var first: [String] = []
        await until {
            first += requests.take()
            return first.contains("GET /v1/catalog")
        }
        await pauseUntilPoll()
        _ = requests.take()
        for _ in 0..<count {
            let before = requests.count
            await pauseUntilPoll()
            machine.advance(by: .seconds(60))
            await until { requests.count > before }
        }
        await pauseUntilPoll()
        return requests.take().count
    }

    private func isRenewable(_ shop: Shop) -> Bool {
        if case .renew = shop.rows.first?.offer { true } else { false }
    }

    @Test(
        "While nothing is shown, a day passes without a request; on return, one sync brings what was bought elsewhere")
    func comingBack() async throws {
        let shop = try await shop("phone", over: requests)
        let tablet = try await tablet()
        try await whileRunning(shop) {
            await until { !shop.rows.isEmpty }
            await pauseUntilPoll()
        }
        _ = requests.take()
        try await tablet.record("owls.3months", transaction: "1")
        try await tablet.refresh()
        for _ in 0..<24 * 60 {
            machine.advance(by: .seconds(60))
            await Task.yield()
        }
        #expect(requests.take() == [])
        #expect(!isRenewable(shop))
        try await whileRunning(shop) {
            await until { isRenewable(shop) }
            await pauseUntilPoll()
        }
        // The access token has expired meanwhile. Each file that the shop writes for the news may cause another look.
        let made = requests.take().filter { $0 != "GET /v1/catalog" }
        #expect(made.first == "POST /v1/sessions" && (2...6).contains(made.count), "\(made)")
        #expect(made.dropFirst().allSatisfy { $0.hasPrefix("GET /v1/kv/accounts/alice/") }, "\(made)")
    }

    @Test(
        "While it is shown, another device's purchase appears after a minute at the latest, with one request a minute")
    func otherDevice() async throws {
        let shop = try await shop("phone", over: requests)
        let tablet = try await tablet()
        try await whileRunning(shop) {
            // A write by the shop itself may cause one or two more.
            #expect(await (10...12).contains(minutes(10)))
            try await tablet.record("owls.3months", transaction: "1")
            try await tablet.refresh()
            #expect(!isRenewable(shop))
            await pauseUntilPoll()
            machine.advance(by: .seconds(60))
            await until { isRenewable(shop) }
        }
    }

    @Test(
        "The end of a period that passes while the shop is shown changes the row, to the millisecond, without a request"
    )
    func expiry() async throws {
        let shop = stage.shop("phone", server: nil) { $0.host = machine.host }
        try await shop.record("owls.3months", transaction: "1")
        let end = try #require(try await shop.access(to: "owls").until)
        let left = Int64((end.timeIntervalSince1970 * 1_000).rounded()) - machine.milliseconds
        try await whileRunning(shop) {
            await until { isRenewable(shop) }
            await pauseUntilPoll()
            machine.advance(by: .milliseconds(left - 1))
            await pause(of: .milliseconds(1))
            let access = try await shop.access(to: "owls")
            #expect(access.isGranted)
            #expect(isRenewable(shop))
            machine.advance(by: .milliseconds(1))
            await until { shop.rows.first?.offer == .subscribe }
        }
        #expect(try await !shop.access(to: "owls").isGranted)
    }

    @Test("Two windows run one shop once, and the second takes over when the first closes")
    func twoWindows() async throws {
        let shop = try await shop("phone", over: requests)
        _ = requests.take()
        let first = Task { await shop.run() }
        await until { shop.isRunning }
        let second = Task { await shop.run() }
        #expect(await (10...12).contains(minutes(10)))
        first.cancel()
        await first.value
        await until { shop.isRunning }
        await pauseUntilPoll()
        second.cancel()
        await second.value
        #expect(!shop.isRunning)
    }

    @Test("A purchase on a live server appears on another device that runs, by the server's signal")
    func liveSignal() async throws {
        let server = try stage.server()
        let phone = stage.shop("phone", server: server.url)
        try await phone.signUp("alice", password: ShopStage.password, earlierPurchases: .adopt)
        let tablet = stage.shop("tablet", server: server.url)
        try await tablet.logIn("alice", password: ShopStage.password, earlierPurchases: .leaveOnDevice)
        var start = ContinuousClock.now
        try await whileRunning(tablet) {
            await until { !tablet.rows.isEmpty }
            start = .now
            try await phone.record("owls.3months", transaction: "1")
            try await phone.refresh()
            await until { isRenewable(tablet) }
        }
        expectFigure(ContinuousClock.now - start < .seconds(55), "a poll, not the signal, may have brought it")
        #expect(server.stop() == 0)
    }
}
