import EntitlementSync
import Entitlements
import SyncCore
import SyncCoreTesting
import TestSupport
import Testing

@Suite("A store that trusts only signed grants")
struct TrustTests {
    private let household: Household
    private let server: GrantServer
    private static let day: Int64 = 86_400_000

    init() throws {
        let owls = try Owls.catalog()
        // Grants confirm no units.
        let entitlements = owls.entitlements.map { entitlement in
            Entitlement(
                id: entitlement.id,
                grantedBy: entitlement.grantedBy.filter { if case .units = $0 { false } else { true } })
        }
        household = try Household(
            catalog: try Catalog(products: owls.products, entitlements: entitlements, policy: owls.policy))
        server = try GrantServer(household.alice, catalog: household.catalog) { [machine = household.machine] in
            machine.milliseconds
        }
    }

    private func device(
        _ local: any KeyValueBackend = MemoryBackend(), account: Account? = nil,
        environment: EnvironmentID = .production,
        grace: Duration = .seconds(86_400)
    ) async throws -> EntitlementStore {
        try await household.store(
            local, remote: server, server: server, account: account ?? household.alice, environment: environment,
            trust: .signed(by: server, grace: grace))
    }

    private func buyer(_ local: any KeyValueBackend = MemoryBackend()) async throws -> EntitlementStore {
        let device = try await device(local)
        try await device.record(.reported(Owls.sixMonths, transaction: "t1"))
        return device
    }

    @Test("A purchase counts when the server has signed it")
    func confirmed() async throws {
        let device = try await buyer()
        #expect(try await device.access(to: Owls.access) == .denied(.unverified))
        try await device.sync()
        let end = try #require(try await device.end())
        guard case .granted(let grant) = try await device.access(to: Owls.access) else {
            Issue.record("access is denied")
            return
        }
        #expect(grant.until == end)
        #expect(try await device.snapshot()[access: Owls.access] == .granted(grant))
        #expect(try await device.access(to: Owls.nightOwlAccess) == .denied(.notPurchased))
    }

    @Test("Without a connection access ends at the end of the grant and its grace, not a millisecond later")
    func offline() async throws {
        let local = MemoryBackend()
        let device = try await buyer(local)
        try await device.sync()
        let end = household.machine.milliseconds + GrantServer.lifetime + Self.day
        household.machine.set(end - 1)
        #expect(try await device.access(to: Owls.access).isGranted)
        // A restart of the app needs no connection.
        #expect(try await self.device(local).access(to: Owls.access).isGranted)
        household.machine.set(end)
        #expect(try await device.access(to: Owls.access) == .denied(.unverified))
        #expect(try await self.device(local).access(to: Owls.access) == .denied(.unverified))
        // A clock that is set back revives nothing.
        household.machine.set(end - 3 * Self.day)
        #expect(try await device.access(to: Owls.access) == .denied(.unverified))
        try await device.sync()
        #expect(try await device.access(to: Owls.access).isGranted)
    }

    @Test("A purchase that ends before the grant ends when it was bought to end")
    func ends() async throws {
        let device = try await device()
        let bought = Timestamp(milliseconds: household.machine.milliseconds)
        try await device.record(.reported(Owls.threeMonths, transaction: "t1"))
        let end = try #require(try await device.end())
        household.machine.set(end.milliseconds - Self.day)
        try await device.sync()
        #expect(bought < end)
        household.machine.set(end.milliseconds - 1)
        #expect(try await device.access(to: Owls.access).isGranted)
        household.machine.set(end.milliseconds)
        #expect(try await device.access(to: Owls.access) == .denied(.expired(end)))
    }

    @Test("A renewal that the server has not confirmed is not reported as expired")
    func unconfirmedRenewal() async throws {
        let device = try await device()
        try await device.record(.reported(Owls.threeMonths, transaction: "t1"))
        let end = try #require(try await device.end())
        household.machine.set(end.milliseconds - 3_600_000)
        try await device.sync()
        try await device.record(.reported(Owls.threeMonths, transaction: "t2"))
        #expect(try await device.access(to: Owls.access).isGranted)
        household.machine.set(end.milliseconds)
        #expect(try await device.access(to: Owls.access) == .denied(.unverified))
        try await device.sync()
        #expect(try await device.access(to: Owls.access).isGranted)
    }

