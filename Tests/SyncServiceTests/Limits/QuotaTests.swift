import HTTPTypes
import ServiceTestSupport
import SyncCore
import SyncProtocol
import SyncService
import Testing

@Suite("The quota of an account")
struct QuotaTests {
    private let clock = TestClock(1_800_000_000_000)
    private let store = HookedBackend()

    private func open(keys: Int? = nil, bytes: Int? = nil) async throws -> EntitlementService {
        try await EntitlementService.open(
            store, clock: clock,
            configure: { configuration in
                (configuration.callerLimits.accountKeys, configuration.callerLimits.accountBytes) = (keys, bytes)
            })
    }

    /// Alice's token, and the path of her keys.
    private func enter(_ service: EntitlementService) async throws -> (token: String, path: String) {
        let alice = AccountOwner(service)
        _ = await alice.signUp()
        let reply = await alice.logIn()
        let (token, incarnation) = (try #require(reply["access_token"]), try #require(reply["incarnation"]))
        return (token, "/v1/kv/accounts/alice/\(incarnation)/")
    }

    @Test("Bytes are limited; shorter values and deletions are always allowed, and deletions make room")
    func bytes() async throws {
        let service = try await open(bytes: 1_000)
        let (token, path) = try await enter(service)
        func put(_ name: String, _ count: Int) async -> Reply {
            await service.ask(.put, path + name + "?if=any", token: token, body: [UInt8](repeating: 1, count: count))
        }
        #expect(await put("a", 600).status == 200)
        #expect(await put("b", 400).status == 200)
        let refused = await put("c", 1)
        #expect(refused.status == 507)
        #expect(refused.problem?.type == "urn:entitlementsync:problem:quota")
        #expect(refused.problem?.kind == "full")
        #expect(refused.problem?.detail.contains("1000 bytes") == true)
        #expect(await service.ask(.get, path + "c", token: token).status == 404)
        #expect(await put("a", 601).status == 507)
        #expect(await put("a", 500).status == 200)
        #expect(await put("c", 100).status == 200)
        #expect(await put("c", 101).status == 507)
        #expect(await service.ask(.delete, path + "b?if=any", token: token).status == 204)
        #expect(await put("c", 500).status == 200)
        // The operator's own writes do not count for the account.
        let written = await service.ask(
            .put, path + "d?if=any", token: .operatorToken, body: [UInt8](repeating: 1, count: 5_000))
        #expect(written.status == 200)
    }

    @Test("Keys are limited, in a batch for each operation on its own")
    func keys() async throws {
        let service = try await open(keys: 3)
        let (token, path) = try await enter(service)
        let prefix = String(path.dropFirst("/v1/kv/".count))
        let operations = try (0..<5).map { number in
            BatchOperation.write(WriteRequest(try EntryKey("\(prefix)\(number)"), value: [1], if: .any))
        }
        let reply = await service.ask(
            .post, "/v1/batch", token: token, [.contentType: BatchBody.mediaType],
            body: BatchBody.bytes(of: operations))
        #expect(reply.status == 200)
        let results = try BatchBody.results(reply.body)
        #expect(results.count == 5)
        let statuses = results.map { result in if case .problem(let problem) = result { problem.status } else { 200 } }
        #expect(statuses == [200, 200, 200, 507, 507])
        #expect(await service.ask(.put, path + "0?if=any", token: token, body: [2]).status == 200)
        #expect(await service.ask(.put, path + "9?if=any", token: token, body: [2]).status == 507)
    }

    @Test("Another server's writes are noticed after a while; failed writes and conflicts do not count")
    func drift() async throws {
        let service = try await open(bytes: 1_000)
        let (token, path) = try await enter(service)
        func put(_ name: String, _ count: Int, _ condition: HTTPFields = [:]) async -> Int {
            let query = condition.isEmpty ? "?if=any" : ""
            return await service.ask(
                .put, path + name + query, token: token, condition, body: [UInt8](repeating: 1, count: count)
            ).status
        }
        #expect(await put("a", 100) == 200)
        // The conflict carries the current entry.
        #expect(await put("a", 900, [.ifNoneMatch: "*"]) == 412)
        #expect(await put("b", 900) == 200)
        #expect(await service.ask(.delete, path + "b?if=any", token: token).status == 204)
        store.before { _, _ throws(BackendError) in throw BackendError(.unavailable, message: "away") }
        #expect(await put("b", 900) == 503)
        store.before(nil)
        #expect(await put("b", 900) == 200)
        let key = try EntryKey(String(path.dropFirst("/v1/kv/".count)) + "b")
        _ = try await store.delete(key, if: .any)
        #expect(await put("c", 900) == 507)
        clock.advance(seconds: 601)
        let later = try await enter(service)
        let reply = await service.ask(
            .put, path + "c?if=any", token: later.token, body: [UInt8](repeating: 1, count: 900))
        #expect(reply.status == 200)
    }

    @Test("An erased incarnation leaves nothing behind that counts")
    func erasure() async throws {
        let service = try await open(bytes: 1_000)
        let (token, path) = try await enter(service)
        let full = [UInt8](repeating: 1, count: 1_000)
        #expect(await service.ask(.put, path + "a?if=any", token: token, body: full).status == 200)
        #expect(await AccountOwner(service).erase(token: token).status == 204)
        let next = try await enter(service)
        #expect(next.path != path)
        #expect(await service.ask(.put, next.path + "a?if=any", token: next.token, body: full).status == 200)
    }

    @Test("A store that refuses writes is noticed by the write that fails and by no other; then a test write is made")
    func readiness() async throws {
        let service = try await open()
        let (token, path) = try await enter(service)
        let before = try await store.keys()
        for _ in 0..<3 { try await service.checkReadiness() }
        #expect(try await store.keys() == before)
        store.before { _, _ throws(BackendError) in
            throw BackendError(.full, operation: .write, message: "no space is left")
        }
        // Nothing was written yet.
        try await service.checkReadiness()
        #expect(await service.ask(.put, path + "a?if=any", token: token, body: [1]).status == 507)
        await #expect(throws: BackendError.self) { try await service.checkReadiness() }
        store.before(nil)
        // The last test write was a moment ago.
        await #expect(throws: BackendError.self) { try await service.checkReadiness() }
        clock.advance(seconds: 6)
        try await service.checkReadiness()
    }
}
