import HTTPTypes
import ServiceTestSupport
import SyncCore
import SyncProtocol
import Testing

@testable import SyncService

@Suite("Each route of the operator accepts the scopes that it names, and nothing else")
struct ScopeTests {
    /// A request to a route of the operator.
    private struct Example {
        var path: String
        var json: [String: any Sendable] = [:]
        var fields: HTTPFields = [:]
    }

    /// A request to each route that a token of the operator may use. A route without an entry fails the test.
    private static let examples: [String: Example] = [
        "GET /v1/kv/{key}": Example(path: "/v1/kv/notes"),
        "PUT /v1/kv/{key}": Example(path: "/v1/kv/notes?if=any"),
        "DELETE /v1/kv/{key}": Example(path: "/v1/kv/notes?if=any"),
        "GET /v1/kv": Example(path: "/v1/kv?limit=1"),
        "POST /v1/batch": Example(path: "/v1/batch"),
        "GET /v1/changes": Example(path: "/v1/changes"),
        "GET /v1/accounts": Example(path: "/v1/accounts"),
        "POST /v1/accounts/{name}/recovery-code": Example(path: "/v1/accounts/alice/recovery-code"),
        "POST /v1/accounts/{name}/erasure": Example(path: "/v1/accounts/nobody/erasure"),
        "GET /v1/customers": Example(path: "/v1/customers?query=al"),
        "GET /v1/customers/{account}": Example(path: "/v1/customers/alice"),
        "GET /v1/customers/{account}/entitlements": Example(path: "/v1/customers/alice/entitlements"),
        "GET /v1/customers/{account}/timeline": Example(path: "/v1/customers/alice/timeline"),
        "GET /v1/customers/{account}/purchases": Example(path: "/v1/customers/alice/purchases"),
        "GET /v1/customers/{account}/facts": Example(path: "/v1/customers/alice/facts"),
        "GET /v1/customers/{account}/conflicts": Example(path: "/v1/customers/alice/conflicts"),
        "GET /v1/customers/{account}/explain/{entitlement}": Example(path: "/v1/customers/alice/explain/nights"),
        "GET /v1/customers/{account}/history": Example(path: "/v1/customers/alice/history"),
        "GET /v1/statistics": Example(path: "/v1/statistics"),
        "GET /v1/statistics/access": Example(path: "/v1/statistics/access"),
        "GET /v1/events": Example(path: "/v1/events"),
        "POST /v1/customers/{account}/grants": Example(path: "/v1/customers/alice/grants", json: ["reason": "x"]),
        "POST /v1/customers/{account}/refunds": Example(path: "/v1/customers/alice/refunds"),
        "POST /v1/customers/{account}/transfers": Example(path: "/v1/customers/alice/transfers"),
        "POST /v1/customers/{account}/recovery": Example(path: "/v1/customers/nobody/recovery?dry-run=true"),
        "POST /v1/customers/{account}/erasure": Example(path: "/v1/customers/nobody/erasure?dry-run=true"),
        "DELETE /v1/customers/{account}/sessions": Example(path: "/v1/customers/nobody/sessions"),
        "GET /v1/customers/{account}/ledgers": Example(path: "/v1/customers/alice/ledgers"),
        "GET /v1/tokens": Example(path: "/v1/tokens"),
        "POST /v1/tokens": Example(path: "/v1/tokens", json: ["name": "made", "scope": "read"]),
        "DELETE /v1/tokens/{token}": Example(path: "/v1/tokens/made"),
        "PUT /v1/customers/{account}/external-id": Example(
            path: "/v1/customers/alice/external-id", json: ["externalId": "u1", "reason": "ticket 7"]),
        "DELETE /v1/customers/{account}/external-id": Example(
            path: "/v1/customers/alice/external-id", json: ["reason": "ticket 7"]),
        "POST /mcp": Example(path: "/mcp", json: ["jsonrpc": "2.0", "id": 1, "method": "ping"]),
        "GET /v1/server": Example(path: "/v1/server"),
        "POST /v1/catalog/check": Example(path: "/v1/catalog/check"),
        "GET /v1/webhooks": Example(path: "/v1/webhooks"),
        "POST /v1/webhooks/{webhook}/deliveries": Example(path: "/v1/webhooks/crm/deliveries"),
        "POST /v1/webhooks/{webhook}/test": Example(path: "/v1/webhooks/crm/test"),
    ]

