import EntitlementSync
import HTTPTypes
import ServiceTestSupport
import SyncCore
import SyncProtocol
import SyncService
import Testing

@Suite("An account cannot reach the data of another")
struct IsolationTests {
    private let store = MemoryBackend()
    private let service: EntitlementService
    private let alice: Reply
    private let mallory: Reply
    /// The value that mallory must neither see nor change.
    private let secret = Array("alice's ledger of purchases".utf8)
    private let victims: [EntryKey]

    init() async throws {
        service = try await .open(store)
        alice = await service.ask(.post, "/v1/accounts", json: ["name": "alice", "password": "correct horse"])
        mallory = await service.ask(.post, "/v1/accounts", json: ["name": "mallory", "password": "battery staple"])
        let incarnation = try #require(alice["incarnation"])
        victims = try ["ledger", "decisions", "notes", "a/b"].map {
            try EntryKey("accounts/alice/\(incarnation)/\($0)")
        }
        for key in victims { _ = try await store.write(secret, to: key, if: .any) }
        _ = try await store.write(secret, to: EntryKey("owners/reported/production/1"), if: .any)
    }

    private var token: String? { mallory["access_token"] }

    /// The contents of the server's store, except for mallory's own keys.
    private func contents() async throws -> [EntryKey: [UInt8]] {
        var contents: [EntryKey: [UInt8]] = [:]
        for item in try await store.list(prefix: "", after: nil, limit: 10_000).outcome.items {
            guard !item.key.text.contains("mallory"), case .found(let entry) = try await store.read(item.key).outcome
            else { continue }
            contents[item.key] = entry.value
        }
        return contents
    }

    /// Other spellings of a path that a careless server would treat as equal.
    private func spellings(of path: String) -> [String] {
        let own = "/v1/kv/accounts/mallory/\(mallory["incarnation"] ?? "")/"
        let tail = path.replacing("/v1/kv/", with: "")
        let dots = ["../../../", "..%2f..%2f..%2f", "%2e%2e/%2e%2e/%2e%2e/", "%252e%252e%252f", "....//", "..\\..\\"]
        return [
            path, path + "/", path + "?", path + "#", path + "%00", path + "%2500", "/" + path, path.uppercased(),
            path.replacing("accounts", with: "Accounts"), path.replacing("alice", with: "%61lice"),
            path.replacing("alice", with: "ALICE"), path.replacing("alice", with: "alic\u{65}\u{301}"),
            path.replacing("alice", with: "%C3%A1lice"), path.replacing("/accounts", with: "//accounts"),
            path.replacing("/accounts", with: "/%2Faccounts"), path.replacing("/v1/kv", with: "/v1/KV"),
            path.replacing("/", with: "%2F"), path.replacing("accounts/", with: "accounts%2F"),
            path.replacing("accounts/", with: "accounts%252F"), path + ";a=b", "http://x" + path, "//x" + path,
        ] + dots.map { own + $0 + tail } + dots.map { "/v1/kv/" + $0 + tail }
    }

    @Test("No method and no spelling of a path reaches another account's keys")
    func paths() async throws {
        let before = try await contents()
        let others = [
            "server/keys", "server/accounts/alice", "owners/reported/production/1", "accounts/alice/account", "x",
        ]
        var count = 0
        for key in victims.map(\.text) + others {
            for path in spellings(of: "/v1/kv/" + key) {
                for method in [HTTPRequest.Method.get, .put, .delete, .head, .post, .patch, .options] {
                    for fields in [[:], [.ifNoneMatch: "*"], [.ifMatch: "*"]] as [HTTPFields] {
                        for query in ["", "?if=any"] {
                            let reply = await service.ask(method, path + query, token: token, fields, body: [1])
                            #expect(reply.body != secret, "\(method) \(path)")
                            count += 1
                        }
                    }
                }
            }
        }
        #expect(count > 10_000)
        #expect(try await contents() == before)
    }

    @Test("A refusal does not reveal whether a key exists")
    func refusals() async throws {
        for method in [HTTPRequest.Method.get, .put, .delete] {
            let there = await service.ask(method, "/v1/kv/" + victims[0].text, token: token, [.ifMatch: "*"])
            let missing = await service.ask(
                method, "/v1/kv/" + victims[0].text + "x", token: token, [.ifMatch: "*"])
            #expect(there.status == 403 && missing.status == 403 && there.body == missing.body)
        }
    }

