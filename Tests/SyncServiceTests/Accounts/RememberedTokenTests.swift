import HTTPTypes
import ServiceTestSupport
import SyncCore
import Testing

@testable import SyncService

@Suite("Cached tokens")
struct RememberedTokenTests {
    private let clock = TestClock(1_800_000_000_000)

    private func status(_ service: EntitlementService, _ field: String) async -> Int {
        await service.ask(.get, "/v1/accounts/self", [.authorization: field]).status
    }

    @Test("A token takes one place in the cache, however its header field is written")
    func spellings() async throws {
        let service = try await EntitlementService.open(MemoryBackend(), clock: clock)
        let alice = AccountOwner(service)
        _ = await alice.signUp()
        let token = try #require(await alice.logIn()["access_token"])
        for scheme in ["bEaReR", "bearer", "BEARER", "Bearer"] {
            for count in [10_000, 100, 2, 1] {
                let field = scheme + String(repeating: " ", count: count) + token
                #expect(await status(service, field) == 200)
            }
        }
        let remembered = service.authenticator.remembered
        #expect(remembered.count == 1)
        #expect(remembered.byteCount == "Bearer ".utf8.count + token.utf8.count)
        #expect(await service.ask(.delete, "/v1/sessions", token: token).status == 204)
        #expect(service.authenticator.remembered == (0, 0))
        #expect(await status(service, "bearer  " + token) == 401)
    }

    @Test("The cache holds a limited number of tokens per account; other tokens are verified again and still work")
    func many() async throws {
        let service = try await EntitlementService.open(
            MemoryBackend(), clock: clock, issuer: "https://login.example.com")
        func token(_ name: String, _ number: Int) -> String {
            .external(name, clock.now / 1_000 + 600 + Int64(number))
        }
        let other = token("bob", 0)
        #expect(await status(service, "Bearer " + other) == 200)
        let tokens = (0..<(Authenticator.accountCapacity + 10)).map { token("alice", $0) }
        for token in tokens { #expect(await status(service, "Bearer " + token) == 200) }
        #expect(service.authenticator.remembered.count == Authenticator.accountCapacity + 1)
        #expect(service.authenticator.known("Bearer " + other) != nil)
        for token in tokens { #expect(await status(service, "Bearer " + token) == 200) }
        let (count, byteCount) = service.authenticator.remembered
        #expect(count == Authenticator.accountCapacity + 1)
        let fields = (tokens + [other]).map { "Bearer " + $0 }
        #expect(byteCount == fields.reduce(0) { $0 + (service.authenticator.known($1) == nil ? 0 : $1.utf8.count) })
    }
}