    private let clock = TestClock(1_800_000_000_000)
    private let service: EntitlementService
    private let tokens: OperatorTokens
    private let account: String

    init() async throws {
        let store = MemoryBackend()
        service = try await .open(store, clock: clock)
        tokens = OperatorTokens(store, host: clock.host)
        account = try #require(
            await service.ask(.post, "/v1/accounts", json: ["name": "alice", "password": "correct horse"])[
                "access_token"])
    }

    private func ask(_ method: HTTPRequest.Method, _ example: Example, token: String?) async -> Reply {
        guard method != .get else { return await service.ask(.get, example.path, token: token, example.fields) }
        return await service.ask(method, example.path, token: token, json: example.json)
    }

    /// The routes with what they accept.
    private static var routes: [(name: String, method: HTTPRequest.Method, access: EntitlementService.Endpoint.Access)]
    {
        EntitlementService.routes.resources.flatMap { resource in
            resource.methods.compactMap { method in
                resource.handler(of: method).map { ("\(method) \(resource.path)", method, $0.access) }
            }
        }
    }

    @Test("No token, a token of an account, an expired one, a revoked one and one of a lesser scope are refused")
    func everyRoute() async throws {
        var valid: [OperatorScope: String] = [:]
        for scope in OperatorScope.allCases {
            valid[scope] = try await tokens.create(scope.rawValue, scope: scope, expires: nil).text
        }
        let expired = try await tokens.create("old", scope: .admin, expires: clock.now + 1_000).text
        let revoked = try await tokens.create("lost", scope: .admin, expires: nil)
        _ = try await tokens.revoke(revoked.record.id)
        clock.pass(seconds: 1)
        let needed = Self.routes.filter { $0.access.scope != nil }
        #expect(Set(needed.map(\.name)) == Set(Self.examples.keys), "a route lacks an example, or an example a route")
        for (name, method, access) in needed {
            guard let example = Self.examples[name], let scope = access.scope else { continue }
            #expect(await ask(method, example, token: nil).status == 401, "\(name) without a token")
            let old = await ask(method, example, token: expired)
            #expect(
                old.status == 401 && old.problem?.detail.contains("\"old\" expired at 2027-01-15") == true, "\(name)")
            let lost = await ask(method, example, token: revoked.text)
            #expect(lost.status == 401 && lost.problem?.detail.contains("\"lost\" was revoked") == true, "\(name)")
            if case .operator = access {
                #expect(await ask(method, example, token: account).status == 403, "\(name) with an account's token")
            }
            for own in OperatorScope.allCases {
                let reply = await ask(method, example, token: valid[own])
                if own < scope {
                    #expect(reply.status == 403, "\(name) with \(own)")
                    #expect(reply.problem?.detail.contains("the scope \"\(scope.rawValue)\"") == true, "\(name)")
                } else {
                    #expect(![401, 403, 500, 503].contains(reply.status), "\(name) with \(own): \(reply.status)")
                }
            }
        }
    }

    @Test("The routes of accounts accept no token of the operator")
    func accountRoutes() async throws {
        let token = try await tokens.create("all", scope: .admin, expires: nil).text
        for (name, method, access) in Self.routes {
            guard case .account = access, let path = name.split(separator: " ").last else { continue }
            let reply = await service.ask(method, String(path), token: token, json: [:])
            #expect(reply.status == 403, "\(name)")
        }
    }

    @Test("A support token reads no secret: neither digests of passwords nor of tokens")
    func secrets() async throws {
        let support = try await tokens.create("helpdesk", scope: .support, expires: nil).text
        for key in ["server/accounts/alice", "server/keys", "server/operator-tokens/0", "notes"] {
            for method in [HTTPRequest.Method.get, .put, .delete] {
                let reply = await service.ask(method, "/v1/kv/\(key)?if=any", token: support, json: [:])
                #expect(reply.status == 403, "\(method) \(key)")
            }
        }
        #expect(await service.ask(.get, "/v1/kv?limit=10", token: support).status == 403)
        #expect(await service.ask(.get, "/v1/changes", token: support).status == 403)
        let made = await service.ask(.post, "/v1/tokens", token: support, json: ["name": "x", "scope": "read"])
        #expect(made.status == 403 && made["token"] == nil)
        #expect(try await tokens.all().map(\.name) == ["helpdesk"])
    }
}
