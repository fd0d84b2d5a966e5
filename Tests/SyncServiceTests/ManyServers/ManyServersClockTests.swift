import HTTPTypes
import ServiceTestSupport
import SyncCore
import SyncProtocol
import Testing

@testable import SyncService

@Suite("Servers whose clocks differ")
struct ManyServersClockTests {
    private let servers: TwoServers

    init() async throws { servers = try await TwoServers() }

    /// Lets both servers state their times and read those of the other, as they do at the start and every minute.
    private func meet() async throws {
        for _ in 0..<2 {
            try await servers.first.clockGuard.attend()
            try await servers.second.clockGuard.attend()
        }
    }

    /// The status of a sign-up at each server.
    private func signUps(_ name: String) async -> [Int] {
        [
            await AccountOwner(servers.first, name + "1").signUp().status,
            await AccountOwner(servers.second, name + "2").signUp().status,
        ]
    }

    @Test("A server whose clock is ahead refuses writes, and the others go on")
    func ahead() async throws {
        servers.clocks.1.advance(seconds: 7_200)
        try await meet()
        #expect(await signUps("a") == [201, 503])
        let error = await #expect(throws: BackendError.self) { try await servers.second.checkReadiness() }
        #expect(error?.message.hasPrefix("the server's clock is at least 7200 s ahead of another server") == true)
        // It leaves no trace, and is believed at once when it is right.
        servers.clocks.1.advance(seconds: -7_200)
        #expect(await signUps("b") == [201, 201])
        servers.pass(seconds: 3_600)
        try await meet()
        #expect(await signUps("c") == [201, 201])
    }

    @Test("A server whose clock is set back refuses writes, and the others go on")
    func behind() async throws {
        try await meet()
        servers.pass(seconds: 600)
        for service in [servers.first, servers.second] { service.clockGuard.makeDue() }
        try await meet()
        servers.clocks.1.advance(seconds: -7_200)
        for service in [servers.first, servers.second] { service.clockGuard.makeDue() }
        try await meet()
        #expect(await signUps("a") == [201, 503])
    }

    @Test("A server with a wrong clock does not replace the keys of the others", arguments: [-30, 31])
    func keys(days: Int64) async throws {
        let token = await AccountOwner(servers.first).signUp()["access_token"]
        try await meet()
        let clock = TestClock(TwoServers.start + days * 86_400_000)
        for _ in 0..<3 {
            let wrong = try await EntitlementService.open(servers.store, clock: clock)
            _ = await wrong.status(of: token)
            await servers.first.followChanges()
            #expect(await servers.first.status(of: token) == 200)
        }
    }

    @Test("A time that is accepted at the start of one server is accepted by the others")
    func accepted() async throws {
        servers.pass(seconds: 7_200)
        for service in [servers.first, servers.second] { service.clockGuard.makeDue() }
        try await meet()
        for service in [servers.first, servers.second] { service.clockGuard.makeDue() }
        try await meet()
        servers.clocks.0.advance(seconds: -7_200)
        servers.clocks.1.advance(seconds: -7_200)
        #expect(await signUps("a") == [503, 503])
        _ = try await EntitlementService.open(
            servers.store, clock: servers.clocks.0, configure: { $0.isClockAccepted = true })
        try await servers.second.clockGuard.attend()
        #expect(await AccountOwner(servers.second, "b").signUp().status == 201)
    }

    @Test("Differences of five minutes are accepted")
    func small() async throws {
        servers.clocks.1.advance(seconds: 300)
        try await meet()
        #expect(await signUps("a") == [201, 201])
    }

    @Test("A server that has ended, and a store that was idle, make no clock wrong")
    func idle() async throws {
        try await servers.first.clockGuard.attend()
        servers.pass(seconds: 86_400)
        let third = try await EntitlementService.open(servers.store, clock: servers.clocks.1)
        for _ in 0..<3 { try await third.clockGuard.attend() }
        #expect(await AccountOwner(third).signUp().status == 201)
    }

    @Test("A server that is ahead alone goes on three minutes after the other one has ended")
    func ended() async throws {
        servers.clocks.1.advance(seconds: 7_200)
        try await meet()
        #expect(await signUps("a")[1] == 503)
        servers.pass(seconds: 181)
        try await servers.second.clockGuard.attend()
        #expect(await signUps("b")[1] == 201)
    }

    @Test("If the store has a clock, it decides: the server that differs refuses writes", arguments: [7_200, -7_200])
    func storeClock(_ seconds: Int64) async throws {
        for line in [servers.lines.0, servers.lines.1] { line.report(time: TwoServers.start) }
        servers.clocks.1.advance(seconds: seconds)
        try await meet()
        #expect(await signUps("a") == [201, 503])
        // Even if all others are wrong.
        servers.clocks.1.advance(seconds: -seconds)
        servers.clocks.0.advance(seconds: -3_600)
        try await meet()
        #expect(await signUps("b") == [503, 201])
    }

    @Test("A refresh whose answer was lost ends no session at a server two hours off", arguments: [7_200, -7_200])
    func refresh(_ seconds: Int64) async throws {
        // A clock that is set back stays after the time at which the store began, so that it is not noticed.
        servers.pass(seconds: 10_000)
        let old = try #require(await AccountOwner(servers.first).signUp()["refresh_token"])
        servers.clocks.1.advance(seconds: seconds)
        let next = try #require(await servers.first.refresh(old)["refresh_token"])
        let repeated = await servers.second.refresh(old)
        #expect(repeated.status == 503 && repeated.fields[.retryAfter] == "1")
        #expect(await servers.first.refresh(old)["refresh_token"] == next)
        // The other server accepts the current token, and this one its successor.
        let last = try #require(await servers.second.refresh(next)["refresh_token"])
        #expect(await servers.first.refresh(last).status == 200)
    }

    @Test("A copy of an older token still ends the session, at any server")
    func copies() async throws {
        let old = try #require(await AccountOwner(servers.first).signUp()["refresh_token"])
        let next = try #require(await servers.first.refresh(old)["refresh_token"])
        let last = try #require(await servers.second.refresh(next)["refresh_token"])
        #expect(await servers.first.refresh(old).status == 400)
        #expect(await servers.first.refresh(last).status == 400)
        let other = try #require(await AccountOwner(servers.first).logIn()["refresh_token"])
        _ = await servers.first.refresh(other)
        servers.pass(seconds: 7_261)
        #expect(await servers.second.refresh(other).status == 400, "no difference of clocks explains it")
    }
}
