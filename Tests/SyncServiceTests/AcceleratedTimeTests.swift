import EntitlementSync
import Entitlements
import HTTPStorage
import HTTPTypes
import ServiceTestSupport
import SyncCore
import SyncService
import Testing

@Suite("Accelerated time on devices and on the server")
struct AcceleratedTimeTests {
    private static let catalogue = """
        {"products":[{"id":"week","type":"nonRenewing","group":"owls","duration":"P1W"},
           {"id":"month","type":"nonRenewing","group":"owls","duration":"P1M"},
           {"id":"days","type":"nonRenewing","group":"owls","duration":"P4D"},
           {"id":"lifetime","type":"nonRenewing","group":"owls","duration":"forever"}],
         "entitlements":[{"id":"owls","grantedBy":["group:owls"]}],
         "policy":{"bonus":"PT12H","sandboxTime":"accelerated"},
         "content":[{"path":"/owls/{set}/","group":"owls","by":"period"}]}
        """
    private let clock = TestClock(1_800_000_000_000)
    private let service: EntitlementService
    private let catalog: Catalog

    init() async throws {
        let catalog = try Catalog(json: Array(Self.catalogue.utf8))
        self.catalog = catalog
        service = try await .open(
            MemoryBackend(), clock: clock,
            configure: { configuration in
                configuration.catalog = catalog
                configuration.contentEnvironment = .sandbox
            })
    }

    private func device(_ environment: EnvironmentID = .sandbox) async throws -> Device {
        try await Device(service, catalog, clock: clock, environment: environment)
    }

    /// The server's answer about the account of `device`.
    private func answer(_ device: Device, in environment: EnvironmentID = .sandbox) async throws -> String {
        let reply = try await service.ask(
            .get, "/v1/entitlements?environment=\(environment)", token: device.tokens.token(refused: nil))
        #expect(reply.status == 200)
        return String(decoding: reply.body, as: UTF8.self)
    }

    private func derived(on device: Device) async throws -> String {
        try await device.store.snapshot().json(account: "\(device.store.account)").text()
    }

    @Test("Two devices and the server derive the same state at every minute, until a purchase for good")
    func alike() async throws {
        let (phone, tablet) = (try await device(), try await device())
        try await phone.signUp()
        try await phone.store.sync()
        try await tablet.logIn()
        var sale = 0
        for (index, product) in ["week", "days", "month", "week", "days", "week", "lifetime", "month"].enumerated() {
            let buyer = index.isMultiple(of: 2) ? phone : tablet
            sale += 1
            try await buyer.store.record(
                .reported(ProductID(product), transaction: TransactionID("t\(sale)"), quantity: Int64(index % 3 + 1)))
            for device in [phone, tablet, phone] { try await device.store.sync() }
            for _ in 0..<5 {
                let served = try await answer(phone)
                #expect(try await derived(on: phone) == served)
                #expect(try await derived(on: tablet) == served)
                clock.pass(seconds: 100)
            }
        }
        let state = try await phone.store.snapshot()[group: "owls"]
        #expect(state?.isActiveForGood == true)
        #expect(try await answer(phone).contains("\"expires\": null"))
        #expect(try await !answer(phone, in: .production).contains("\"active\": true"))
    }

    @Test("A tester sees the expiry and the next week's content within minutes, and a buyer in production does not")
    func minutes() async throws {
        let phone = try await device()
        try await phone.signUp()
        for (environment, id) in [(EnvironmentID.sandbox, "s"), (.production, "p")] {
            try await phone.store.record(
                .reported("week", transaction: TransactionID(id), environment: environment))
        }
        try await phone.store.sync()
        // 3 minutes for the week, and 13 seconds for the bonus of 12 hours.
        #expect(try await phone.end() == Timestamp(milliseconds: clock.now + 193_000))
        #expect(try await phone.store.access(to: "owls").isGranted)
        #expect(try await sets(of: phone) == [1])
        clock.pass(seconds: 193)
        let end = Timestamp(milliseconds: clock.now)
        #expect(try await phone.store.access(to: "owls") == .denied(.expired(end)))
        try await phone.store.record(.reported("week", transaction: "s2"))
        try await phone.store.sync()
        #expect(try await sets(of: phone) == [1, 2])
        let paid = Timestamp(milliseconds: clock.now - 193_000).adding(CalendarDuration(days: 7, seconds: 43_200))
        #expect(try await answer(phone, in: .production).contains("\"expires\": \"\(paid)\""))
    }

    /// The numbers of the periods in a content session.
    private func sets(of device: Device) async throws -> [Int] {
        let reply = try await service.ask(
            .post, "/v1/content-sessions", token: device.tokens.token(refused: nil))
        #expect(reply.status == 201)
        let periods = try JSONReader(parsing: reply.body).object().required("periods").array()
        return try periods.map { Int(try $0.object().required("index").integer()) }
    }
}
