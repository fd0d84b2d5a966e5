import Entitlements
import HTTPTypes
import ServiceTestSupport
import SyncCore
import Testing

@testable import SyncService

@Suite("A changed catalogue is checked against customers")
struct CatalogTrialTests {
    private static let current = """
        {"products": [{"id": "owl", "type": "nonConsumable"}, {"id": "cat", "type": "nonConsumable"}],
         "entitlements": [{"id": "night", "grantedBy": ["product:owl"]}, {"id": "day", "grantedBy": ["product:cat"]}]}
        """
    private let clock = TestClock(1_800_000_000_000)
    private let service: EntitlementService
    private let token: String

    init() async throws {
        let store = MemoryBackend()
        let catalog = try Catalog(json: Self.current.utf8)
        service = try await .open(
            store, clock: clock,
            configure: { configuration in
                (configuration.catalog, configuration.version) = (catalog, "1.2.3")
            })
        token = try await OperatorTokens(store, host: clock.host).create("dashboard", scope: .read, expires: nil).text
        for (name, products) in [("ann", ["owl"]), ("bob", ["owl", "cat"]), ("cat", ["cat"]), ("dan", [])] {
            let session: String? =
                await service.ask(.post, "/v1/accounts", json: ["name": name, "password": "correct horse"])[
                    "access_token"]
            guard !products.isEmpty else { continue }
            let evidence: [[String: String]] = products.map {
                ["kind": "reported", "product": $0, "transaction": "\(name)-\($0)"]
            }
            let reply = await service.ask(.post, "/v1/transactions", token: session, json: ["evidence": evidence])
            try #require(reply.status == 200)
        }
    }

    private func check(_ catalog: String, query: String = "") async throws -> JSON {
        let reply = await service.ask(
            .post, "/v1/catalog/check" + query, token: token, [.contentType: "application/json"],
            body: Array(catalog.utf8))
        return try JSON(parsing: reply.body)
    }

    private func counts(_ answer: JSON) -> [String: Int64] {
        (answer["customers"]?.members ?? [:]).compactMapValues { count in
            if case .number(let count) = count { count } else { nil }
        }
    }

    @Test("Losses, gains and unchanged access are counted by customer and by entitlement, and named")
    func effects() async throws {
        let changed = """
            {"products": [{"id": "owl", "type": "nonConsumable"}],
             "entitlements": [{"id": "night", "grantedBy": ["product:owl"]},
                {"id": "dusk", "grantedBy": ["product:owl"]}]}
            """
        let answer = try await check(changed)
        #expect(
            counts(answer) == [
                "checked": 4, "without": 1, "damaged": 0, "keep": 0, "lose": 2, "gain": 2, "shorter": 0, "longer": 0,
            ])
        #expect(answer["products"]?["removed"] == .array([.string("cat")]))
        #expect(answer["entitlementNames"]?["added"] == .array([.string("dusk")]))
        guard case .array(let examples) = answer["examples"], case .array(let rows) = answer["entitlements"] else {
            Issue.record("no lists")
            return
        }
        #expect(examples.map { $0["account"]?.string } == ["bob", "cat", "ann"])
        #expect(rows.map { $0["entitlement"]?.string } == ["day", "dusk", "night"])
        #expect(rows[0]["lose"] == .number(2) && rows[1]["gain"] == .number(2) && rows[2]["keep"] == .number(2))
        #expect(answer["next"] == .null)
    }

    @Test("The same catalogue changes nothing, and pages add up")
    func pages() async throws {
        let whole = try await check(Self.current)
        #expect(counts(whole)["keep"] == 3 && counts(whole)["without"] == 1)
        var (sum, after, pageCount): ([String: Int64], String?, Int) = ([:], nil, 0)
        repeat {
            let page = try await check(Self.current, query: "?limit=1" + (after.map { "&after=\($0)" } ?? ""))
            sum.merge(counts(page)) { $0 + $1 }
            after = page["next"]?.string
            pageCount += 1
        } while after != nil && pageCount < 10
        #expect(sum == counts(whole))
        #expect(pageCount == 4)
    }

    @Test("A mistake in the catalogue is named with its place")
    func mistakes() async throws {
        for (text, detail) in [
            ("{\"products\": [", "line 1"),
            ("{\"products\": [{\"id\": \"owl\", \"type\": \"bird\"}]}", "products[0].type"),
            ("{\"products\": [], \"extra\": 1}", "extra"),
        ] {
            let answer = try await check(text)
            #expect(answer["status"] == .number(400))
            #expect(answer["detail"]?.string?.contains(detail) == true, "\(answer.text())")
        }
        #expect(try await check(Self.current, query: "?limit=0")["status"] == .number(400))
    }

    @Test("The server describes itself and the token of the request")
    func server() async throws {
        let reply = await service.ask(.get, "/v1/server", token: token)
        let answer = try JSON(parsing: reply.body)
        #expect(answer["version"]?.string == "1.2.3" && answer["projection"] == .null)
        #expect(
            answer["caller"]
                == .object([
                    ("name", .string("dashboard")), ("scope", .string("read")), ("expires", .null),
                ]))
    }
}
