import HTTPTypes
import ServiceTestSupport
import SyncCore
import SyncProtocol
import Testing

@testable import SyncService

@Suite("Guesses and quotas over two servers")
struct ManyServersLimitTests {
    private func guess(_ service: EntitlementService, _ peer: String, name: String = "alice") async -> Int {
        await AccountOwner(service, name, password: "wrong password").logIn(peer: peer).status
    }

    @Test("Wrong guesses at all servers together leave an address one guess; first guesses and sessions never wait")
    func guesses() async throws {
        let servers = try await TwoServers()
        let alice = AccountOwner(servers.first)
        let session = await alice.signUp()
        for address in 0..<10 {
            let service = address.isMultiple(of: 2) ? servers.first : servers.second
            for _ in 0..<10 { #expect(await guess(service, "10.0.0.\(address)") == 400) }
        }
        for service in [servers.first, servers.second] {
            #expect(await guess(service, "10.0.1.1") == 400)
            #expect(await guess(service, "10.0.1.1") == 429)
            #expect(await AccountOwner(service).logIn(peer: "10.0.1.2").status == 200)
        }
        #expect(await servers.second.refresh(session["refresh_token"]).status == 200)
        // A device with a session may mistype the password.
        let device = try #require(await AccountOwner(servers.first).logIn(peer: "10.0.1.3")["access_token"])
        for _ in 0..<3 {
            let reply = await AccountOwner(servers.first, password: "mistyped one").erase(token: device)
            #expect(reply.status == 400)
        }
        #expect(await AccountOwner(servers.first).changePassword(to: "battery staple", token: device).status == 204)
        // After an hour, an address has ten guesses again.
        servers.pass(seconds: 3_600)
        for _ in 0..<10 { #expect(await guess(servers.second, "10.0.1.1") == 400) }
    }

    @Test("1,500 wrong guesses cause ten writes, and those for unknown names cause none")
    func writes() async throws {
        let servers = try await TwoServers()
        #expect(await AccountOwner(servers.first).signUp().status == 201)
        for number in 0..<1_500 {
            #expect(await guess(servers.first, "10.1.\(number / 250).\(number % 250)") == 400)
            #expect(await guess(servers.first, "10.2.\(number / 250).\(number % 250)", name: "n\(number)") == 400)
        }
        #expect(servers.lines.0.count("write server/guesses") == 10)
        #expect(try await servers.keys("server/guesses/") == ["server/guesses/alice"])
        let alice = AccountOwner(servers.first)
        #expect(await alice.erase(token: alice.logIn()["access_token"]).status == 204)
        #expect(try await servers.keys("server/guesses/").isEmpty)
    }

    @Test("Keys that another server wrote count as soon as the change is read, and own writes need no new count")
    func quota() async throws {
        let servers = try await TwoServers { $0.callerLimits.accountKeys = 4 }
        let reply = await AccountOwner(servers.first).signUp()
        let token = reply["access_token"]
        let home = "accounts/alice/\(reply["incarnation"] ?? "")/"
        #expect(await servers.first.put(home + "a", token: token) == 200)
        let count = servers.lines.0.count("list")
        for name in ["b", "b", "a"] {
            #expect(await servers.first.put(home + name, token: token) == 200)
            await servers.first.followChanges()
        }
        #expect(servers.lines.0.count("list") == count)
        for name in ["c", "d"] { #expect(await servers.second.put(home + name, token: token) == 200) }
        await servers.first.followChanges()
        #expect(await servers.first.put(home + "e", token: token) == 507)
        #expect(await servers.second.ask(.delete, "/v1/kv/\(home)d?if=any", token: token).status == 204)
        await servers.first.followChanges()
        // The place of a deleted key is taken for an hour, also at the other server.
        #expect(await servers.first.put(home + "e", token: token) == 507)
        #expect(await servers.first.put(home + "d", token: token) == 200)
    }
}
