import HTTPTypes
import ServiceTestSupport
import SyncCore
import SyncProtocol
import SyncService
import Testing

@Suite("Accounts and sessions")
struct AccountTests {
    private let store = MemoryBackend()
    private let clock = TestClock(1_800_000_000_000)
    private let service: EntitlementService

    init() async throws { service = try await .open(store, clock: clock) }

    private func signUp(_ name: String = "alice", _ password: String = "correct horse") async -> Reply {
        await AccountOwner(service, name, password: password).signUp()
    }

    private func logIn(_ password: String, name: String = "alice", peer: String = "192.0.2.1") async -> Reply {
        await AccountOwner(service, name, password: password).logIn(peer: peer)
    }

    @Test("An account is created once; signing up again needs its password, or is refused because the name is taken")
    func signingUp() async throws {
        let made = await signUp()
        #expect(made.status == 201 && made["account"] == "alice" && made["token_type"] == "Bearer")
        #expect((made.members["recovery_codes"] as? [String])?.count == 8)
        let own = await service.ask(.get, "/v1/accounts/self", token: made["access_token"])
        #expect(own.status == 200 && own["name"] == "alice" && own["incarnation"] == made["incarnation"])
        let again = await signUp()
        #expect(again.status == 200 && again["incarnation"] == made["incarnation"])
        #expect(again.members["recovery_codes"] == nil)
        #expect(await signUp("alice", "another one").status == 409)
        #expect(await signUp("bob", "short").status == 400)
        #expect(await signUp("", "correct horse").status == 400)
        #expect(await signUp("a\nb", "correct horse").status == 400)
        #expect(await signUp(String(repeating: "x", count: 256), "correct horse").status == 400)
        let entry = await service.ask(.get, "/v1/kv/accounts/alice/account", token: made["access_token"])
        #expect(entry.status == 200, "its own entry in the directory")
    }

    @Test("Two devices that sign up at the same time share one account")
    func racing() async throws {
        let replies = await withTaskGroup(of: Reply.self) { group in
            for _ in 0..<8 { group.addTask { await signUp() } }
            return await group.reduce(into: [Reply]()) { $0.append($1) }
        }
        #expect(replies.filter { $0.status == 201 }.count == 1)
        #expect(replies.allSatisfy { [200, 201].contains($0.status) })
        #expect(Set(replies.map { $0["incarnation"] }).count == 1)
        for reply in replies { #expect(await service.status(of: reply["access_token"]) == 200) }
    }

    @Test("A refresh token works once, and for one more minute with the same successor; a copy ends the session")
    func rotation() async throws {
        let first = try #require(await signUp()["refresh_token"])
        let second = try #require(await service.refresh(first)["refresh_token"])
        clock.advance(seconds: 59)
        // The answer was lost, so the request is repeated.
        let repeated = await service.refresh(first)
        #expect(repeated["refresh_token"] == second && repeated.status == 200)
        let third = try #require(await service.refresh(second)["refresh_token"])
        #expect(third != second)
        // After a minute, a token that is one step old is a copy.
        clock.advance(seconds: 61)
        let late = await service.refresh(second)
        #expect(late.status == 400 && late.problem?.error == "invalid_grant")
        #expect(
            await service.refresh(third).status == 400, "the session has ended for every holder of one of its tokens")
        for wrong in ["", "x", "a.b.c", String(first.dropLast()), String(repeating: "A", count: 5_000)] {
            #expect(await service.refresh(wrong).status == 400, "\(wrong)")
        }
    }

