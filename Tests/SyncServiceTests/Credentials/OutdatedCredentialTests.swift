import HTTPTypes
import ServiceTestSupport
import SyncCore
import SyncProtocol
import SyncService
import Testing

/// Each test pauses a request between the check of its credential and the write that the check authorizes. The owner
/// changes the password in the meantime, and the request must be refused.
@Suite("A credential that is out of date when it is used")
struct OutdatedCredentialTests {
    private let store = HookedBackend()
    private let clock = TestClock(1_800_000_000_000)
    private let gate = Gate()
    private let service: EntitlementService
    private let alice: AccountOwner
    private let owner: String?
    private let thief: String?
    private let codes: [String]

    init() async throws {
        var passwords = PlainPasswords()
        passwords.afterVerifying = { [gate] in await gate.pass() }
        service = try await .open(store, clock: clock, passwords: passwords)
        alice = AccountOwner(service)
        let made = await alice.signUp()
        owner = made["access_token"]
        codes = try #require(made.members["recovery_codes"] as? [String])
        thief = await alice.logIn()["access_token"]
        #expect(await service.status(of: owner) == 200)
        #expect(await service.status(of: thief) == 200)
    }

    /// Runs `request` up to the gate, then `change`, then the rest of the request.
    private func interrupt(
        _ request: @escaping @Sendable () async -> Reply, answering expected: Int = 204, by change: () async -> Reply
    ) async -> Reply {
        gate.close()
        async let reply = request()
        await gate.reached.wait()
        let status = await change().status
        #expect(status == expected)
        gate.open()
        return await reply
    }

    private func changePassword() async -> Reply { await alice.changePassword(to: "battery staple", token: owner) }

    private var renewed: AccountOwner { AccountOwner(service, password: "battery staple") }

    private func expectThatOnlyTheOwnerIsIn() async throws {
        #expect(await service.status(of: owner) == 200)
        #expect(await service.status(of: thief) == 401)
        #expect(await alice.logIn().status == 400)
        let sessions = try await store.keys().count { $0.hasPrefix("server/sessions/alice/") }
        #expect(sessions == 1)
        #expect(await renewed.logIn().status == 200)
    }

    /// Pauses the first write of a key that begins with `prefix`.
    private func pauseWrites(of prefix: String) {
        store.before { [gate] (key, _) throws(BackendError) in
            if key.hasPrefix(prefix) { await gate.pass() }
        }
    }

    enum Attempt: CaseIterable {
        case recoveryCodes, password, approval, erasure, logIn, signUp
    }

