import HTTPTypes
import ServiceTestSupport
import SyncCore
import SyncProtocol
import SyncService
import Testing

@Suite("Queries and bodies of requests")
struct RequestReadingTests {
    private let store = MemoryBackend()
    private let service: EntitlementService

    init() async throws { service = try await .open(store) }

    private func get(_ path: String) async -> Reply { await service.ask(.get, path, token: .operatorToken) }

    @Test(
        "The refusal of a malformed limit quotes its value",
        arguments: ["/v1/kv", "/v1/changes", "/v1/accounts"], ["abc", "0", "-1", "1.5", "", "+1"])
    func limits(_ path: String, _ value: String) async {
        let reply = await get("\(path)?limit=\(value)")
        #expect(reply.status == 400)
        #expect(reply.problem?.detail == "limit must be a whole number from 1 to 1000, not \"\(value)\"")
        #expect(reply.problem?.kind == nil)
    }

    @Test("A limit beyond the server's own is reduced to it")
    func largeLimits() async {
        for limit in ["1", "1000", "1001", "99999999999999999999999"] {
            for path in ["/v1/kv", "/v1/changes", "/v1/accounts"] {
                #expect(await get("\(path)?limit=\(limit)").status == 200, "\(path) \(limit)")
            }
        }
    }

    @Test("A long value is shortened in the message")
    func longValues() async {
        let reply = await get("/v1/kv?limit=" + String(repeating: "x", count: 10_000))
        #expect(reply.status == 400 && reply.body.count < 400)
    }

    @Test(
        "A write with a value of ?if other than any, or with several, is refused and writes nothing",
        arguments: ["if=all", "if=", "if", "if=any&if=any", "if=undefined&if=any"])
    func conditions(_ query: String) async {
        let reply = await service.ask(
            .put, "/v1/kv/accounts/alice/initial/k?\(query)", token: .operatorToken, [.ifNoneMatch: "*"], body: [1])
        #expect(reply.status == 400)
        #expect(reply.problem?.detail == "the query parameter if must be any, and occur once")
        #expect(await get("/v1/kv/accounts/alice/initial/k").status == 404)
    }

    @Test("Unknown query parameters of listings and of the operator's routes are refused by name")
    func unknownParameters() async throws {
        #expect(await AccountOwner(service).signUp().status == 201)
        let token = await AccountOwner(service).logIn()["access_token"]
        for path in ["/v1/kv", "/v1/changes"] {
            for token in [token, .operatorToken] {
                let reply = await service.ask(.get, path + "?limit=5&prefx=a", token: token)
                #expect(reply.status == 400)
                #expect(reply.problem?.detail == "unknown query parameter \"prefx\"; known here: prefix, after, limit")
            }
        }
        #expect(await get("/v1/accounts?prefix=a").status == 400)
        for path in ["/v1/accounts/alice/recovery-code?x", "/v1/accounts/alice/erasure?dry-run=true"] {
            #expect(await service.ask(.post, path, token: .operatorToken).status == 400)
        }
        #expect(await service.status(of: token) == 200, "nothing was erased")
        #expect(await service.ask(.get, "/v1/accounts/self?x=1", token: token).status == 200, "others ignore them")
        #expect(await service.ask(.get, "/v1/kv/accounts/alice/account?x=1", token: token).status == 200)
    }

    @Test("A JSON body with a member twice is refused, at any depth and in any spelling")
    func duplicateMembers() async throws {
        #expect(await AccountOwner(service).signUp().status == 201)
        let members = #""grant_type":"password","username":"alice","password":"correct horse""#
        func logIn(_ body: String) async -> Reply {
            await service.ask(.post, "/v1/sessions", [.contentType: "application/json"], body: Array(body.utf8))
        }
        #expect(await logIn("{\(members)}").status == 200)
        for extra in [
            #""password":"correct horse""#, #""username":"bob""#, #""p\u0061ssword":"x""#, #""x":{"y":1,"y":1}"#,
            #""x":[{"y":1,"y":2}]"#,
        ] {
            let reply = await logIn("{\(members),\(extra)}")
            #expect(reply.status == 400 && reply.problem?.detail.contains("is repeated") == true, "\(extra)")
        }
    }

    @Test("The operator's listing finds every key except the server's own, and no cursor names one of those")
    func listings() async throws {
        for name in ["alice", "bob", "carol"] { #expect(await AccountOwner(service, name).signUp().status == 201) }
        let own = ["a", "server", "server.", "server0", "serves", "z"]
        for key in own { _ = try await store.write([1], to: try EntryKey(key), if: .absent) }
        let all = try await store.list(prefix: "", after: nil, limit: 1_000).outcome.items.map(\.key.text)
        for (prefix, limits) in [("", 1...20), ("s", 1...20), ("server", 1...20), ("server/", 1...20)] {
            for limit in limits {
                var (found, after, pages): ([String], String?, Int) = ([], nil, 0)
                repeat {
                    let cursor = after.map { "&after=" + WireQuery.encoded($0) } ?? ""
                    let reply = await get("/v1/kv?prefix=\(prefix)&limit=\(limit)\(cursor)")
                    let page = try KeyPageBody.page(json: reply.body)
                    found += page.items.map(\.key.text)
                    #expect(page.items.count <= limit)
                    after = page.next?.text
                    #expect(after?.hasPrefix("server/") != true, "\(prefix) \(limit)")
                    pages += 1
                } while after != nil && pages < 100
                #expect(found == all.filter { $0.hasPrefix(prefix) && !$0.hasPrefix("server/") }, "\(prefix) \(limit)")
            }
        }
    }

    @Test("The answer to the operator names the account that it concerns, also after a failure")
    func subjects() async throws {
        #expect(await AccountOwner(service, "a/b%").signUp().status == 201)
        func subject(_ method: HTTPRequest.Method, _ path: String, token: String) async -> String? {
            let head = HTTPRequest(
                method: method, scheme: "http", authority: "x", path: path,
                headerFields: [.authorization: "Bearer \(token)"])
            return await service.respond(to: ServiceRequest(head, peer: "192.0.2.1")).subject
        }
        let token = String.operatorToken
        #expect(await subject(.get, "/v1/kv/accounts/a%252Fb%2525/account", token: token) == "a/b%")
        #expect(await subject(.post, "/v1/accounts/a%2Fb%25/recovery-code", token: token) == "a/b%")
        #expect(await subject(.post, "/v1/accounts/nobody/erasure", token: token) == "nobody")
        #expect(await subject(.get, "/v1/kv", token: token) == nil)
        #expect(await subject(.post, "/v1/accounts/a%2Fb%25/erasure", token: token) == "a/b%")
        #expect(await subject(.post, "/v1/accounts/nobody/erasure", token: "x") == nil)
    }
}
