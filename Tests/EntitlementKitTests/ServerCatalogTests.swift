import EntitlementSync
import EntitlementSyncStoreKit
import Entitlements
import Foundation
import HTTPTypes
import ServiceTestSupport
import SyncCore
import SyncService
import Synchronization
import TestSupport
import Testing

@testable import EntitlementKit

/// Verifies no grant.
private struct NoGrants: GrantVerifier {
    func verify(
        _ grant: [UInt8], account: (name: String, incarnation: String), device: String
    ) throws(GrantError) -> SignedGrant {
        throw GrantError(.format, "no grant is expected")
    }
}

@MainActor
@Suite("The catalogue of the server", .timeLimit(.minutes(15)))
struct ServerCatalogTests {
    private static let months = #"{"id":"owls.3months","type":"nonRenewing","group":"owls","duration":"P3M"}"#
    private static let lifetime = #"{"id":"owls.lifetime","type":"nonConsumable"}"#

    private let stage: ShopStage
    /// The file of the server.
    private let file: URL

    init() throws {
        stage = try ShopStage()
        file = URL(filePath: stage.folder.path(of: "server.json"))
    }

    private func catalogue(_ products: [String], _ offerings: String = "") -> [UInt8] {
        Array(
            """
            {"products":[\(products.joined(separator: ","))],
             "entitlements":[{"id":"owls","grantedBy":["group:owls"]}],"offerings":[\(offerings)]}
            """.utf8)
    }

    private func serve(_ catalogue: [UInt8]) throws -> ServerProcess {
        try Data(catalogue).write(to: file)
        return try ServerProcess(
            store: "sqlite:\(stage.folder.path(of: "server.sqlite"))", options: ["--catalog", file.path])
    }

    /// A service in this process that serves `json`, which no other server would.
    private func service(serving json: String) async throws -> CountingTransport {
        CountingTransport(
            try await EntitlementService(
                MemoryBackend(),
                configuration: ServiceConfiguration(name: "https://sync.example.com", catalogJSON: Array(json.utf8)),
                passwords: PlainPasswords(), host: .system, onError: { Issue.record($0) }))
    }

    @Test("The server's products, order and offerings replace the bundled file at once, and count offline later")
    func replacement() async throws {
        let offering = #"{"id":"default","products":["owls.3months","owls.lifetime"]}"#
        let server = try serve(catalogue([Self.lifetime, Self.months], offering))
        let shop = stage.shop("phone", server: server.url, source: FakeAppStore())
        #expect(try await !shop.access(to: "owls").isGranted)
        #expect(shop.offerings == [])
        try await shop.refresh()
        #expect(shop.rows.map(\.id) == ["owls.lifetime", "owls.3months"])
        #expect(shop.offerings.map(\.id) == ["default"])
        #expect(shop.offerings.first?.rows.map(\.id) == ["owls.3months", "owls.lifetime"])
        #expect(shop.offerings.first?.rows.map(\.price) == ["€ 9.99", "€ 49.99"])
        #expect(shop.rows.first?.offer == .buy(unitsLeft: nil), "the bundled file requires an account")

        #expect(server.stop() == 0)
        let restarted = stage.shop("phone", server: server.url)
        try await restarted.refresh()
        #expect(restarted.failure?.kind == .offline)
        #expect(restarted.rows.map(\.id) == ["owls.lifetime", "owls.3months"])
        #expect(restarted.offerings.map(\.id) == ["default"])
        // The copy is that of one server.
        let moved = stage.shop("phone", server: nil)
        try await moved.refresh()
        #expect(moved.rows.map(\.id) == ["owls.3months", "owls.lifetime"] && moved.offerings == [])
    }