    @Test("Facts that the server does not confirm grant nothing")
    func tampered() async throws {
        let local = MemoryBackend()
        try await buyer(local).sync()
        server.update { $0.change = { $0.items = [] } }
        let device = try await self.device(local)
        try await device.record(.reported(Owls.nightOwl, transaction: "t2"))
        try await device.sync()
        #expect(try await device.access(to: Owls.nightOwlAccess) == .denied(.unverified))
        #expect(try await device.access(to: Owls.access) == .denied(.unverified))
    }

    @Test("Bytes that the server has not signed grant nothing, and the next sync replaces them")
    func forged() async throws {
        let local = MemoryBackend()
        let first = try await buyer(local)
        try await first.sync()
        let key = try await grantKey(in: local)
        _ = try await local.write(Array("forged".utf8), to: key, if: .any)
        #expect(try await first.access(to: Owls.access) == .denied(.unverified))
        let device = try await device(local)
        #expect(try await device.access(to: Owls.access) == .denied(.unverified))
        try await device.sync()
        #expect(try await device.access(to: Owls.access).isGranted)
    }

    @Test("The grant of another device grants nothing")
    func copied() async throws {
        let (local, other) = (MemoryBackend(), MemoryBackend())
        try await buyer(local).sync()
        let second = try await device(other)
        try await second.sync()
        #expect(try await second.access(to: Owls.access).isGranted)
        let key = try await grantKey(in: local)
        guard case .found(let entry) = try await local.read(key).outcome else {
            throw BackendError(.missing, message: "")
        }
        _ = try await other.write(entry.value, to: key, if: .any)
        #expect(try await second.access(to: Owls.access) == .denied(.unverified))
    }

    @Test("A grant that the server signed for another account, device, environment or time is refused by its name")
    func refused() async throws {
        let changes: [(GrantError.Check, @Sendable (inout SignedGrant) -> Void)] = [
            (.account, { $0.account = "bob" }), (.device, { $0.device = "other" }),
            (.environment, { $0.environment = .sandbox }),
            (.time, { $0.expires = $0.issued }),
            (.time, { $0.issued = Timestamp(milliseconds: $0.issued.milliseconds + 301_000) }),
        ]
        for (check, change) in changes {
            server.update { $0.change = change }
            let device = try await buyer()
            let error = await #expect(throws: EntitlementError.self) { try await device.sync() }
            #expect(error?.kind == .sync)
            #expect(error?.message.contains("refused: \(check.rawValue):") == true, "\(error?.message ?? "")")
            #expect(try await device.access(to: Owls.access) == .denied(.unverified))
        }
    }

    @Test("A sync that gets no grant fails, and keeps what it received")
    func noGrant() async throws {
        try await buyer().sync()
        server.update { $0.failure = BackendError(.unsupported, message: "no grants") }
        let device = try await device()
        #expect(await kind { try await device.sync() } == .sync)
        #expect(try await device.end() != nil)
        let plain = try await household.store(
            remote: household.remote, account: household.alice, trust: .signed(by: server))
        let other = await #expect(throws: EntitlementError.self) { try await plain.sync() }
        #expect(other?.message.contains("--root-key") == true)
    }

    @Test("A grant is fetched when the facts change and after half of its life, and not by other syncs")
    func requests() async throws {
        let device = try await buyer()
        for _ in 0..<3 { try await device.sync() }
        #expect(server.requestCount == 1)
        try await device.record(.reported(Owls.nightOwl, transaction: "t2"))
        try await device.sync()
        #expect(server.requestCount == 2)
        #expect(try await device.access(to: Owls.nightOwlAccess).isGranted)
        household.machine.set(household.machine.milliseconds + GrantServer.lifetime / 2 - 1_000)
        try await device.sync()
        #expect(server.requestCount == 2)
        household.machine.set(household.machine.milliseconds + 1_000)
        try await device.sync()
        #expect(server.requestCount == 3)
    }

    @Test("Without an account nothing is granted, and an app is told to log in")
    func anonymous() async throws {
        let device = try await device(account: .anonymous)
        try await device.record(.reported(Owls.sixMonths, transaction: "t1"))
        #expect(try await device.access(to: Owls.access) == .denied(.signInNeeded))
    }

