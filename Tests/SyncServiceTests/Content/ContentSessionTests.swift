import Entitlements
import Foundation
import HTTPTypes
import ServiceTestSupport
import SyncCore
import SyncProtocol
import Testing

@testable import SyncService

@Suite("Content sessions")
struct ContentSessionTests {
    private static let catalog = """
        {"products":[{"id":"month","type":"autoRenewable","group":"owls","duration":"P1M","level":1},
          {"id":"owl","type":"nonConsumable"}],
         "entitlements":[{"id":"owl","grantedBy":["product:owl"]}],
         "content":[{"path":"/owls/{set}/","group":"owls","by":"period"},
          {"path":"/live/","group":"owls","by":"now"},{"path":"/extra/","entitlement":"owl","by":"now"}]}
        """
    private static let day: Int64 = 86_400_000

    private let store = MemoryBackend()
    private let clock = TestClock(EvidenceStage.start)
    private let service: EntitlementService
    private let alice: LedgerAccount

    init() async throws {
        service = try await Self.open(store, clock)
        alice = await LedgerAccount(service, "alice")
    }

    private static func open(
        _ store: MemoryBackend, _ clock: TestClock, catalog: String = catalog, environment: EnvironmentID = .production
    ) async throws -> EntitlementService {
        var configuration = ServiceConfiguration(
            name: "https://sync.example.com", catalog: try Catalog(json: Array(catalog.utf8)))
        configuration.policy = .verified
        configuration.accessTokenLifetime = 100 * 86_400
        configuration.evidence.appStore = PlainStoreVerifier()
        configuration.contentEnvironment = environment
        let service = try await EntitlementService(
            store, configuration: configuration, passwords: PlainPasswords(), host: clock.host,
            onError: { _ in })
        await service.followChanges()
        return service
    }

    private func send(_ sale: Sale) async throws {
        let item = ["kind": "app-store-transaction", "jws": try StoreMint.jws(sale)]
        let reply = await service.ask(.post, "/v1/transactions", token: alice.token, json: ["evidence": [item]])
        try #require(reply.status == 200)
    }

    private func session(of service: EntitlementService? = nil) async -> Reply {
        await (service ?? self.service).ask(.post, "/v1/content-sessions", token: alice.token)
    }

    private func present(_ evidence: [String], to service: EntitlementService? = nil, peer: String = "192.0.2.1") async
        -> Reply
    {
        await (service ?? self.service).ask(.post, "/v1/content-sessions", json: ["evidence": evidence], peer: peer)
    }