    @Test(
        "It creates no recovery codes, sets no password, approves no device, erases nothing, and begins no session",
        arguments: Attempt.allCases)
    func attempts(_ attempt: Attempt) async throws {
        let device = await service.ask(.post, "/v1/devices")
        let reply = await interrupt {
            switch attempt {
            case .recoveryCodes:
                await service.ask(
                    .post, "/v1/accounts/self/recovery-codes", token: thief, json: ["password": "correct horse"])
            case .password: await alice.changePassword(to: "thief's password", token: thief)
            case .approval: await alice.approve(device["user_code"], token: thief)
            case .erasure: await alice.erase(token: thief)
            case .logIn: await alice.logIn()
            case .signUp: await alice.signUp()
            }
        } by: {
            await changePassword()
        }
        let statuses: [Attempt: Int] = [.logIn: 400, .signUp: 409]
        #expect(reply.status == statuses[attempt, default: 403])
        #expect(reply["access_token"] == nil && reply.members["recovery_codes"] == nil)
        if attempt == .approval {
            #expect(reply.problem?.detail.contains("begin again on the device") == true)
            #expect(await service.redeem(device["device_code"]).problem?.error == "invalid_grant")
        }
        #expect(await AccountOwner(service, password: "thief's password").logIn().status == 400)
        try await expectThatOnlyTheOwnerIsIn()
        guard attempt == .recoveryCodes else { return }
        for code in codes { #expect(await service.recover("alice", code).status == 400) }
    }

    @Test("It redeems no approved device")
    func redemption() async throws {
        let device = await service.ask(.post, "/v1/devices")
        #expect(await alice.approve(device["user_code"], token: thief).status == 204)
        pauseWrites(of: "server/sessions/alice/")
        let reply = await interrupt {
            await service.redeem(device["device_code"])
        } by: {
            await changePassword()
        }
        #expect(reply.problem?.error == "invalid_grant")
        try await expectThatOnlyTheOwnerIsIn()
    }

    @Test("A recovery code that was checked before all sessions were ended recovers nothing")
    func recovery() async throws {
        pauseWrites(of: "server/accounts/alice")
        let reply = await interrupt {
            await service.recover("alice", codes[0])
        } by: {
            await service.ask(.delete, "/v1/sessions?everywhere=true", token: owner)
        }
        #expect(reply.status == 400 && reply.problem?.error == "invalid_grant")
        #expect(await AccountOwner(service, password: "another horse").logIn().status == 400)
        #expect(await alice.logIn().status == 200)
    }

    @Test("A recovery code that was checked before the codes were replaced recovers nothing")
    func replacedCodes() async throws {
        pauseWrites(of: "server/accounts/alice")
        let reply = await interrupt({ await service.recover("alice", codes[0]) }, answering: 200) {
            await service.ask(
                .post, "/v1/accounts/self/recovery-codes", token: owner, json: ["password": "correct horse"])
        }
        #expect(reply.status == 400 && reply.problem?.error == "invalid_grant")
        #expect(await service.status(of: owner) == 200)
        #expect(await alice.logIn().status == 200)
    }

    @Test("A token that was checked before a password change ends no sessions of the owner")
    func logOut() async throws {
        pauseWrites(of: "server/accounts/alice")
        let reply = await interrupt {
            await service.ask(.delete, "/v1/sessions?everywhere=true", token: thief)
        } by: {
            await changePassword()
        }
        #expect(reply.status == 403)
        try await expectThatOnlyTheOwnerIsIn()
    }

    @Test("A session that was ended before the password was checked is not revived")
    func endedSession() async throws {
        let other = try await EntitlementService.open(store, clock: clock)
        #expect(await other.status(of: thief) == 200)
        // The epoch ends, but its sessions cannot be deleted.
        store.before { (key, isDelete) throws(BackendError) in
            if isDelete { throw BackendError(.unavailable, key: key, message: "the disk is away") }
        }
        #expect(await service.ask(.delete, "/v1/sessions?everywhere=true", token: owner).status == 503)
        let change = await other.ask(
            .put, "/v1/accounts/self/password", token: thief,
            json: ["password": "correct horse", "new_password": "battery staple"])
        #expect(change.status == 503, "the password is correct, and the other server has not noticed the change yet")
        store.before(nil)
        #expect(await service.status(of: thief) == 401)
        #expect(await service.status(of: owner) == 401)
    }

    @Test("A log-in with the new password during the change keeps its session")
    func newSession() async throws {
        // A second gate, at the check of the password.
        let gate = Gate()
        store.before { (key, _) throws(BackendError) in
            if key.hasPrefix("server/sessions/alice/") { await gate.pass() }
        }
        gate.close()
        async let change = changePassword()
        await gate.reached.wait()
        let session = await renewed.logIn()
        #expect(session.status == 200)
        gate.open()
        #expect(await change.status == 204)
        #expect(await service.status(of: session["access_token"]) == 200)
        #expect(await service.refresh(session["refresh_token"]).status == 200)
        #expect(await service.status(of: owner) == 200)
    }

    @Test("The session that changes the password can be refreshed at the same time and continues")
    func refresh() async throws {
        let session = await alice.logIn()
        let (token, refreshToken) = (session["access_token"], session["refresh_token"])
        let id = try #require(refreshToken?.split(separator: ".")[2])
        store.beforeReading { [gate] key in
            if key.text == "server/sessions/alice/\(id)" { await gate.pass() }
        }
        // Verified in advance, so that changing the password does not read the session first.
        #expect(await service.status(of: token) == 200)
        let reply = await interrupt {
            await service.refresh(refreshToken)
        } by: {
            await alice.changePassword(to: "battery staple", token: token)
        }
        #expect(reply.status == 200)
        #expect(await service.status(of: reply["access_token"]) == 200)
    }

    @Test("Another issuer's token that was checked before an erasure begins no new account after it")
    func external() async throws {
        let issuer = "https://login.example.com"
        let first = try await EntitlementService.open(store, clock: clock, issuer: issuer)
        let second = try await EntitlementService.open(store, clock: clock, issuer: issuer)
        let token: String = .external("carol", clock.now / 1_000 + 600)
        #expect(await first.status(of: token) == 200)
        store.beforeReading { [gate] key in
            if key.text == "server/accounts/carol" { await gate.pass() }
        }
        let reply = await interrupt {
            await first.ask(.post, "/v1/accounts", token: token)
        } by: {
            await second.ask(.post, "/v1/accounts/carol/erasure", token: .operatorToken)
        }
        #expect(reply.status == 403)
        #expect(await second.ask(.post, "/v1/accounts", token: token).status == 201, "checked after the erasure")
    }
}