    @Test("Units and a clock that can be set back are refused when the store is opened")
    func unsuitable() async throws {
        let units = Product(id: "tips", kind: .consumable(units: 3))
        let catalog = try Catalog(
            products: [units], entitlements: [Entitlement(id: "tip", grantedBy: [.units("tips")])])
        var other = household
        other.catalog = catalog
        #expect(
            await kind { try await other.store(remote: server, trust: .signed(by: server)) } == .unsuitableStore)
        #expect(
            await kind { try await household.store(remote: server, clock: .host, trust: .signed(by: server)) }
                == .invalid)
    }

    @Test("A grant survives a log-out, the adoption of purchases and another account on the device")
    func adoption() async throws {
        let local = MemoryBackend()
        let alice = try await buyer(local)
        try await alice.sync()
        let anonymous = try await device(local, account: .anonymous)
        try await anonymous.record(.reported(Owls.nightOwl, transaction: "n1"))
        let shared = try await household.store(local, remote: server, server: server, trust: .signed(by: server))
        try await shared.createAccount("bob")
        try await shared.logIn("bob", adoptAnonymous: true)
        #expect(try await alice.access(to: Owls.access).isGranted)
        #expect(try await device(local).access(to: Owls.access).isGranted)
    }

    @Test("An older grant replaces none that was signed later, and a shorter one is renewed")
    func order() async throws {
        let local = MemoryBackend()
        let (first, second) = (try await buyer(local), try await device(local))
        try await first.sync()
        household.machine.set(household.machine.milliseconds + 10_000)
        try await second.record(.reported(Owls.nightOwl, transaction: "n1"))
        try await second.sync()
        // An answer that was delayed.
        server.update {
            $0.change = { grant in
                grant.issued = Timestamp(milliseconds: grant.issued.milliseconds - 10_000)
                grant.items = []
            }
        }
        household.machine.set(household.machine.milliseconds + GrantServer.lifetime / 2)
        try await first.sync()
        server.update { $0.change = { _ in } }
        #expect(try await first.access(to: Owls.nightOwlAccess) == .denied(.unverified))
        try await first.sync()
        #expect(try await first.access(to: Owls.nightOwlAccess).isGranted)
        #expect(try await first.access(to: Owls.access).isGranted)
    }

    @Test("A grant from the future is replaced by the next sync after the clock was corrected")
    func future() async throws {
        let device = try await buyer()
        household.machine.set(household.machine.milliseconds + 3_600_000)
        try await device.sync()
        household.machine.set(household.machine.milliseconds - 3_600_000)
        try await device.sync()
        #expect(try await device.access(to: Owls.access).isGranted)
    }

    @Test("Two environments on one device keep a grant each")
    func environments() async throws {
        let local = MemoryBackend()
        let production = try await buyer(local)
        try await production.sync()
        try await device(local, environment: .sandbox).sync()
        #expect(try await production.access(to: Owls.access).isGranted)
    }

    @Test("An erased account leaves no grant")
    func erased() async throws {
        let local = MemoryBackend()
        let device = try await buyer(local)
        try await device.sync()
        _ = try await grantKey(in: local)
        try await device.eraseAccount("alice")
        #expect(try await !contents(of: local).keys.contains { $0.text.contains("/grants/") })
    }

    @Test("A failed read of the grant is an error, not a denial")
    func unreadable() async throws {
        let local = MemoryBackend()
        try await buyer(local).sync()
        let isFailing = Switch()
        let device = try await self.device(
            FaultyBackend(local) { call in
                isFailing.isSet && call.key?.text.contains("/grants/") == true ? .permanent(.unavailable) : nil
            })
        #expect(try await device.access(to: Owls.access).isGranted)
        isFailing.set()
        #expect(await kind { try await device.access(to: Owls.access) } == .storage)
        isFailing.set(false)
        #expect(try await device.access(to: Owls.access).isGranted)
    }

    private func grantKey(in local: any KeyValueBackend) async throws -> EntryKey {
        try #require(try await contents(of: local).keys.first { $0.text.contains("/grants/") })
    }
}