    @Test("An access token ends when it expires, at a log-out, at a log-out everywhere and at a password change")
    func endings() async throws {
        let reply = await signUp()
        let token = try #require(reply["access_token"])
        #expect(await service.status(of: token) == 200)
        clock.advance(seconds: 601)
        #expect(await service.status(of: token) == 401)
        let phone = try #require(await logIn("correct horse")["access_token"])
        let tablet = try #require(await logIn("correct horse")["access_token"])
        #expect(await service.ask(.delete, "/v1/sessions", token: phone).status == 204)
        #expect(await service.status(of: phone) == 401)
        #expect(await service.status(of: tablet) == 200)
        let laptop = try #require(await logIn("correct horse")["access_token"])
        let change = ["password": "correct horse", "new_password": "battery staple"]
        #expect(await service.ask(.put, "/v1/accounts/self/password", token: laptop, json: change).status == 204)
        #expect(await service.status(of: tablet) == 401)
        #expect(await service.status(of: laptop) == 200, "the session that changes the password continues")
        #expect(await logIn("correct horse").status == 400)
        #expect(await logIn("battery staple").status == 200)
        for flag in ["", "=", "=null", "=yes", "=1", "=TRUE"] {
            let path = "/v1/sessions?everywhere\(flag)"
            #expect(await service.ask(.delete, path, token: laptop).status == 400, "\(path)")
        }
        #expect(await service.status(of: laptop) == 200, "a misspelt flag ends nothing")
        #expect(await service.ask(.delete, "/v1/sessions?everywhere=true", token: laptop).status == 204)
        #expect(await service.status(of: laptop) == 401)
        #expect(await service.refresh(reply["refresh_token"]).status == 400)
    }