    @Test("Listings, changes and other routes show nothing of another account")
    func listings() async throws {
        let incarnation = try #require(mallory["incarnation"])
        let own = "accounts/mallory/\(incarnation)/note"
        let tag: HTTPFields = [.ifNoneMatch: "*"]
        #expect(await service.ask(.put, "/v1/kv/\(own)", token: token, tag, body: [1]).status == 200)
        for prefix in [
            "", "a", "accounts/", "accounts/alice", "accounts/mallory", "server/", "owners/", "accounts/mallory/",
        ] {
            let page = await service.ask(.get, "/v1/kv?prefix=\(prefix)&limit=1000", token: token)
            #expect(page.status == 200)
            let keys = try KeyPageBody.page(json: page.body).items.map(\.key.text)
            #expect(keys == ("accounts/mallory/\(incarnation)/".hasPrefix(prefix) ? [own] : []), "\(prefix)")
        }
        let changes = try ChangePageBody.page(json: await service.ask(.get, "/v1/changes", token: token).body)
        #expect(changes.changes.map(\.key.text) == [own])
        for path in ["/v1/accounts", "/v1/accounts/alice/recovery-code", "/v1/accounts/alice/erasure"] {
            for method in [HTTPRequest.Method.get, .post] {
                let reply = await service.ask(method, path, token: token)
                #expect([403, 405, 400].contains(reply.status), "\(method) \(path)")
                #expect(await service.ask(.get, "/v1/accounts/self", token: alice["access_token"]).status == 200)
            }
        }
    }

    @Test("A forged, truncated or missing token, and any other secret, give no access")
    func tokens() async throws {
        let good = try #require(alice["access_token"])
        let path = "/v1/kv/" + victims[2].text
        #expect(await service.ask(.get, path, token: good).body == secret)
        let bad = [
            "", "x", String(good.dropLast()), good + "0", good.uppercased(), "operator", alice["refresh_token"] ?? "",
            String(good.reversed()), String(repeating: "a", count: 100_000), "Bearer \(good)",
        ]
        for token in bad {
            let reply = await service.ask(.get, path, token: token)
            #expect(reply.status == 401 && reply.body != secret, "\(token.prefix(80))")
            #expect(reply.fields[.wwwAuthenticate]?.contains("invalid_token") == true)
        }
        let none = await service.ask(.get, path)
        #expect(none.status == 401 && none.fields[.wwwAuthenticate] == "Bearer")
        let basic = await service.ask(.get, path, [.authorization: "Basic YWxpY2U6Y29ycmVjdCBob3JzZQ=="])
        #expect(basic.status == 401)
        let wrong = await service.ask(.get, path, token: .operatorToken + "x")
        #expect(wrong.status == 401)
    }

    @Test("The operator reaches every key except the server's own")
    func operatorScope() async throws {
        #expect(await service.ask(.get, "/v1/kv/" + victims[0].text, token: .operatorToken).body == secret)
        #expect(await service.ask(.get, "/v1/kv/server/keys", token: .operatorToken).status == 403)
        let page = await service.ask(.get, "/v1/kv?limit=1000", token: .operatorToken)
        #expect(try KeyPageBody.page(json: page.body).items.allSatisfy { !$0.key.hasPrefix("server/") })
        #expect(await service.ask(.get, "/v1/accounts/self", token: .operatorToken).status == 403)
    }

    @Test("A new account sees nothing of the erased one of its name, whose devices see only the marker")
    func erasure() async throws {
        let wrong: [String: any Sendable] = ["password": "wrong password"]
        let token = alice["access_token"]
        #expect(await service.ask(.post, "/v1/accounts/self/erasure", token: token, json: wrong).status == 400)
        #expect(await service.ask(.get, "/v1/kv/" + victims[2].text, token: token).status == 200)
        let right: [String: any Sendable] = ["password": "correct horse"]
        #expect(await service.ask(.post, "/v1/accounts/self/erasure", token: token, json: right).status == 204)
        let anew = await service.ask(.post, "/v1/accounts", json: ["name": "alice", "password": "another person"])
        #expect(anew.status == 201 && anew["incarnation"] != alice["incarnation"])
        let marker = LedgerDocumentBytes.erased
        for token in [alice["access_token"], anew["access_token"]] {
            let ledger = await service.ask(.get, "/v1/kv/" + victims[0].text, token: token)
            #expect(ledger.status == 200 && ledger.body == marker)
            for key in victims.dropFirst() {
                #expect(await service.ask(.get, "/v1/kv/" + key.text, token: token).status == 403)
            }
            let put = await service.ask(
                .put, "/v1/kv/" + victims[0].text, token: token, [.ifMatch: "*"], body: secret)
            #expect(put.status == 403)
        }
        let own = "/v1/kv/accounts/alice/\(anew["incarnation"] ?? "")/note"
        #expect(await service.ask(.put, own, token: anew["access_token"], [.ifNoneMatch: "*"], body: [1]).status == 200)
        #expect(await service.ask(.get, own, token: alice["access_token"]).status == 403)
        let refreshed = await service.ask(
            .post, "/v1/sessions",
            json: ["grant_type": "refresh_token", "refresh_token": alice["refresh_token"] ?? ""])
        #expect(refreshed.status == 200, "an old device learns of the erasure, however late")
    }
}
