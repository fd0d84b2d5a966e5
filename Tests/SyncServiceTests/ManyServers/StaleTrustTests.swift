import Foundation
import HTTPTypes
import ServiceTestSupport
import SyncCore
import SyncProtocol
import SyncService
import Testing

@Suite("What a server believes that does not follow the changes of its store")
struct StaleTrustTests {
    private let servers: TwoServers
    private let alice: AccountOwner

    init() async throws {
        servers = try await TwoServers(issuer: "https://login.example.com")
        alice = AccountOwner(servers.first)
    }

    private func fastRead(_ path: String, _ token: String) -> Int? {
        let head = HTTPRequest(
            method: .get, scheme: "http", authority: "x", path: "/v1/kv/" + path,
            headerFields: [.authorization: "Bearer \(token)"])
        return servers.second.fastRead(head, peer: "192.0.2.1")?.head.status.code
    }

    @Test("A session that ended at another server is refused after two seconds, on the fast path as well")
    func revocation() async throws {
        let reply = await alice.signUp()
        let token = try #require(reply["access_token"])
        let key = "accounts/alice/\(reply["incarnation"] ?? "")/note"
        #expect(await servers.second.put(key, token: token) == 200)
        #expect(fastRead(key, token) == 200)
        #expect(await servers.first.ask(.delete, "/v1/sessions", token: token).status == 204)
        servers.pass(seconds: 2)
        #expect(fastRead(key, token) == 200, "two seconds is the bound")
        servers.pass(seconds: 1)
        #expect(fastRead(key, token) == nil)
        #expect(await servers.second.status(of: token) == 401)
    }

    @Test("A server that cannot read its store answers 503 with Retry-After instead of believing its cache")
    func cutOff() async throws {
        let token = try #require(await alice.signUp()["access_token"])
        let external: String = .external("bob", TwoServers.start / 1_000 + 600)
        for token in [token, external] { #expect(await servers.second.status(of: token) == 200) }
        servers.lines.1.cut(true)
        servers.pass(seconds: 3)
        for token in [token, external] {
            let reply = await servers.second.ask(.get, "/v1/accounts/self", token: token)
            #expect(reply.status == 503 && reply.fields[.retryAfter] == "1")
        }
        servers.lines.1.cut(false)
        #expect(await servers.second.status(of: token) == 200, "the records are read again")
        #expect(await servers.first.ask(.delete, "/v1/sessions?everywhere=true", token: external).status == 204)
        #expect(await servers.second.status(of: external) == 401)
        await servers.second.followChanges()
        #expect(await servers.second.status(of: token) == 200)
    }

    @Test("A stream that reads missed changes ends when its session has ended at another server")
    func stream() async throws {
        let reply = await alice.signUp()
        let token = try #require(reply["access_token"])
        let home = "accounts/alice/\(reply["incarnation"] ?? "")/"
        for number in 0..<300 { #expect(await servers.first.put(home + "\(number)", token: token) == 200) }
        let page = await servers.first.ask(.get, "/v1/changes?limit=1", token: token)
        let position = try #require(page["cursor"])
        var fields: HTTPFields = [.accept: "text/event-stream", .authorization: "Bearer \(token)"]
        fields[try #require(HTTPField.Name("Last-Event-ID"))] = position
        let head = HTTPRequest(
            method: .get, scheme: "http", authority: "x", path: "/v1/changes", headerFields: fields)
        let answer = await servers.second.respond(to: ServiceRequest(head, peer: "192.0.2.1"))
        guard case .stream(let pieces, _) = answer.body else {
            Issue.record("the answer must be a stream, not \(answer.head.status)")
            return
        }
        var iterator = pieces.makeAsyncIterator()
        _ = await iterator.next()
        #expect(await iterator.next()?.isEmpty == false, "the first page of changes")
        #expect(await servers.first.ask(.delete, "/v1/sessions", token: token).status == 204)
        servers.pass(seconds: 3)
        #expect(await iterator.next() == nil, "the second page is not sent")
    }

    private func removeKeys() async throws {
        _ = try await servers.store.delete(EntryKey("server/keys"), if: .any)
    }

    @Test("A removed signing key is refused as soon as the change is read, and after two seconds in any case")
    func keys() async throws {
        for isFollowing in [true, false] {
            let token = try #require(await AccountOwner(servers.first, "a\(isFollowing)").signUp()["access_token"])
            for server in [servers.first, servers.second] { #expect(await server.status(of: token) == 200) }
            try await removeKeys()
            if isFollowing {
                for server in [servers.first, servers.second] { await server.followChanges() }
            } else {
                servers.pass(seconds: 3)
            }
            for server in [servers.first, servers.second] { #expect(await server.status(of: token) == 401) }
            // The servers agree on the next key.
            let next = try #require(await AccountOwner(servers.second, "a\(isFollowing)").logIn()["access_token"])
            #expect(await servers.first.status(of: next) == 200)
            for server in [servers.first, servers.second] { await server.followChanges() }
        }
    }

    @Test("A restored store makes the servers forget what they believed")
    func restored() async throws {
        let backup = servers.store.backup()
        let token = try #require(await alice.signUp()["access_token"])
        #expect(await servers.second.status(of: token) == 200)
        await servers.second.followChanges()
        servers.store.putBack(backup)
        await servers.second.followChanges()
        #expect(await servers.second.status(of: token) == 401)
    }

    @Test("A server that did not follow the changes for ten seconds is not ready, and says how far behind it is")
    func readiness() async throws {
        try await servers.second.checkReadiness()
        servers.pass(seconds: 11)
        #expect(servers.second.feedAge == .seconds(11))
        let error = await #expect(throws: BackendError.self) { try await servers.second.checkReadiness() }
        #expect(error?.message == "the changes of the store were last followed 11 s ago")
        await servers.second.followChanges()
        try await servers.second.checkReadiness()
    }
}
