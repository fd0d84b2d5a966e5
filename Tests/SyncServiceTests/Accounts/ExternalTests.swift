import HTTPTypes
import ServiceTestSupport
import SyncCore
import SyncProtocol
import SyncService
import Synchronization
import Testing

@Suite("Accounts of another issuer")
struct ExternalTests {
    /// Accepts the issuer's tokens until the issuer withdraws its keys, and counts the checks.
    private final class Issuing: TokenIssuer {
        private let state = Mutex((isWithdrawn: false, count: 0))
        var count: Int { state.withLock { $0.count } }
        var name: String { PlainIssuer().name }

        func withdraw() { state.withLock { $0.isWithdrawn = true } }

        func verify(_ token: WebToken, now: Int64) async throws(TokenRefusal) -> VerifiedToken {
            let isWithdrawn = state.withLock { state in
                state.count += 1
                return state.isWithdrawn
            }
            guard !isWithdrawn else { throw TokenRefusal("no such key") }
            return try await PlainIssuer().verify(token, now: now)
        }
    }

    private let store = MemoryBackend()
    private let clock = TestClock(1_800_000_000_000)

    @Test("Ending all sessions also ends the issuer's tokens so far; a single token can only be ended at the issuer")
    func ending() async throws {
        let service = try await EntitlementService.open(store, clock: clock, issuer: "https://login.example.com")
        let other = try await EntitlementService.open(store, clock: clock, issuer: "https://login.example.com")
        func token(_ issued: Int64?) -> String {
            let now = clock.now / 1_000
            return .external("carol", now + 600, issued: issued.map { now + $0 })
        }
        let (dated, bare) = (token(-10), token(nil))
        #expect(await service.status(of: bare) == 200)
        let device = await service.ask(.post, "/v1/devices")
        let approval: [String: any Sendable] = ["user_code": device["user_code"] ?? "", "approve": true]
        #expect(await service.ask(.post, "/v1/devices/approvals", token: dated, json: approval).status == 204)
        let session = await service.redeem(device["device_code"])
        let single = await service.ask(.delete, "/v1/sessions", token: dated)
        #expect(single.status == 403 && single.problem?.detail.contains("everywhere=true") == true)
        #expect(await service.status(of: dated) == 200)
        #expect(await service.ask(.delete, "/v1/sessions?everywhere=true", token: dated).status == 204)
        for service in [service, other] {
            for old in [dated, bare, token(0)] { #expect(await service.status(of: old) == 401) }
            #expect(await service.status(of: session["access_token"]) == 401)
        }
        #expect(await service.refresh(session["refresh_token"]).status == 400)
        clock.advance(seconds: 1)
        #expect(await service.status(of: token(0)) == 200, "a new log-in at the issuer gives access again")
    }

    @Test("A recent token of another issuer erases its account without a password, and an older one does not")
    func erasure() async throws {
        let service = try await EntitlementService.open(store, clock: clock, issuer: "https://login.example.com")
        let now = clock.now / 1_000
        for issued in [nil, now - 301] {
            let refused = await service.ask(
                .post, "/v1/accounts/self/erasure", token: .external("carol", now + 600, issued: issued))
            #expect(refused.status == 403 && refused.problem?.detail.contains("5 minutes") == true)
        }
        let recent = String.external("carol", now + 600, issued: now - 300)
        for _ in 0..<2 {
            #expect(await service.ask(.post, "/v1/accounts/self/erasure", token: recent).status == 204)
        }
        #expect(await service.ask(.get, "/v1/accounts/self", token: recent)["created"] == nil)
        #expect(await service.ask(.post, "/v1/accounts", token: recent).status == 201)
    }

    @Test("After an erasure, a token that was ended cannot create a new account, and a later one can")
    func endedBeforeErasure() async throws {
        let service = try await EntitlementService.open(store, clock: clock, issuer: "https://login.example.com")
        func token() -> String { .external("carol", clock.now / 1_000 + 600, issued: clock.now / 1_000) }
        let ended = token()
        #expect(await service.ask(.delete, "/v1/sessions?everywhere=true", token: ended).status == 204)
        #expect(await service.ask(.post, "/v1/accounts/carol/erasure", token: .operatorToken).status == 204)
        #expect(await service.ask(.post, "/v1/accounts", token: ended).status == 403)
        clock.advance(seconds: 1)
        #expect(await service.ask(.post, "/v1/accounts", token: token()).status == 201)
        #expect(await service.status(of: token()) == 200)
    }

    @Test("A valid token without access to an account is reported with its subject and the reason")
    func refusals() async throws {
        let refused = Mutex<[RefusedToken]>([])
        let issuer = "https://login.example.com"
        var configuration = ServiceConfiguration(name: "https://sync.example.com")
        configuration.allowsSignUp = true
        let service = try await EntitlementService(
            store, configuration: configuration, passwords: PlainPasswords(),
            issuers: [PlainIssuer(name: issuer)], host: clock.host, onError: { _ in },
            onRefusedToken: { token in refused.withLock { $0.append(token) } })
        await service.followChanges()
        let (now, clock) = (clock.now / 1_000, clock)
        func check(_ subject: String, _ status: Int, _ reason: String, issued: Int64 = now) async {
            refused.withLock { $0 = [] }
            let token: String = .external(subject, clock.now / 1_000 + 600, issued: issued)
            #expect(await service.status(of: token) == status)
            let found = refused.withLock { $0 }
            #expect(found.map(\.issuer) == [issuer] && found.map(\.subject) == [subject], "\(found)")
            #expect(found.first?.reason.hasPrefix(reason) == true, "\(found)")
        }
        _ = await AccountOwner(service).signUp()
        await check("alice", 403, "its subject is the name of an account that its issuer did not create")
        await check("operator", 401, "its subject is no account name: the name \"operator\" is reserved")
        await check("cafe\u{301}", 401, "its subject is no account name: write the name in composed form (NFC)")
        let token: String = .external("carol", now + 600, issued: now)
        refused.withLock { $0 = [] }
        #expect(await service.status(of: token) == 200)
        #expect(await service.ask(.delete, "/v1/sessions?everywhere=true", token: token).status == 204)
        #expect(refused.withLock { $0 } == [])
        await check("carol", 401, "all tokens up to its own were ended")
    }

    @Test("A token is verified again each hour, however long it is valid")
    func remembering() async throws {
        let issuer = Issuing()
        let service = try await EntitlementService(
            store, configuration: ServiceConfiguration(name: "https://sync.example.com"), passwords: PlainPasswords(),
            issuers: [issuer], host: clock.host, onError: { _ in })
        await service.followChanges()
        let token: String = .external("carol", clock.now / 1_000 + 864_000)
        #expect(await service.status(of: token) == 200)
        issuer.withdraw()
        clock.advance(seconds: 3_599)
        #expect(await service.status(of: token) == 200)
        #expect(issuer.count == 1)
        clock.advance(seconds: 1)
        #expect(await service.status(of: token) == 401)
    }
}
