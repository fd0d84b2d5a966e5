import EntitlementSync
import Entitlements
import HTTPStorage
import HTTPTypes
import ServiceTestSupport
import SyncCore
import SyncProtocol
import SyncService
import TestSupport
import Testing

@Suite("Devices of an account on a server")
struct DeviceTests {
    private static let now: Int64 = 1_800_000_000_000
    private let clock = TestClock(Self.now)
    private let service: EntitlementService
    private let catalog: Catalog

    init() async throws {
        service = try await .open(MemoryBackend(), clock: clock)
        catalog = try Catalog(
            json: Array(
                """
                {"products":[{"id":"month","type":"nonRenewing","group":"owls","duration":"P1M"},
                  {"id":"owl","type":"nonConsumable"}],
                 "entitlements":[{"id":"owls","grantedBy":["group:owls"]},{"id":"owl","grantedBy":["product:owl"]}]}
                """.utf8))
    }

    private func device(clock: TestClock? = nil, local: MemoryBackend = MemoryBackend()) async throws -> Device {
        try await Device(service, catalog, clock: clock ?? self.clock, local: local)
    }

    private func evidence(_ id: String, _ product: ProductID = "month", daysAgo days: Int64 = 0) -> Evidence {
        .reported(
            product, transaction: TransactionID(id), date: Timestamp(milliseconds: Self.now - days * 86_400_000))
    }

    @Test("A purchase made before sign-up moves to the new account and reaches its second device")
    func twoDevices() async throws {
        let (phone, tablet) = (try await device(), try await device())
        try await phone.store.record(evidence("t1"))
        try await phone.signUp()
        try await phone.store.sync()
        try await tablet.logIn()
        #expect(try await tablet.store.access(to: "owls") == .denied(.restoreNeeded))
        #expect(try await tablet.store.restore().purchases.map(\.transaction.id) == ["t1"])
        #expect(try await tablet.store.access(to: "owls").isGranted)
        try await tablet.store.record(evidence("t2"))
        try await phone.store.record(evidence("t3"))
        for device in [phone, tablet, phone] { try await device.store.sync() }
        #expect(try await phone.end() == tablet.end())
        #expect(try await phone.store.replay().facts.purchases.count == 3)
        // Creating an account that exists returns it and writes nothing to the server.
        _ = phone.transport.take()
        #expect(try await phone.store.createAccount("alice") == phone.store.account)
        #expect(phone.transport.take().allSatisfy { $0.hasPrefix("GET ") })
    }

    @Test("Each sync sends the expected requests, and a new device needs three for ten years of purchases")
    func requests() async throws {
        let (phone, tablet) = (try await device(), try await device())
        for month in 0..<120 {
            try await phone.store.record(evidence("t\(month)", daysAgo: Int64(month) * 30))
        }
        try await phone.signUp()
        _ = phone.transport.take()
        try await phone.store.sync()
        let ledger = "/v1/kv/accounts/alice/\(phone.store.account.incarnation)/ledger"
        #expect(phone.transport.take() == ["GET \(ledger)", "PUT \(ledger)"], "first contact")

        try await tablet.tokens.begin(tablet.client.logIn("alice", password: Device.password))
        _ = tablet.transport.take()
        try await tablet.store.logIn("alice")
        #expect(try await tablet.store.restore().purchases.count == 120)
        #expect(
            tablet.transport.take() == ["GET /v1/kv/accounts/alice/account", "GET \(ledger)", "GET \(ledger)"])