    private static func head(_ target: String, _ fields: HTTPFields) throws -> HTTPRequest {
        var fields = fields
        fields[try #require(HTTPField.Name("X-Original-URI"))] = target
        return HTTPRequest(
            method: .get, scheme: "http", authority: "x", path: "/v1/content-check", headerFields: fields)
    }

    /// The status of a check, by the slow path and then by the fast one, which must agree if it answers.
    private func check(
        _ target: String, _ token: String?, asCookie: Bool = false, at service: EntitlementService? = nil
    ) async throws -> Int {
        let service = service ?? self.service
        var fields = HTTPFields()
        if let token {
            fields[asCookie ? .cookie : .authorization] = asCookie ? "a=b; __Host-content=\(token)" : "Bearer \(token)"
        }
        let head = try Self.head(target, fields)
        let slow = await service.respond(to: ServiceRequest(head, body: [], peer: "192.0.2.1")).head.status.code
        if let fast = service.fastRead(head, peer: "192.0.2.1") { #expect(fast.head.status.code == slow) }
        return slow
    }

    @Test("A session opens what was paid, as a bearer and as a cookie")
    func bearer() async throws {
        try await send(.month("1", of: "1", at: clock.now - Self.day))
        let reply = await session()
        #expect(reply.status == 201)
        let token = try #require(reply["session"])
        for isCookie in [false, true] {
            #expect(try await check("/owls/1/a.jpg?size=2", token, asCookie: isCookie) == 204)
            #expect(try await check("/live/", token, asCookie: isCookie) == 204)
            #expect(try await check("/owls/2/a.jpg", token, asCookie: isCookie) == 403)
            #expect(try await check("/extra/a", token, asCookie: isCookie) == 403)
            #expect(try await check("/other", token, asCookie: isCookie) == 403)
            #expect(try await check("/owls/1/../2/a", token, asCookie: isCookie) == 403)
        }
        #expect(
            reply.fields[.setCookie]
                == "__Host-content=\(token); Max-Age=600; Path=/; HttpOnly; Secure; SameSite=Lax")
        let periods = try #require(reply.members["periods"] as? [[String: Any]])
        #expect(periods.count == 1 && periods[0]["index"] as? Int == 1 && periods[0]["level"] as? Int == 1)
        #expect((reply.members["current"] as? [String: Any])?["index"] as? Int == 1)
        #expect(reply["expires"] == "\(Timestamp(milliseconds: clock.now + 600_000))")
    }

    @Test("A known session is checked without the slow path, until it expires")
    func fast() async throws {
        try await send(.month("1", of: "1", at: clock.now - Self.day))
        let token = try #require(await session()["session"])
        let head = try Self.head("/owls/1/a.jpg", [.authorization: "Bearer \(token)"])
        #expect(service.fastRead(head, peer: "192.0.2.1") == nil)
        #expect(try await check("/owls/1/a.jpg", token) == 204)
        #expect(service.fastRead(head, peer: "192.0.2.1")?.head.status == .noContent)
        clock.advance(seconds: 599)
        #expect(service.fastRead(head, peer: "192.0.2.1")?.head.status == .noContent)
        clock.advance(seconds: 1)
        #expect(service.fastRead(head, peer: "192.0.2.1") == nil)
        #expect(try await check("/owls/1/a.jpg", token) == 401)
    }

    @Test("A session ends with the period that opens its content")
    func periodEnd() async throws {
        let start = clock.now - 30 * Self.day + 90_000
        try await send(.month("1", of: "1", at: start))
        let reply = await session()
        #expect(reply["expires"] == "\(Timestamp(milliseconds: start + 30 * Self.day))")
        let token = try #require(reply["session"])
        #expect(try await check("/live/", token) == 204)
        clock.advance(seconds: 89)
        #expect(try await check("/live/", token) == 204)
        clock.advance(seconds: 1)
        #expect(try await check("/live/", token) == 401)
        let next = try #require(await session()["session"])
        #expect(try await check("/live/", next) == 403)
        #expect(try await check("/owls/1/a", next) == 204)
    }

    @Test("A refund acts when the session ends, at the latest")
    func refund() async throws {
        let sale = Sale.month("1", of: "1", at: clock.now - Self.day)
        try await send(sale)
        let token = try #require(await session()["session"])
        try await send(sale.refunded(at: clock.now))
        #expect(try await check("/owls/1/a", token) == 204)
        let next = try #require(await session()["session"])
        for path in ["/owls/1/a", "/live/"] { #expect(try await check(path, next) == 403) }
        clock.advance(seconds: 600)
        #expect(try await check("/owls/1/a", token) == 401)
    }

    @Test("Purchases of another environment open nothing, whoever presents them")
    func environment() async throws {
        var sale = Sale.month("1", of: "1", at: clock.now)
        sale.environment = "Sandbox"
        try await send(sale)
        let token = try #require(await session()["session"])
        #expect(try await check("/live/", token) == 403)
        #expect(await present([try StoreMint.jws(sale)]).status == 422)
        let sandbox = try await Self.open(store, clock, environment: .sandbox)
        let other = try #require(await session(of: sandbox)["session"])
        #expect(try await check("/live/", other, at: sandbox) == 204)
        // Both servers share the store, the name and the keys.
        #expect(try await check("/live/", other) == 401)
        #expect(try await check("/live/", token, at: sandbox) == 401)
    }

    @Test("A receipt opens its periods, a single transaction only what is open now")
    func evidence() async throws {
        let sale = Sale.month("1", of: "1", at: clock.now - Self.day).signed(at: clock.now)
        let single = try #require(await present([try StoreMint.jws(sale)])["session"])
        #expect(try await check("/live/", single) == 204)
        #expect(try await check("/owls/1/a", single) == 403)
        let receipt = await present([try StoreMint.receipt(sale, at: clock.now)])
        #expect(receipt.status == 201)
        let token = try #require(receipt["session"])
        #expect(try await check("/owls/1/a", token) == 204)
        // Beside a receipt, anything could shift the numbers.
        let other = Sale.month("2", of: "2", at: clock.now)
        let mixed = await present([try StoreMint.receipt(sale, at: clock.now), try StoreMint.jws(other)])
        let mixedToken = try #require(mixed["session"])
        #expect(try await check("/owls/1/a", mixedToken) == 403)
        #expect(try await check("/live/", mixedToken) == 204)
    }

    @Test("Evidence that is old, forged or of another store is refused, and changes nothing")
    func badEvidence() async throws {
        let old = Sale.month("1", of: "1", at: clock.now - 3_600_001)
        let stale = await present([try StoreMint.jws(old)])
        #expect(stale.status == 422 && stale.problem?.detail.contains("more than an hour ago") == true)
        #expect(await present([try StoreMint.jws(old.signed(at: clock.now - 3_600_000))]).status == 201)
        let forged = await present(["forged.evidence.x"])
        #expect(forged.status == 422 && forged.problem?.detail.contains("refused: ") == true)
        for body in [[:], ["evidence": [String]()], ["evidence": "x"]] as [[String: any Sendable]] {
            #expect(await service.ask(.post, "/v1/content-sessions", json: body).status == 401)
        }
        let object = await service.ask(
            .post, "/v1/content-sessions", json: ["evidence": [["kind": "google-play"]]])
        #expect(object.status == 400 && object.problem?.detail.contains("Google Play") == true)
        #expect(await service.ask(.post, "/v1/content-sessions", token: "wrong").status == 401)
    }

    @Test("Forged evidence makes its address wait, stale evidence does not; a purchase gets 300 sessions at once")
    func limits() async throws {
        let stale = try StoreMint.jws(.month("1", of: "1", at: clock.now - Self.day))
        for _ in 0..<100 { #expect(await present([stale], peer: "127.0.0.1").status == 422) }
        var statuses: Set<Int> = []
        for _ in 0..<100 { statuses.insert(await present(["forged"], peer: "198.51.100.7").status) }
        #expect(statuses == [422, 429])
        let fresh = try StoreMint.jws(.month("1", of: "1", at: clock.now))
        for number in 0..<300 { #expect(await present([fresh], peer: "127.0.0.1").status == 201, "\(number)") }
        let refused = await present([fresh], peer: "127.0.0.1")
        #expect(refused.status == 429 && refused.fields[.retryAfter] == "288")
        let other = try StoreMint.jws(.month("2", of: "2", at: clock.now))
        #expect(await present([other], peer: "127.0.0.1").status == 201)
    }

    @Test("An access token is no content session, and a session is no access token")
    func confusion() async throws {
        let token = try #require(await session()["session"])
        #expect(try await check("/live/", alice.token) == 401)
        #expect(await service.ask(.get, "/v1/accounts/self", token: token).status == 401)
        #expect(await service.ask(.post, "/v1/content-sessions", token: token).status == 401)
        var changed = Array(token)
        changed[changed.count - 1] = changed[changed.count - 1] == "0" ? "1" : "0"
        #expect(try await check("/live/", String(changed)) == 401)
        #expect(try await check("/live/", nil) == 401)
        #expect(try await check("/live/", "") == 401)
        #expect(try await check("/live/", String(repeating: "a", count: 5_000)) == 401)
    }

    @Test("A session of a key that was removed is refused when the change is followed")
    func removedKey() async throws {
        let token = try #require(await session()["session"])
        #expect(try await check("/extra/", token) == 403)
        let keys = ServerKeys(of: store, host: clock.host)
        _ = try await keys.rotate(removesFormer: true)
        await service.followChanges()
        #expect(try await check("/extra/", token) == 401)
        let head = try Self.head("/extra/", [.authorization: "Bearer \(token)"])
        #expect(service.fastRead(head, peer: "192.0.2.1") == nil)
    }

    @Test("A web server that does not pass on one target gets an error")
    func wrongServer() async throws {
        let token = try #require(await session()["session"])
        let name = try #require(HTTPField.Name("X-Original-URI"))
        var fields: HTTPFields = [.authorization: "Bearer \(token)"]
        let none = await service.ask(.get, "/v1/content-check", fields)
        #expect(none.status == 400 && none.problem?.detail.contains("X-Original-URI") == true)
        fields.append(HTTPField(name: name, value: "/live/"))
        fields.append(HTTPField(name: name, value: "/extra/"))
        #expect(await service.ask(.get, "/v1/content-check", fields).status == 400)
    }

    @Test("Without content rules there are no sessions")
    func noRules() async throws {
        let plain = try await Self.open(
            MemoryBackend(), clock, catalog: #"{"products":[{"id":"owl","type":"nonConsumable"}]}"#)
        let bob = await LedgerAccount(plain, "bob")
        #expect(await plain.ask(.post, "/v1/content-sessions", token: bob.token).status == 404)
        #expect(await plain.ask(.post, "/v1/content-sessions", json: ["evidence": ["x"]]).status == 404)
    }

    @Test("Rules that need a longer session than a cookie may have set none, and even longer ones are refused")
    func tooLong() async throws {
        for (count, status) in [(20, 201), (60, 507)] {
            let reply = try await session(ofRules: count)
            #expect(reply.status == status)
            #expect(reply.fields[.setCookie] == nil)
        }
    }

    private func session(ofRules count: Int) async throws -> Reply {
        let rules = (0..<count).map {
            #"{"path":"/\#($0)/\#(String(repeating: "a", count: 100))/","group":"g","by":"now"}"#
        }
        let catalog = """
            {"products":[{"id":"m","type":"nonRenewing","group":"g","duration":"P1M"}],
             "content":[\(rules.joined(separator: ","))]}
            """
        let large = try await Self.open(MemoryBackend(), clock, catalog: catalog)
        let bob = await LedgerAccount(large, "bob")
        return await large.ask(.post, "/v1/content-sessions", token: bob.token)
    }

    @Test("Sessions that are forged make their address wait, those that have expired do not")
    func forgedSessions() async throws {
        let token = try #require(await session()["session"])
        clock.advance(seconds: 600)
        func status(_ token: String, _ peer: String) async throws -> Int {
            let head = try Self.head("/live/", [.authorization: "Bearer \(token)"])
            return await service.respond(to: ServiceRequest(head, body: [], peer: peer)).head.status.code
        }
        for _ in 0..<300 { #expect(try await status(token, "198.51.100.8") == 401) }
        var found: Set<Int> = []
        for number in 0..<2_200 { found.insert(try await status("forged.\(number)", "198.51.100.9")) }
        #expect(found == [401, 429])
    }
}
