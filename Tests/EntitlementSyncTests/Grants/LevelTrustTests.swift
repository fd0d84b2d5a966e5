import EntitlementSync
import Entitlements
import SyncCore
import TestSupport
import Testing

@Suite("A level under signed grants")
struct LevelTrustTests {
    private let household: Household
    private let server: GrantServer
    private static let day: Int64 = 86_400_000

    init() throws {
        let catalog = try Catalog(
            json: Array(
                """
                {"products":[{"id":"one","type":"autoRenewable","group":"selfies","level":2,"duration":"P7D"},
                   {"id":"all","type":"autoRenewable","group":"selfies","level":1,"duration":"P7D"}],
                 "entitlements":[{"id":"all","grantedBy":["group:selfies@1"]},
                   {"id":"one","grantedBy":["group:selfies@2"]},{"id":"badge","grantedBy":["product:one"]}]}
                """.utf8))
        household = try Household(at: "2026-01-01", catalog: catalog)
        server = try GrantServer(household.alice, catalog: catalog) { [machine = household.machine] in
            machine.milliseconds
        }
    }

    private func device(_ local: any KeyValueBackend = MemoryBackend()) async throws -> EntitlementStore {
        try await household.store(
            local, remote: server, server: server, account: household.alice, trust: .signed(by: server))
    }

    private func buy(_ product: ProductID, _ id: TransactionID, on device: EntitlementStore) async throws {
        try await device.record(.reported(product, transaction: id, original: "1"))
    }

    private func granted(until date: String, _ source: Entitlement.Source) throws -> Access {
        .granted(Access.Grant(until: try Timestamp(date), source: source))
    }

    @Test("An upgrade opens the higher level when the server has signed it, and the lower one goes on meanwhile")
    func upgrade() async throws {
        let device = try await device()
        try await buy("one", "1", on: device)
        try await device.sync()
        #expect(try await device.access(to: "one") == granted(until: "2026-01-08", .level("selfies", 2)))
        #expect(try await device.access(to: "all") == .denied(.notPurchased))
        household.machine.set(household.machine.milliseconds + 3 * Self.day)
        try await buy("all", "2", on: device)
        #expect(try await device.access(to: "all") == .denied(.unverified))
        // The grant of before confirms the time until the 8th.
        #expect(try await device.access(to: "one") == granted(until: "2026-01-08", .level("selfies", 2)))
        #expect(try await device.access(to: "badge") == .denied(.expired(Timestamp("2026-01-04"))))
        try await device.sync()
        #expect(try await device.access(to: "all") == granted(until: "2026-01-11", .level("selfies", 1)))
        #expect(try await device.access(to: "one") == granted(until: "2026-01-11", .level("selfies", 2)))
        let other = try await self.device()
        try await other.sync()
        #expect(try await other.snapshot().access == device.snapshot().access)
    }

    @Test("A downgrade at the renewal ends the higher level on a device without a connection too")
    func downgrade() async throws {
        let (phone, tablet) = (try await device(), try await device())
        try await buy("all", "1", on: phone)
        for device in [phone, tablet] { try await device.sync() }
        household.machine.set(household.machine.milliseconds + 7 * Self.day - 1)
        #expect(try await tablet.access(to: "all") == granted(until: "2026-01-08", .level("selfies", 1)))
        household.machine.set(household.machine.milliseconds + 1)
        try await buy("one", "2", on: phone)
        try await phone.sync()
        #expect(try await phone.access(to: "all") == .denied(.expired(Timestamp("2026-01-08"))))
        #expect(try await phone.access(to: "badge") == granted(until: "2026-01-15", .product("one")))
        // The tablet knows the first week only.
        for entitlement in ["all", "one"] as [EntitlementID] {
            #expect(try await tablet.access(to: entitlement) == .denied(.expired(Timestamp("2026-01-08"))))
        }
        try await tablet.sync()
        #expect(try await tablet.access(to: "one") == granted(until: "2026-01-15", .level("selfies", 2)))
        #expect(
            try await tablet.use("one")
                == .granted(
                    Access.Grant(
                        until: try Timestamp("2026-01-15"), source: .level("selfies", 2))))
        #expect(try await tablet.use("all") == .denied(.expired(Timestamp("2026-01-08"))))
    }
}
