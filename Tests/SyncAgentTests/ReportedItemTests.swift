import EntitlementSync
import Entitlements
import Foundation
import HTTPTypes
import Logging
import SyncAgent
import SyncCore
import SyncService
import TestSupport
import Testing

@Suite("Purchases that programs report on the socket")
struct ReportedItemTests {
    private static let user: UInt32 = 1_000

    private static let catalog = """
        {"products":[{"id":"owl","type":"nonConsumable"},{"id":"coins","type":"consumable","units":2}],
         "entitlements":[{"id":"owl","grantedBy":["product:owl"]},{"id":"coin","grantedBy":["units:coins"]}],
         "policy":{"consumables":"CONSUMABLES"}}
        """

    private let local = MemoryBackend()
    private let host = TestHost(at: 1_800_000_000_000).host

    /// The service over a store of a device, or over the store of a server with this policy.
    private func service(
        policy: TrustPolicy? = nil, consumables: String = "deviceLocal"
    ) async throws -> (service: AgentService, store: EntitlementStore) {
        let json = Self.catalog.replacing("CONSUMABLES", with: consumables)
        let store = try await EntitlementStore(
            catalog: try Catalog(json: Array(json.utf8)), local: local,
            account: try policy.map { _ in try Account("alice") }, environment: .production, clock: .host,
            ownServer: policy.map { EntitlementStore.OwnServer(policy: $0) }, host: host)
        let notice = Duration.seconds(86_400)
        let events = try await EventFeed(local, noticeBeforeExpiry: notice, hasProgram: false) { _ in }
        let agent = Agent(
            [store], events: events, program: nil, pollingEvery: .seconds(60), noticeBeforeExpiry: notice, host: host,
            logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
        ) { _ in }
        let actions = AgentService.Actions(
            logIn: { _, _, _ in throw RequestError(.forbidden, "no log-in here") },
            logOut: { throw RequestError(.forbidden, "no log-out here") })
        let service = AgentService(
            agent, users: LocalUsers(owner: Self.user), verifiers: AgentService.Verifiers(), actions: actions,
            version: "1", host: host)
        return (service, store)
    }

    /// The results of a request: the kinds of the facts and the units that are left, or the code of the problem.
    private func report(_ items: String, to service: AgentService) async throws -> [String] {
        let head = HTTPRequest(
            method: .post, scheme: "http", authority: "localhost", path: "/v1/transactions",
            headerFields: [.contentType: "application/json"])
        var request = ServiceRequest(head, body: Array("{\"evidence\":[\(items)]}".utf8), peer: "")
        request.localUser = Self.user
        let response = await service.respond(to: request)
        guard case .bytes(let bytes) = response.body else { return [] }
        guard response.head.status == .ok else { return ["\(response.head.status.code)"] }
        let results = try #require(try JSON(parsing: bytes)["results"]?.elements)
        return results.map { result in
            if let code = result["problem"]?["code"]?.string { return code }
            let kinds = (result["facts"]?.elements ?? []).map { $0["kind"]?.string ?? "?" }
            let left: [String] = if case .number(let left)? = result["remaining"] { ["\(left) left"] } else { [] }
            return (kinds + left).joined(separator: ", ")
        }
    }

    private static let items = """
        {"kind":"reported","product":"owl","transaction":"1"},{"kind":"refunded","transaction":"1"},
        {"kind":"reinstated","transaction":"1"},{"kind":"flag","product":"owl","set":true},
        {"kind":"pending","product":"coins"},{"kind":"withdrawn","product":"coins"},
        {"kind":"reported","product":"coins","transaction":"2"},{"kind":"spend","entitlement":"coin","id":"a"}
        """

    @Test("The device's store records each kind, units in the ledger that stays on the device, and repetitions once")
    func kinds() async throws {
        let (service, store) = try await service()
        #expect(
            try await report(Self.items, to: service) == [
                "purchase, recording", "revocation", "reinstatement", "flag set", "pending", "withdrawn",
                "purchase, recording", "spend, 1 left",
            ])
        #expect(try await store.access(to: "owl").isGranted)
        let ledgers = try await store.localLedgers()
        #expect(Facts(account: ledgers.account).purchases.map(\.product) == ["owl"])
        #expect(Facts(account: Ledger(), device: ledgers.device).purchases.map(\.product) == ["coins"])
        let again = """
            {"kind":"reported","product":"owl","transaction":"1"},{"kind":"flag","product":"owl","set":true},
            {"kind":"spend","entitlement":"coin","id":"a"}
            """
        #expect(try await report(again, to: service) == ["", "", "1 left"])
    }

    @Test("A problem concerns one item, and has the code that a server uses")
    func problems() async throws {
        let (service, store) = try await service()
        let items = """
            {"kind":"reported","product":"nothing","transaction":"1"},{"kind":"reported","product":"owl"},
            {"kind":"spend","entitlement":"nothing","id":"a"},{"kind":"spend","entitlement":"coin","id":"a"},
            {"kind":"reported","product":"owl","transaction":"1"},
            {"kind":"reported","product":"coins","transaction":"2"},
            {"kind":"app-store-transaction","jws":"a.b.c"}
            """
        #expect(
            try await report(items, to: service) == [
                "unknown-product", "invalid", "unknown-entitlement", "none-left", "purchase, recording",
                "purchase, recording", "not-configured",
            ])
        #expect(try await report("{\"kind\":\"flag\",\"product\":\"coins\",\"set\":true}", to: service) == ["invalid"])
        let other = "{\"kind\":\"reported\",\"product\":\"owl\",\"transaction\":\"1\",\"quantity\":2}"
        #expect(try await report(other, to: service) == ["contradiction"])
        #expect(try await store.access(to: "owl").isGranted)
    }

    @Test("Under the policy verified of its server, the device asks for evidence")
    func verified() async throws {
        let (service, _) = try await service(policy: .verified, consumables: "shared")
        let items = """
            {"kind":"reported","product":"owl","transaction":"1"},{"kind":"reinstated","transaction":"1"},
            {"kind":"flag","product":"owl","set":true},{"kind":"refunded","transaction":"1"}
            """
        #expect(
            try await report(items, to: service) == [
                "evidence-required", "evidence-required", "evidence-required", "revocation",
            ])
    }

    @Test("A purchase that the server has refused to this account is named as another account's")
    func refused() async throws {
        let (service, _) = try await service(policy: .trusted)
        let item = "{\"kind\":\"reported\",\"product\":\"owl\",\"transaction\":\"1\"}"
        #expect(try await report(item, to: service) == ["purchase, recording"])
        let decision = Acceptance(
            transaction: TransactionReference(id: "1"), decision: .refused("another account recorded it first"),
            date: Timestamp(milliseconds: 0), logicalTime: LogicalTime(rawValue: 1))
        let keys = try LedgerKeys(try Account("alice"))
        let ledger = Ledger([Fact.acceptance(decision).record])
        _ = try await local.write(LedgerDocument(ledger: ledger).encoded(), to: keys.serverLedger, if: .any)
        #expect(try await report(item, to: service) == ["owned-by-another"])
    }

    @Test("A request has at most 100 items")
    func count() async throws {
        let (service, _) = try await service()
        let item = "{\"kind\":\"flag\",\"product\":\"owl\",\"set\":true}"
        let hundred = Array(repeating: item, count: 100).joined(separator: ",")
        #expect(try await report(hundred, to: service).count == 100)
        #expect(try await report(hundred + "," + item, to: service) == ["400"])
    }
}
