import HTTPTypes
import ServiceTestSupport
import SyncCore
import SyncProtocol
import SyncService
import Synchronization
import Testing

@Suite("Rate limits of addresses and accounts")
struct RateTests {
    private let clock = TestClock(1_800_000_000_000)
    private let refusals = Refusals()

    private final class Refusals: Sendable {
        private let list = Mutex<[Refusal]>([])
        var all: [Refusal] { list.withLock { $0 } }
        func note(_ refusal: Refusal) { list.withLock { $0.append(refusal) } }
    }

    private func open(
        _ store: MemoryBackend = MemoryBackend(), _ adjust: (inout CallerLimits) -> Void
    ) async throws -> EntitlementService {
        var configuration = ServiceConfiguration(name: "https://sync.example.com")
        configuration.origins = ["https://shop.example.com"]
        adjust(&configuration.callerLimits)
        let refusals = refusals
        let service = try await EntitlementService(
            store, configuration: configuration, passwords: PlainPasswords(),
            host: clock.host, onError: { _ in }, onRefusal: { refusals.note($0) })
        await service.followChanges()
        return service
    }

    @Test("A read counts once, however it is answered, and short values are answered synchronously")
    func readsAtOnce() async throws {
        let service = try await open { $0.accountReads = Rate(perSecond: 1, burst: 6) }
        let alice = AccountOwner(service)
        _ = await alice.signUp()
        let reply = await alice.logIn()
        let (token, incarnation) = (try #require(reply["access_token"]), try #require(reply["incarnation"]))
        let path = "/v1/kv/accounts/alice/\(incarnation)/a"
        #expect(await service.ask(.put, path + "?if=any", token: token, body: [1, 2, 3]).status == 200)
        func atOnce(_ longest: Int) -> Int? {
            let head = HTTPRequest(
                method: .get, scheme: "http", authority: "x", path: path,
                headerFields: [.authorization: "Bearer \(token)"])
            return service.fastRead(head, peer: "127.0.0.1", longest: longest)?.head.status.code
        }
        for _ in 0..<3 {
            #expect(atOnce(2) == nil)
            #expect(await service.ask(.get, path, token: token).status == 200)
        }
        for _ in 0..<3 { #expect(atOnce(3) == 200) }
        // The asynchronous path refuses it.
        #expect(atOnce(3) == nil)
        #expect(await service.ask(.get, path, token: token).status == 429)
    }

    @Test("A read for which the account must wait counts once for the address")
    func refusedReads() async throws {
        let service = try await open { limits in
            limits.accountReads = Rate(perSecond: 0.001, burst: 2)
            limits.addressRequests = Rate(perSecond: 0.001, burst: 10)
        }
        let alice = AccountOwner(service)
        // Two requests of the address.
        _ = await alice.signUp()
        let reply = await alice.logIn()
        let (token, incarnation) = (try #require(reply["access_token"]), try #require(reply["incarnation"]))
        let path = "/v1/kv/accounts/alice/\(incarnation)/a"
        let head = HTTPRequest(
            method: .get, scheme: "http", authority: "x", path: path,
            headerFields: [.authorization: "Bearer \(token)"])
        #expect(await service.ask(.put, path + "?if=any", token: token, body: [1]).status == 200)
        for _ in 0..<2 { #expect(service.fastRead(head, peer: "192.0.2.1")?.head.status == .ok) }
        // Five are left.
        for _ in 0..<5 {
            #expect(service.fastRead(head, peer: "192.0.2.1") == nil)
            let refused = await service.ask(.get, path, token: token)
            #expect(refused.status == 429 && refused.problem?.detail.contains("account") == true)
        }
        #expect(await service.ask(.get, path, token: token).problem?.detail.contains("address") == true)
    }

    @Test("A page of changes costs according to the changes of other accounts that it skips", arguments: [10, 3_000])
    func skippedChanges(count: Int) async throws {
        let store = MemoryBackend()
        let service = try await open(store) { $0.accountReads = Rate(perSecond: 0.001, burst: 10) }
        let alice = AccountOwner(service)
        _ = await alice.signUp()
        let token = await alice.logIn()["access_token"]
        for number in 0..<count { _ = try await store.write([1], to: try EntryKey("other/\(number)"), if: .any) }
        #expect(await service.ask(.get, "/v1/changes?limit=1000", token: token).status == 200)
        let next = await service.ask(.get, "/v1/changes?limit=1", token: token)
        #expect(next.status == (count > 1_000 ? 429 : 200))
    }

    @Test("An account that reads too often must wait and gets a problem; other accounts and its own writes continue")
    func account() async throws {
        let service = try await open { $0.accountReads = Rate(perSecond: 2, burst: 5) }
        let (alice, bob) = (AccountOwner(service), AccountOwner(service, "bob"))
        #expect(await alice.signUp().status == 201)
        #expect(await bob.signUp().status == 201)
        let token = await alice.logIn()["access_token"]
        for _ in 0..<5 {
            #expect(await service.ask(.get, "/v1/accounts/self", token: token).status == 200)
        }
        let refused = await service.ask(
            .get, "/v1/accounts/self", token: token, [.origin: "https://shop.example.com"])
        #expect(refused.status == 429)
        #expect(refused.fields[.retryAfter] == "1")
        #expect(refused.fields[.contentType] == Problem.mediaType)
        #expect(refused.fields[.accessControlAllowOrigin] == "https://shop.example.com")
        #expect(refused["title"] == "Too Many Requests")
        let other = await bob.logIn()["access_token"]
        #expect(await service.ask(.get, "/v1/accounts/self", token: other).status == 200)
        clock.advance(seconds: 1)
        #expect(await service.ask(.get, "/v1/accounts/self", token: token).status == 200)
        #expect(await service.ask(.get, "/v1/accounts/self", token: token).status == 200)
        #expect(await service.ask(.get, "/v1/accounts/self", token: token).status == 429)
        #expect(refusals.all == [.accountRate, .accountRate])
    }

    @Test("Log-ins, sign-ups and other requests of an address have their own rates; an IPv6 /64 is one address")
    func addresses() async throws {
        let service = try await open { limits in
            limits.logIns = Rate(perSecond: 0.1, burst: 2)
            limits.signUps = Rate(perSecond: 0.01, burst: 1)
        }
        let alice = AccountOwner(service)
        #expect(await alice.signUp(peer: "2001:db8:1:2::1").status == 201)
        let second = await AccountOwner(service, "bob").signUp(peer: "2001:db8:1:2:ffff::9")
        #expect(second.status == 429)
        #expect(second.fields[.retryAfter] == "100")
        #expect(await AccountOwner(service, "bob").signUp(peer: "2001:db8:1:3::1").status == 201)
        for _ in 0..<2 { #expect(await alice.logIn(peer: "2001:db8:1:2::5").status == 200) }
        let third = await alice.logIn(peer: "2001:db8:1:2::6")
        #expect(third.status == 429)
        #expect(third.fields[.retryAfter] == "10")
        // Loopback addresses have no limits.
        for _ in 0..<20 { #expect(await alice.logIn(peer: "127.0.0.1").status == 200) }
        #expect(refusals.all == [.addressRate, .addressRate])
    }

    @Test("Invalid tokens count against the address, which does not block valid tokens from it")
    func strangers() async throws {
        let service = try await open { $0.unauthenticatedRequests = Rate(perSecond: 1, burst: 3) }
        let alice = AccountOwner(service)
        #expect(await alice.signUp().status == 201)
        let token = await alice.logIn()["access_token"]
        for _ in 0..<3 { #expect(await service.ask(.get, "/v1/kv", token: "forged").status == 401) }
        #expect(await service.ask(.get, "/v1/kv", token: "forged").status == 429)
        #expect(await service.ask(.get, "/v1/catalog").status == 429)
        #expect(await service.ask(.get, "/v1/kv", token: token).status == 200)
    }

    @Test("The streams of an account are limited, and ending one makes room")
    func streams() async throws {
        let service = try await open { $0.accountStreams = 2 }
        let alice = AccountOwner(service)
        #expect(await alice.signUp().status == 201)
        let token = await alice.logIn()["access_token"] ?? ""
        var head = HTTPRequest(method: .get, scheme: nil, authority: nil, path: "/v1/changes")
        head.headerFields[.authorization] = "Bearer " + token
        head.headerFields[.accept] = "text/event-stream"
        let request = ServiceRequest(head, peer: "192.0.2.1")
        var open = [await service.respond(to: request), await service.respond(to: request)]
        #expect(open.map(\.head.status.code) == [200, 200])
        #expect(await service.respond(to: request).head.status == .tooManyRequests)
        open.removeLast()
        #expect(await service.respond(to: request).head.status == .ok)
        #expect(refusals.all == [.accountConcurrency])
    }

    @Test("A long body is accepted only for an account's values, and never from an unknown sender")
    func longBodies() async throws {
        let service = try await open { _ in }
        let alice = AccountOwner(service)
        #expect(await alice.signUp().status == 201)
        let token = await alice.logIn()["access_token"] ?? ""
        func status(_ method: HTTPRequest.Method, _ path: String, _ token: String?) async -> Int? {
            var head = HTTPRequest(method: method, scheme: nil, authority: nil, path: path)
            if let token { head.headerFields[.authorization] = "Bearer " + token }
            return await service.refusal(ofLongBodyAfter: head, peer: "192.0.2.1")?.head.status.code
        }
        #expect(await status(.put, "/v1/kv/a", token) == nil)
        #expect(await status(.post, "/v1/batch", token) == nil)
        #expect(await status(.put, "/v1/kv/a", nil) == 401)
        #expect(await status(.put, "/v1/kv/a", "forged") == 401)
        #expect(await status(.get, "/v1/kv/a", token) == 413)
        #expect(await status(.post, "/v1/sessions", nil) == 413)
        #expect(await status(.put, "/v1/nothing", token) == 404)
        #expect(refusals.all == Array(repeating: .body, count: 5))
    }
}
