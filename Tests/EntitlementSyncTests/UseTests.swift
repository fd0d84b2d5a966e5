import EntitlementSync
import Entitlements
import SyncCore
import SyncCoreTesting
import TestSupport
import Testing

@Suite("Using an entitlement", .serialized)
struct UseTests {
    private let home: Household
    private let local = MemoryBackend()

    init() throws {
        home = try Household()
    }

    @Test("Each use spends one unit, and a use after the last unit is denied")
    func spends() async throws {
        let store = try await home.offlineDevice(local)
        try await store.record(.reported(Owls.randomOwls))
        for left in stride(from: Int64(4), through: 0, by: -1) {
            #expect(try await store.use(Owls.access) == .spent(remaining: left, of: Owls.randomOwls))
        }
        #expect(try await store.use(Owls.access) == .denied(.usedUp))
        #expect(try await store.snapshot()[balance: Owls.randomOwls] == 0)
    }

    @Test("An active subscription spends no units; after it has ended, a use spends one")
    func subscriptionFirst() async throws {
        let store = try await home.offlineDevice(local)
        try await store.record([.reported(Owls.randomOwls), .reported(Owls.threeMonths)])
        let before = try await contents(of: local)
        let grant = Access.Grant(until: try date("2026-04-10T12:00:00Z"), source: .group(Owls.random))
        #expect(try await store.use(Owls.access) == .granted(grant))
        #expect(try await contents(of: local) == before)
        try home.machine.set("2026-04-10T12:00:00Z")
        #expect(try await store.use(Owls.access) == .spent(remaining: 4, of: Owls.randomOwls))
    }

    @Test("A denied use does not change the bytes of the store")
    func deniedChangesNothing() async throws {
        let store = try await home.offlineDevice(local)
        #expect(try await store.use(Owls.access) == .denied(.notPurchased))
        #expect(try await contents(of: local).isEmpty)

        try await store.record(.reported(Owls.randomOwls))
        for _ in 0..<5 { _ = try await store.use(Owls.access) }
        let before = try await contents(of: local)
        #expect(try await store.use(Owls.access) == .denied(.usedUp))
        #expect(try await contents(of: local) == before)
    }

    @Test("An idempotency key spends once, even after all units are gone and in a later process")
    func idempotent() async throws {
        let store = try await home.offlineDevice(local)
        try await store.record(.reported(Owls.randomOwls))
        #expect(try await store.use(Owls.access, id: "k") == .spent(remaining: 4, of: Owls.randomOwls))
        #expect(try await store.use(Owls.access, id: "k") == .spent(remaining: 4, of: Owls.randomOwls))
        for _ in 0..<4 { _ = try await store.use(Owls.access) }
        let before = try await contents(of: local)
        let reopened = try await home.offlineDevice(local)
        #expect(try await reopened.use(Owls.access, id: "k") == .spent(remaining: 0, of: Owls.randomOwls))
        #expect(try await contents(of: local) == before)
    }

    @Test("Keys that are canonically equal but differ in bytes spend one unit each")
    func canonicallyEqualKeys() async throws {
        let store = try await home.offlineDevice(local)
        try await store.record(.reported(Owls.randomOwls))
        _ = try await store.use(Owls.access, id: "caf\u{E9}")
        #expect(try await store.use(Owls.access, id: "cafe\u{301}") == .spent(remaining: 3, of: Owls.randomOwls))
    }

    @Test(
        "A key that is not a valid id is rejected and nothing changes",
        arguments: ["", "a\u{0}b", String(repeating: "x", count: 256)])
    func invalidKey(key: String) async throws {
        let store = try await home.offlineDevice(local)
        try await store.record(.reported(Owls.randomOwls))
        let before = try await contents(of: local)
        #expect(await kind { try await store.use(Owls.access, id: SpendID(key)) } == .invalid)
        #expect(try await contents(of: local) == before)
    }

    @Test("When two store objects compete for the last unit, one spends it and the other is denied")
    func lastUnitTwice() async throws {
        let first = try await home.offlineDevice(local)
        let second = try await home.offlineDevice(local)
        try await first.record(.reported(Owls.randomOwls))
        for _ in 0..<4 { _ = try await first.use(Owls.access) }
        async let one = first.use(Owls.access)
        async let other = second.use(Owls.access)
        let outcomes: Set = [try await one, try await other]
        #expect(outcomes == [.spent(remaining: 0, of: Owls.randomOwls), .denied(.usedUp)])
    }

    @Test("Two store objects that use one key concurrently spend one unit and return the same outcome")
    func oneKeyTwice() async throws {
        let first = try await home.offlineDevice(local)
        let second = try await home.offlineDevice(local)
        try await first.record(.reported(Owls.randomOwls))
        async let one = first.use(Owls.access, id: "k")
        async let other = second.use(Owls.access, id: "k")
        let outcomes: Set = [try await one, try await other]
        #expect(outcomes == [.spent(remaining: 4, of: Owls.randomOwls)])
    }

    @Test("A use whose key another store object spends just before the write spends nothing more")
    func keySpentMeanwhile() async throws {
        let other = try await home.offlineDevice(local)
        try await other.record(.reported(Owls.randomOwls))
        let key = try EntryKey("device/accounts/alice/initial/ledger")
        let interleaving = FaultyBackend(local) { call in
            guard call.operation == .write, call.key == key else { return nil }
            do { _ = try await other.use(Owls.access, id: "k") } catch { Issue.record(error) }
            return nil
        }
        let store = try await home.offlineDevice(interleaving)
        #expect(try await store.use(Owls.access, id: "k") == .spent(remaining: 4, of: Owls.randomOwls))
    }
}
