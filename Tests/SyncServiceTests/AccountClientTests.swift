import HTTPStorage
import HTTPTypes
import ServiceTestSupport
import SyncCore
import SyncService
import Synchronization
import TestSupport
import Testing

@Suite("The client of accounts at a server")
struct AccountClientTests {
    private let clock = TestClock(1_800_000_000_000)
    private let service: EntitlementService
    private let transport: CountingTransport
    private let client: AccountClient

    init() async throws {
        service = try await .open(MemoryBackend(), clock: clock)
        transport = CountingTransport(service)
        client = try AccountClient(server: Device.server, transport: transport)
    }

    private func kind(_ body: () async throws -> Void) async -> AccountError.Kind? {
        do { try await body() } catch { return (error as? AccountError)?.kind }
        return nil
    }

    @Test(
        "Each refusal has its kind: name taken, invalid password, wrong password, too many guesses, server unreachable")
    func refusals() async throws {
        _ = try await client.signUp("alice", password: Device.password)
        #expect(await kind { _ = try await client.signUp("alice", password: "another one") } == .nameTaken)
        #expect(await kind { _ = try await client.signUp("bob", password: "short") } == .invalid)
        #expect(await kind { _ = try await client.logIn("alice", password: "wrong horse") } == .invalidCredentials)
        #expect(await kind { _ = try await client.logIn("nobody", password: "wrong horse") } == .invalidCredentials)
        #expect(await kind { _ = try await client.refresh("no token") } == .sessionOver)
        #expect(await kind { _ = try await client.ownAccount { _ in "forged" } } == .sessionOver)
        var error: AccountError?
        for _ in 0..<200 where error?.kind != .tooManyGuesses {
            do throws(AccountError) { _ = try await client.logIn("alice", password: "wrong horse") } catch let caught {
                error = caught
            }
        }
        #expect(error?.kind == .tooManyGuesses && error?.isTransient == true && (error?.retryAfter ?? .zero) > .zero)
        transport.decide { _ in .neverArrives }
        #expect(await kind { _ = try await client.logIn("alice", password: Device.password) } == .unreachable)
        #expect(throws: AccountError.self) { try AccountClient(server: "ftp://x", transport: transport) }
    }

    @Test("A replaced password, recovery code or session no longer works")
    func passwords() async throws {
        let made = try await client.signUp("alice", password: Device.password)
        #expect(try await client.signUp("alice", password: Device.password).recoveryCodes == nil)
        let codes = try #require(made.recoveryCodes)
        let token: HTTPBackend.Token = { _ in made.session.accessToken }
        try await client.changePassword(from: Device.password, to: "second horse", token: token)
        #expect(await kind { _ = try await client.logIn("alice", password: Device.password) } == .invalidCredentials)
        let new = try await client.renewRecoveryCodes(password: "second horse", token: token)
        #expect(new.count == codes.count && Set(new).isDisjoint(with: codes))
        #expect(
            await kind { _ = try await client.recover("alice", code: codes[0], newPassword: "third horse") }
                == .invalidCredentials)
        let session = try await client.recover("alice", code: new[0], newPassword: "third horse")
        #expect(session.account == "alice" && session.incarnation == made.session.incarnation)
        #expect(await kind { _ = try await client.ownAccount(token: token) } == .sessionOver)
        #expect(try await client.ownAccount { _ in session.accessToken }.name == "alice")
    }

    @Test("A device without a keyboard polls at the interval that the server requests, and slower when told to")
    func device() async throws {
        let owner = try await client.signUp("alice", password: Device.password).session
        let machine = ManualHost(seed: 3)
        let polls = Mutex(0)
        let code = try await client.beginDeviceLogIn()
        let (clock, client) = (clock, client)
        transport.decide { request in
            guard request.path == "/v1/sessions" else { return .arrives }
            let poll = polls.withLock { polls in
                polls += 1
                return polls
            }
            // The second request comes too early by the server's clock. Before the fourth one, the owner approves the
            // device.
            if poll != 2 { clock.advance(seconds: 60) }
            if poll == 4 {
                try? await client.decide(
                    device: code.userCode.lowercased(), isApproved: true, password: Device.password,
                    token: { _ in owner.accessToken })
            }
            return .arrives
        }
        let session = try await client.waitForApproval(of: code, host: machine.host)
        #expect(session.account == "alice" && session.refreshToken != owner.refreshToken)
        #expect(machine.pauses == [.seconds(5), .seconds(5), .seconds(10), .seconds(10)])
        #expect(
            await kind {
                try await client.decide(
                    device: "BCDF-GHJK", isApproved: true, password: Device.password,
                    token: { _ in owner.accessToken })
            } == .unknown)
        for (password, refusal) in [(nil, AccountError.Kind.invalid), ("wrong horse", .invalidCredentials)] {
            #expect(
                await kind {
                    try await client.decide(
                        device: code.userCode, isApproved: true, password: password, token: { _ in owner.accessToken })
                } == refusal)
        }
    }

    @Test("A device that is denied, or that is never approved, is told so")
    func refusedDevice() async throws {
        let owner = try await client.signUp("alice", password: Device.password).session
        let code = try await client.beginDeviceLogIn()
        try await client.decide(device: code.userCode, isApproved: false, token: { _ in owner.accessToken })
        let host = ManualHost(seed: 3).host
        #expect(await kind { _ = try await client.waitForApproval(of: code, host: host) } == .deviceRefused)
        let late = try await client.beginDeviceLogIn()
        transport.decide { request in
            if request.path == "/v1/sessions" { clock.advance(seconds: 10) }
            return .arrives
        }
        #expect(await kind { _ = try await client.waitForApproval(of: late, host: host) } == .codeExpired)
    }

    @Test("The operator lists accounts, adds a recovery code for an owner who lost all, and erases accounts")
    func operating() async throws {
        let names = ["alice", "b/o b", "..", "é"]
        for name in names { _ = try await client.signUp(name, password: Device.password) }
        let token: HTTPBackend.Token = { _ in .operatorToken }
        var (listed, after): ([String], String?) = ([], nil)
        repeat {
            let page = try await client.accounts(after: after, limit: 2, token: token)
            listed += page.accounts.map(\.name)
            after = page.next
        } while after != nil
        #expect(Set(listed) == Set(names) && listed.count == names.count)
        for name in names {
            let added = try await client.addRecoveryCode(to: name, token: token)
            #expect(added.account == name)
            _ = try await client.recover(name, code: added.code, newPassword: "second horse")
            try await client.erase(name, asOperator: token)
            #expect(await kind { _ = try await client.logIn(name, password: "second horse") } == .invalidCredentials)
        }
        #expect(await kind { _ = try await client.addRecoveryCode(to: "nobody", token: token) } == .unknown)
        let carol = try await client.signUp("carol", password: Device.password).session
        #expect(await kind { _ = try await client.accounts(token: { _ in carol.accessToken }) } == .notAllowed)
    }
}
