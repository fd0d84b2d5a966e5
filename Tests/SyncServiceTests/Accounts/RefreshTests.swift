import HTTPTypes
import ServiceTestSupport
import SyncCore
import SyncProtocol
import SyncService
import Testing

@Suite("Refresh tokens that were used")
struct RefreshTests {
    private let clock = TestClock(1_800_000_000_000)
    private let service: EntitlementService
    private let alice: AccountOwner

    init() async throws {
        service = try await .open(MemoryBackend(), clock: clock)
        alice = AccountOwner(service)
    }

    @Test("A token that is two or more steps old ends its own session at any time", arguments: [2, 3, 10])
    func copies(_ steps: Int) async throws {
        var tokens = [try #require(await alice.signUp()["refresh_token"])]
        let other = try #require(await alice.logIn()["refresh_token"])
        for _ in 0..<steps {
            tokens.append(try #require(await service.refresh(tokens[tokens.count - 1])["refresh_token"]))
        }
        let access = await service.refresh(tokens[steps])
        #expect(access.status == 200)
        #expect(await service.refresh(tokens[0]).problem?.error == "invalid_grant")
        #expect(await service.refresh(access["refresh_token"]).status == 400)
        #expect(await service.status(of: access["access_token"]) == 401)
        #expect(await service.refresh(other).status == 200)
    }

    @Test("A token that was never issued ends nothing, however much of it is correct")
    func forged() async throws {
        let first = try #require(await alice.signUp()["refresh_token"])
        let second = try #require(await service.refresh(first)["refresh_token"])
        let third = try #require(await service.refresh(second)["refresh_token"])
        let parts = third.split(separator: ".").map(String.init)
        let old = first.split(separator: ".").map(String.init)
        #expect(parts.count == 5 && parts[3] == "2" && old[3] == "0")
        for part in parts.indices {
            var forged = parts
            forged[part] = old[part] == parts[part] ? String(old[part].reversed()) : old[part]
            #expect(await service.refresh(forged.joined(separator: ".")).status == 400, "\(part)")
        }
        for text in [parts.prefix(4).joined(separator: "."), third + ".", third.replacing(".2.", with: ".02.")] {
            #expect(await service.refresh(text).status == 400)
        }
        #expect(await service.refresh(third).status == 200, "the session continues")
    }
}