        try await tablet.store.sync()
        #expect(tablet.transport.take() == ["GET \(ledger)"], "nothing changed")
        try await tablet.store.record(evidence("new 1"))
        try await tablet.store.sync()
        #expect(tablet.transport.take() == ["PUT \(ledger)"], "changed locally")
        _ = phone.transport.take()
        try await phone.store.sync()
        #expect(phone.transport.take() == ["GET \(ledger)"], "changed remotely")
        try await phone.store.record(evidence("new 2"))
        try await tablet.store.record(evidence("new 3"))
        try await phone.store.sync()
        _ = tablet.transport.take()
        try await tablet.store.sync()
        #expect(tablet.transport.take() == ["PUT \(ledger)", "PUT \(ledger)"], "changed on both sides")
    }

    @Test("A device fetches each server decision once, applies and reports it, and keeps it offline")
    func decisions() async throws {
        // The phone's clock, and therefore the date of its purchase, is a year ahead.
        let ahead = TestClock(Self.now + 365 * 86_400_000)
        let (local, tabletLocal) = (MemoryBackend(), MemoryBackend())
        let (phone, tablet) = (
            try await device(clock: ahead, local: local), try await device(local: tabletLocal)
        )
        try await phone.signUp()
        _ = phone.transport.take()
        try await phone.store.record(.reported("month", transaction: "ahead"))
        let events = phone.store.events
        try await phone.store.sync()
        let prefix = "/v1/kv/accounts/alice/\(phone.store.account.incarnation)/"
        #expect(
            phone.transport.take() == ["GET \(prefix)ledger", "PUT \(prefix)ledger", "GET \(prefix)decisions"])
        let end = try Timestamp("2027-02-15T08:00:00Z")
        #expect(try await phone.end() == end, "dated by the server's clock")
        var reported: [Conflict] = []
        for await event in events {
            if case .conflicts(let conflicts) = event {
                reported = conflicts
                break
            }
        }
        let conflicts = try await phone.store.conflicts()
        #expect(conflicts.count == 1 && reported == conflicts)
        try await phone.store.sync()
        #expect(phone.transport.take() == ["GET \(prefix)ledger"], "the decision is stored")

        try await tablet.logIn()
        _ = tablet.transport.take()
        #expect(try await tablet.store.syncDryRun().accessChanges.contains { $0.after.isGranted })
        #expect(try await tabletLocal.read(EntryKey("device" + prefix.dropFirst(6) + "decisions")).outcome == .absent)
        try await tablet.store.restore()
        #expect(try await tablet.end() == end)
        _ = tablet.transport.take()
        try await tablet.store.sync()
        #expect(tablet.transport.take() == ["GET \(prefix)ledger"])
        for local in [local, tabletLocal] {
            let offline = try await EntitlementStore(catalog: catalog, local: local, clock: .host, host: clock.host)
            #expect(try await offline.snapshot().subscriptions.first?.expires == end, "offline")
            #expect(try await offline.conflicts().count == 1)
        }
    }

    @Test("Another account's transaction does not count, and the next sync retries a failed read of decisions")
    func rejectedTransaction() async throws {
        let (alice, mallory) = (try await device(), try await device())
        try await alice.store.record(evidence("t1", "owl"))
        try await alice.signUp()
        try await alice.store.sync()
        try await mallory.store.record(evidence("t1", "owl"))
        try await mallory.signUp("mallory")
        mallory.transport.decide { $0.path?.hasSuffix("/decisions") == true ? .neverArrives : .arrives }
        let error = await #expect(throws: EntitlementError.self) { try await mallory.store.sync() }
        #expect(error?.kind == .sync && error?.isTransient == true)
        mallory.transport.decide { _ in .arrives }
        try await mallory.store.sync()
        #expect(try await !mallory.store.access(to: "owl").isGranted)
        #expect(try await mallory.store.conflicts().count == 1)
        #expect(try await alice.store.access(to: "owl").isGranted)
    }

    @Test("Only the server erases an account; the devices find out, and a new account of that name starts empty")
    func erasing() async throws {
        let (phone, tablet) = (try await device(), try await device())
        try await phone.store.record(evidence("t1"))
        try await phone.signUp()
        try await phone.store.sync()
        try await tablet.logIn()
        try await tablet.store.restore()
        let error = await #expect(throws: EntitlementError.self) { try await phone.store.eraseAccount("alice") }
        #expect(error?.kind == .refused && error?.message.contains("by password") == true)
        #expect(try await phone.store.access(to: "owls").isGranted && phone.store.account.name == "alice")
        let rejection = await #expect(throws: AccountError.self) {
            try await phone.client.erase(password: "wrong horse", token: phone.token)
        }
        #expect(rejection?.kind == .invalidCredentials)
        try await phone.client.erase(password: Device.password, token: phone.token)
        for device in [phone, tablet] {
            let error = await #expect(throws: EntitlementError.self) { try await device.store.sync() }
            #expect(error?.kind == .accountErased)
            #expect(device.store.account.isAnonymous)
        }
        try await phone.signUp()
        #expect(try await phone.store.restore().purchases.isEmpty)
        try await tablet.logIn()
        #expect(try await tablet.store.restore().purchases.isEmpty)
        #expect(tablet.store.account == phone.store.account)
    }

    @Test("Facts that could not be sent before a log-out stay on the device and are sent after the next log-in")
    func loggingOut() async throws {
        let (phone, tablet) = (try await device(), try await device())
        try await phone.signUp()
        try await phone.store.record(evidence("t1"))
        phone.transport.decide { _ in .neverArrives }
        let report = try await phone.store.logOut()
        #expect(report.hasUnsentFacts && report.failure?.isTransient == true)
        phone.transport.decide { _ in .arrives }
        try await phone.client.logOut(token: phone.token)
        try await phone.tokens.forget()
        let error = await #expect(throws: EntitlementError.self) { try await phone.store.logIn("alice") }
        #expect(error?.kind == .sync && error?.isTransient == false)
        try await phone.logIn()
        try await phone.store.sync()
        try await tablet.logIn()
        #expect(try await tablet.store.restore().purchases.map(\.transaction.id) == ["t1"])
    }
}
