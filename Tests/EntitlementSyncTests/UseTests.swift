import EntitlementSync
import Entitlements
import SyncCore
import SyncCoreTesting
import Testing

@Suite("Using an entitlement", .serialized)
struct UseTests {
    private let home: Household
    private let local = MemoryBackend()

    init() throws {
        home = try Household()
    }

    @Test("A unit is used, and the last one is followed by a denial")
    func spends() async throws {
        let store = try await home.offlineDevice(local)
        try await store.record(.reported(Owls.randomOwls))
        for left in stride(from: Int64(4), through: 0, by: -1) {
            #expect(try await store.use(Owls.access) == .spent(remaining: left, of: Owls.randomOwls))
        }
        #expect(try await store.use(Owls.access) == .denied(.usedUp))
        #expect(try await store.snapshot()[balance: Owls.randomOwls] == 0)
    }

    @Test("No unit is used while a subscription is active, and one is once it has ended")
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

    @Test("A use that is denied leaves the bytes of the store as they are")
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

    @Test("The same idempotency key spends once, also after all units are gone and for the next process")
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

    @Test("Keys that are canonically equal and differ in bytes spend one unit each")
    func canonicallyEqualKeys() async throws {
        let store = try await home.offlineDevice(local)
        try await store.record(.reported(Owls.randomOwls))
        _ = try await store.use(Owls.access, id: "caf\u{E9}")
        #expect(try await store.use(Owls.access, id: "cafe\u{301}") == .spent(remaining: 3, of: Owls.randomOwls))
    }

    @Test(
        "A key that is no id is refused and nothing changes",
        arguments: ["", "a\u{0}b", String(repeating: "x", count: 256)])
    func unfitKey(key: String) async throws {
        let store = try await home.offlineDevice(local)
        try await store.record(.reported(Owls.randomOwls))
        let before = try await contents(of: local)
        let error = await #expect(throws: EntitlementError.self) {
            try await store.use(Owls.access, id: SpendID(key))
        }
        #expect(error?.kind == .invalid)
        #expect(try await contents(of: local) == before)
    }

    @Test("Two store objects spend a last unit once, and one of them is denied")
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

    @Test("Two store objects that use one key at once spend one unit, and both are told so")
    func oneKeyTwice() async throws {
        let first = try await home.offlineDevice(local)
        let second = try await home.offlineDevice(local)
        try await first.record(.reported(Owls.randomOwls))
        async let one = first.use(Owls.access, id: "k")
        async let other = second.use(Owls.access, id: "k")
        let outcomes: Set = [try await one, try await other]
        #expect(outcomes == [.spent(remaining: 4, of: Owls.randomOwls)])
    }

    @Test("Another object that spends the same key just before the write is believed")
    func keySpentMeanwhile() async throws {
        let other = try await home.offlineDevice(local)
        try await other.record(.reported(Owls.randomOwls))
        let key = try EntryKey("device/accounts/alice/initial/ledger")
        let meddling = FaultyBackend(local) { call in
            guard call.operation == .write, call.key == key else { return nil }
            do { _ = try await other.use(Owls.access, id: "k") } catch { Issue.record(error) }
            return nil
        }
        let store = try await home.offlineDevice(meddling)
        #expect(try await store.use(Owls.access, id: "k") == .spent(remaining: 4, of: Owls.randomOwls))
    }

    @Test("Units overspent by two offline devices are written off, and a later purchase is whole")
    func overspent() async throws {
        let home = try Household(catalog: try Owls.catalog(consumables: .shared))
        let phone = try await home.device()
        let tablet = try await home.device()
        try await phone.record(.reported(Owls.randomOwls, transaction: "five"))
        try await phone.sync()
        try await tablet.sync()
        for _ in 0..<5 { _ = try await phone.use(Owls.access) }
        for _ in 0..<3 { _ = try await tablet.use(Owls.access) }
        for store in [phone, tablet, phone] { try await store.sync() }
        #expect(try await phone.snapshot()[balance: Owls.randomOwls] == 0)
        try home.machine.set("2026-01-10T13:00:00Z")
        try await tablet.record(.reported(Owls.randomOwls, transaction: "five more"))
        try await tablet.sync()
        try await phone.sync()
        #expect(try await phone.snapshot()[balance: Owls.randomOwls] == 5)
        #expect(try await tablet.snapshot()[balance: Owls.randomOwls] == 5)
    }
}
