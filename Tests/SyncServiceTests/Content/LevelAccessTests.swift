import EntitlementSync
import Entitlements
import Foundation
import HTTPStorage
import HTTPTypes
import ServiceTestSupport
import SyncCore
import SyncProtocol
import Testing

@testable import SyncService

/// A subscription with two levels, one selfie or all of them, as devices, the server, content and grants see it.
@Suite("Access by level on devices and on the server")
struct LevelAccessTests {
    private static let catalogue = """
        {"products":[{"id":"one.weekly","type":"autoRenewable","group":"selfies","level":2,"duration":"P1W"},
           {"id":"one.yearly","type":"autoRenewable","group":"selfies","level":2,"duration":"P1Y"},
           {"id":"all.weekly","type":"autoRenewable","group":"selfies","level":1,"duration":"P1W"},
           {"id":"all.yearly","type":"autoRenewable","group":"selfies","level":1,"duration":"P1Y"}],
         "entitlements":[{"id":"all","grantedBy":["group:selfies@1"]},{"id":"one","grantedBy":["group:selfies@2"]},
           {"id":"yearbook","grantedBy":["product:one.yearly","product:all.yearly"]}],
         "content":[{"path":"/all/","entitlement":"all","by":"now"},{"path":"/one/","entitlement":"one","by":"now"},
           {"path":"/yearbook/","entitlement":"yearbook","by":"now"}]}
        """
    private static let day: Int64 = 86_400_000
    private static let entitlements: [EntitlementID] = ["all", "one", "yearbook"]

    private let clock = TestClock(EvidenceStage.start)
    private let service: EntitlementService
    private let phone: Device

    init() async throws {
        let catalog = try Catalog(json: Array(Self.catalogue.utf8))
        service = try await .open(
            MemoryBackend(), clock: clock,
            configure: { configuration in
                configuration.catalog = catalog
                configuration.policy = .verified
                configuration.evidence.appStore = PlainStoreVerifier()
                configuration.grants = GrantConfiguration(root: SigningKey(id: "root"), days: 30)
            })
        phone = try await Device(service, catalog, clock: clock)
        try await phone.signUp()
    }

    private var token: String? { get async throws { try await phone.tokens.token(refused: nil) } }

    /// Sends a period of the subscription to the server, as the store signs it now.
    private func sell(_ product: String, _ id: String, days: Int64) async throws {
        var sale = Sale(id, at: clock.now)
        (sale.original, sale.product, sale.expires) = ("1", product, clock.now + days * Self.day)
        try await send(sale)
    }

    private func send(_ sale: Sale) async throws {
        let item = ["kind": "app-store-transaction", "jws": try StoreMint.jws(sale)]
        let reply = try await service.ask(.post, "/v1/transactions", token: token, json: ["evidence": [item]])
        try #require(reply.status == 200)
    }

    /// The ends of the granted entitlements in days from the start, as each side knows them. All sides must agree.
    private func open(sourceLocation: SourceLocation = #_sourceLocation) async throws -> [EntitlementID: Int64] {
        try await phone.store.sync()
        var ends: [EntitlementID: Int64] = [:]
        for item in try await phone.store.snapshot().access {
            guard case .granted(let grant) = item.access, let until = grant.until else { continue }
            ends[item.entitlement] = (until.milliseconds - EvidenceStage.start) / Self.day
        }
        let served = try await service.ask(.get, "/v1/entitlements", token: token)
        let derived = try await phone.store.snapshot().json(account: "\(phone.store.account)").text()
        #expect(derived == String(decoding: served.body, as: UTF8.self), sourceLocation: sourceLocation)
        #expect(try await granted() == ends, sourceLocation: sourceLocation)
        let reply = try await service.ask(.post, "/v1/content-sessions", token: token)
        let session = try #require(reply["session"])
        for entitlement in Self.entitlements {
            let status = try await check("/\(entitlement)/1.jpg", session)
            #expect(status == (ends[entitlement] == nil ? 403 : 204), "\(entitlement)", sourceLocation: sourceLocation)
        }
        return ends
    }

    /// The ends of the entitlements in a signed grant, in days from the start.
    private func granted() async throws -> [EntitlementID: Int64] {
        let reply = try await service.ask(.get, "/v1/grants?device=phone", token: token)
        return try WebToken(try #require(reply["grant"])).claims { claims throws(InputError) in
            var ends: [EntitlementID: Int64] = [:]
            for (name, item) in try claims.required("entitlements").object().all {
                let until = try item.object().required("until").timestamp().milliseconds
                ends[EntitlementID(name)] = (until - EvidenceStage.start) / Self.day
            }
            return ends
        }
    }

    /// The status of a web server's question about `path`.
    private func check(_ path: String, _ session: String) async throws -> Int {
        var fields: HTTPFields = [.authorization: "Bearer \(session)"]
        fields[try #require(HTTPField.Name("X-Original-URI"))] = path
        return await service.ask(.get, "/v1/content-check", fields).status
    }

    private func pass(days: Int64) { clock.pass(seconds: days * 86_400) }

    @Test("One opens one; an upgrade opens all at once; a downgrade closes all at the renewal, not before")
    func upgradeAndDowngrade() async throws {
        #expect(try await open() == [:])
        try await sell("one.weekly", "1", days: 7)
        #expect(try await open() == ["one": 7])
        pass(days: 3)
        try await sell("all.weekly", "2", days: 7)
        #expect(try await open() == ["all": 10, "one": 10])
        pass(days: 6)
        #expect(try await open() == ["all": 10, "one": 10])
        pass(days: 1)
        // The renewal to one selfie arrives in time.
        try await sell("one.yearly", "3", days: 20)
        #expect(try await open() == ["one": 30, "yearbook": 30])
        let end = Timestamp(milliseconds: clock.now)
        #expect(try await phone.store.access(to: "all") == .denied(.expired(end)))
        pass(days: 20)
        #expect(try await open() == [:])
    }

    @Test("A session for content ends when the level does, although the group stays active")
    func session() async throws {
        try await sell("one.yearly", "1", days: 365)
        var sale = Sale("2", at: clock.now)
        (sale.product, sale.expires) = ("all.weekly", clock.now + 90_000)
        try await send(sale)
        let reply = try await service.ask(.post, "/v1/content-sessions", token: token)
        #expect(reply["expires"] == "\(Timestamp(milliseconds: clock.now + 90_000))")
        let session = try #require(reply["session"])
        #expect(try await check("/all/1.jpg", session) == 204)
        clock.pass(seconds: 90)
        #expect(try await check("/all/1.jpg", session) == 401)
        #expect(try await open() == ["one": 365, "yearbook": 365])
    }

    @Test("A refund closes its level, and what a client claims opens none")
    func refund() async throws {
        var sale = Sale("1", at: clock.now)
        (sale.product, sale.expires) = ("all.yearly", clock.now + 365 * Self.day)
        try await send(sale)
        #expect(try await open() == ["all": 365, "one": 365, "yearbook": 365])
        pass(days: 2)
        try await send(sale.refunded(at: clock.now))
        #expect(try await open() == [:])
        let revoked = Timestamp(milliseconds: clock.now)
        #expect(try await phone.store.access(to: "one") == .denied(.revoked(revoked)))
        try await phone.store.record(.reported("all.weekly", transaction: "claimed"))
        #expect(try await open() == [:])
    }
}