    @Test("An offering that the operator changes appears without a restart of the app, with what was bought before")
    func change() async throws {
        let server = try serve(catalogue([Self.months]))
        let shop = stage.shop("phone", server: server.url)
        try await shop.record("owls.3months", transaction: "1")
        let end = try await shop.access(to: "owls").until
        try await whileRunning(shop) { await until { shop.rows.map(\.id) == ["owls.3months"] } }
        #expect(shop.offerings == [])
        let shorter = Self.months.replacing("P3M", with: "P1M")
        try Data(catalogue([shorter, Self.lifetime], #"{"id":"sale","products":["owls.lifetime"]}"#)).write(to: file)
        server.reload()
        while shop.offerings.isEmpty { try await shop.refresh() }
        #expect(shop.offerings.map(\.id) == ["sale"])
        #expect(shop.rows.map(\.id) == ["owls.3months", "owls.lifetime"])
        // The purchase keeps the terms at which it was sold.
        #expect(try await shop.access(to: "owls").until == end)
        #expect(shop.failure == nil)
        #expect(server.stop() == 0)
    }

    @Test(
        "A catalogue that cannot be used leaves the present one, is reported, and is not downloaded again",
        arguments: [
            #"{"products":7}"#, #"{"products":[{"id":"owls","type":"rental"}]}"#, "<html>",
            #"{"products":[],"offerings":[{"id":"default","products":["owls.gone"]}]}"#,
        ])
    func broken(json: String) async throws {
        let requests = try await service(serving: json)
        let shop = stage.shop("phone", server: "https://sync.example.com") { $0.transport = requests }
        try await shop.refresh()
        #expect(shop.failure?.kind == .catalog)
        #expect(shop.failure?.description.contains("https://sync.example.com") == true)
        #expect(shop.rows.map(\.id) == ["owls.3months", "owls.lifetime"])
        #expect(!FileManager.default.fileExists(atPath: stage.folder.path(of: "phone/catalog.json")))
        let condition = Mutex<String?>(nil)
        requests.decide { request in
            condition.withLock { $0 = request.headerFields[.ifNoneMatch] }
            return .arrives
        }
        try await shop.refresh()
        #expect(condition.withLock { $0 } != nil)
        #expect(shop.failure?.kind == .catalog)
    }

    @Test("Members of a later version in the server's catalogue are ignored, and the rest takes effect")
    func later() async throws {
        let requests = try await service(
            serving: #"""
                {"products":[{"id":"owls.lifetime","type":"nonConsumable","family":true}],"regions":[],
                 "entitlements":[{"id":"owls","grantedBy":["product:owls.lifetime"],"icon":"owl"}],
                 "policy":{"refunds":"later"},
                 "offerings":[{"id":"default","products":["owls.lifetime"],"paywall":{"theme":"night"}}]}
                """#)
        let shop = stage.shop("phone", server: "https://sync.example.com") { $0.transport = requests }
        try await shop.refresh()
        #expect(shop.failure == nil)
        #expect(shop.rows.map(\.id) == ["owls.lifetime"] && shop.offerings.map(\.id) == ["default"])
    }

    @Test("The bundled file counts again after an update of the app has changed it, and if the server's is gone")
    func bundled() async throws {
        let requests = try await service(serving: String(decoding: catalogue([Self.months]), as: UTF8.self))
        func shop(_ requests: CountingTransport) -> Shop {
            stage.shop("phone", server: "https://sync.example.com") { $0.transport = requests }
        }
        let first = shop(requests)
        try await first.refresh()
        #expect(first.rows.map(\.id) == ["owls.3months"])
        try Data(catalogue([Self.lifetime, Self.months])).write(to: stage.catalogue)
        let updated = shop(requests)
        requests.decide { _ in .neverArrives }
        try await updated.refresh()
        #expect(updated.rows.map(\.id) == ["owls.lifetime", "owls.3months"])
        requests.decide { _ in .arrives }
        try await updated.refresh()
        #expect(updated.rows.map(\.id) == ["owls.3months"])
        let gone = shop(try await service(serving: ""))
        try await gone.refresh()
        #expect(gone.failure == nil && gone.rows.map(\.id) == ["owls.lifetime", "owls.3months"])
        #expect(!FileManager.default.fileExists(atPath: stage.folder.path(of: "phone/catalog.json")))
    }

    @Test("With signed trust, a catalogue in which units grant access is refused")
    func trust() async throws {
        let units = #"{"id":"owls.coins","type":"consumable"}"#
        let json = #"{"products":[\#(units)],"entitlements":[{"id":"owls","grantedBy":["units:owls.coins"]}]}"#
        let requests = try await service(serving: json)
        let shop = stage.shop("phone", server: "https://sync.example.com") { settings in
            settings.transport = requests
            settings.trust = .signed(by: NoGrants())
        }
        try await shop.refresh()
        #expect(shop.failure?.kind == .catalog && shop.failure?.description.contains("units") == true)
        #expect(shop.rows.map(\.id) == ["owls.3months", "owls.lifetime"])
    }

    @Test("A damaged copy is reported and fetched again, and an unchanged catalogue is not sent again")
    func copy() async throws {
        let json = String(decoding: catalogue([Self.months]), as: UTF8.self)
        let requests = try await service(serving: json)
        func shop() -> Shop {
            stage.shop("phone", server: "https://sync.example.com") { $0.transport = requests }
        }
        try await shop().refresh()
        let copy = URL(filePath: stage.folder.path(of: "phone/catalog.json"))
        let written = try Data(contentsOf: copy)
        let same = shop()
        try await same.refresh()
        #expect(same.rows.map(\.id) == ["owls.3months"] && same.failure == nil)
        #expect(requests.take().filter { $0 == "GET /v1/catalog" }.count == 2)
        try Data(written.prefix(20)).write(to: copy)
        let damaged = shop()
        _ = try await damaged.access(to: "owls")
        #expect(damaged.failure?.kind == .catalog && damaged.failure?.description.contains(copy.path) == true)
        try await damaged.refresh()
        #expect(damaged.rows.map(\.id) == ["owls.3months"] && damaged.failure == nil)
        #expect(try Data(contentsOf: copy) == written)
    }

    @Test("Without a catalogue at the server, the bundled file counts")
    func missing() async throws {
        let requests = try await service(serving: "")
        let shop = stage.shop("phone", server: "https://sync.example.com") { $0.transport = requests }
        try await shop.refresh()
        #expect(shop.failure == nil && shop.rows.map(\.id) == ["owls.3months", "owls.lifetime"])
        #expect(requests.take() == ["GET /v1/catalog"])
    }
}