    @Test("Another server over the same store accepts the tokens, and notices a log-out")
    func replicas() async throws {
        let other = try await EntitlementService.open(store, clock: clock)
        let token = try #require(await signUp()["access_token"])
        #expect(await other.ask(.get, "/v1/accounts/self", token: token).status == 200)
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { await other.run() }
            #expect(await service.ask(.delete, "/v1/sessions", token: token).status == 204)
            // The other server follows the store, which takes a moment.
            var seen = 200
            while seen == 200 {
                seen = await other.ask(.get, "/v1/accounts/self", token: token).status
                try Task.checkCancellation()
                await Task.yield()
            }
            #expect(seen == 401)
            group.cancelAll()
        }
    }

    @Test("A recovery code sets a new password once; the operator can add a code")
    func recovery() async throws {
        let made = await signUp()
        let codes = try #require(made.members["recovery_codes"] as? [String])
        func recover(_ code: String) async -> Reply {
            await service.recover("alice", code, newPassword: "new password")
        }
        #expect(await recover("AAAA-BBBB-CCCC-DDDD").status == 400)
        let back = await recover(codes[3].lowercased().replacing("-", with: " "))
        #expect(back.status == 200)
        #expect(await service.status(of: back["access_token"]) == 200)
        #expect(await service.status(of: made["access_token"]) == 401)
        #expect(await recover(codes[3]).status == 400)
        #expect(await logIn("new password").status == 200)
        let token = back["access_token"]
        let renewed = await service.ask(
            .post, "/v1/accounts/self/recovery-codes", token: token, json: ["password": "new password"])
        #expect((renewed.members["recovery_codes"] as? [String])?.count == 8)
        #expect(await recover(codes[4]).status == 400, "the old ones are void")
        let path = "/v1/accounts/alice/recovery-code"
        #expect(await service.ask(.post, path, token: token).status == 403)
        let code = try #require(await service.ask(.post, path, token: .operatorToken)["recovery_code"])
        #expect(await recover(code).status == 200)
        #expect(await service.ask(.post, "/v1/accounts/nobody/recovery-code", token: .operatorToken).status == 404)
    }

    @Test("Wrong guesses make an address wait, and no other address")
    func guessing() async throws {
        // Later than the time at which the server began, so that the clock can be set back.
        clock.advance(seconds: 20_000)
        _ = await signUp()
        for _ in 0..<10 { #expect(await logIn("wrong password").status == 400) }
        let blocked = await logIn("correct horse")
        #expect(blocked.status == 429)
        let delay = try #require(blocked.fields[.retryAfter].flatMap(Int64.init))
        #expect((1...300).contains(delay))
        #expect(await logIn("correct horse", peer: "198.51.100.7").status == 200)
        clock.advance(seconds: delay)
        #expect(await logIn("correct horse").status == 200)
        for index in 0..<50 { #expect(await logIn("wrong", name: "name\(index)").status == 400) }
        #expect(await logIn("correct horse").status == 429, "one address over all names")
        clock.advance(seconds: -10_000)
        #expect(await logIn("correct horse").status == 200, "a clock that was set back blocks no client")
    }

    @Test("A device without a keyboard is approved once on another device, and must not poll too often")
    func deviceGrant() async throws {
        let token = await signUp()["access_token"]
        let begun = await service.ask(.post, "/v1/devices")
        let device = try #require(begun["device_code"])
        let code = try #require(begun["user_code"])
        func redeem(_ device: String) async -> Reply {
            await service.ask(
                .post, "/v1/sessions", [.contentType: "application/x-www-form-urlencoded"],
                body: Array(
                    "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Adevice_code&device_code=\(device)".utf8))
        }
        #expect(await redeem(device).problem?.error == "authorization_pending")
        #expect(await redeem(device).problem?.error == "slow_down")
        let path = "/v1/devices/approvals"
        #expect(await service.ask(.post, path, json: ["user_code": code, "approve": true]).status == 401)
        let unknown: [String: any Sendable] = [
            "user_code": "BBBB-BBBB", "approve": true, "password": "correct horse",
        ]
        #expect(await service.ask(.post, path, token: token, json: unknown).status == 404)
        let typed: [String: any Sendable] = [
            "user_code": code.lowercased(), "approve": true, "password": "correct horse",
        ]
        #expect(await service.ask(.post, path, token: token, json: typed).status == 204)
        #expect(await redeem(device + "0").problem?.error == "invalid_grant")
        let session = await redeem(device)
        #expect(session.status == 200 && session["account"] == "alice")
        #expect(await service.status(of: session["access_token"]) == 200)
        #expect(await redeem(device).problem?.error == "invalid_grant", "it works once")
        let late = await service.ask(.post, "/v1/devices")
        clock.advance(seconds: 601)
        #expect(await redeem(late["device_code"] ?? "").problem?.error == "expired_token")
        #expect(await service.ask(.post, path, token: token, json: ["approve": true]).status == 401)
    }

    @Test("An account of another issuer needs no log-in here, and cannot take the name of a local account")
    func externalIssuer() async throws {
        let service = try await EntitlementService.open(store, clock: clock, issuer: "https://login.example.com")
        func own(_ token: String) async -> Reply { await service.ask(.get, "/v1/accounts/self", token: token) }
        let first = await own(.external("carol", 1_800_000_600))
        #expect(first.status == 200 && first["name"] == "carol")
        #expect(await own(.external("carol", 1_800_000_500))["incarnation"] == first["incarnation"])
        #expect(await own(.external("carol", 1_799_999_999)).status == 401)
        _ = await service.ask(.post, "/v1/accounts", json: ["name": "dave", "password": "correct horse"])
        #expect(await own(.external("dave", 1_800_000_600)).status == 403)
        #expect(
            await service.ask(.post, "/v1/accounts", json: ["name": "carol", "password": "correct horse"]).status == 409
        )
        let erased = await service.ask(.post, "/v1/accounts/carol/erasure", token: .operatorToken)
        #expect(erased.status == 204)
        let marker = await service.ask(
            .get, "/v1/kv/accounts/carol/\(first["incarnation"] ?? "")/ledger", token: .external("carol", 1_800_000_600)
        )
        #expect(marker.status == 200)
        let taken = await service.ask(.post, "/v1/accounts", json: ["name": "carol", "password": "correct horse"])
        #expect(taken.status == 409, "the name stays its issuer's")
        let again = await service.ask(.post, "/v1/accounts", token: .external("carol", 1_800_000_600))
        #expect(again.status == 201 && again["incarnation"] != first["incarnation"])
        #expect(await own(.external("carol", 1_800_000_600))["incarnation"] == again["incarnation"])
    }

    @Test("Only the operator lists accounts, page by page")
    func listing() async throws {
        for name in ["alice", "bob", "carol"] { _ = await signUp(name) }
        let token = await logIn("correct horse")["access_token"]
        #expect(await service.ask(.get, "/v1/accounts", token: token).status == 403)
        #expect(await service.ask(.get, "/v1/accounts").status == 401)
        var names: [String] = []
        var after = ""
        while true {
            let page = await service.ask(.get, "/v1/accounts?limit=2" + after, token: .operatorToken)
            names += (page.members["accounts"] as? [[String: Any]] ?? []).compactMap { $0["name"] as? String }
            guard let next = page["next"] else { break }
            after = "&after=\(next)"
        }
        #expect(names == ["alice", "bob", "carol"])
    }
}
