import Entitlements
import EntitlementSync
import Foundation
import HTTPTypes
import ServiceTestSupport
import SyncCore
import SyncService
import Testing

@Suite("Accounts behind both wires")
struct SharedAccountTests {
    private func logIn(_ stage: ParseStage, _ name: String, _ password: String) async -> Reply {
        await stage.service.ask(
            .post, "/v1/sessions", json: ["grant_type": "password", "username": name, "password": password])
    }

    private func write(
        _ stage: ParseStage, _ date: String, _ user: ParseStage.User, _ installation: String = "i1"
    ) async -> Int {
        let body = #"{"ExpirationDate":{"__type":"Date","iso":"\#(date)"}}"#
        return await stage.ask("PUT", "/users/\(user.id)", body, token: user.token, installation: installation).status
    }

    private func end(_ stage: ParseStage, _ token: String?) async -> String? {
        let reply = await stage.service.ask(.get, "/v1/entitlements", token: token)
        let list = reply.members["subscriptions"] as? [[String: Any]]
        return list?.first { $0["group"] as? String == "random" }?["expires"] as? String
    }

    @Test("A new version logs in under /v1 with the same name and password, and sees the same purchases")
    func newVersion() async throws {
        let stage = try await ParseStage()
        let user = await stage.signUp("owl", "secret password")
        #expect(await write(stage, stage.date(months: 3), user) == 200)
        let session = await logIn(stage, "Owl", "secret password")
        #expect(session.status == 200 && session["account"] == user.id)
        #expect(await end(stage, session["access_token"]) == stage.date(months: 3))
        // Two old devices that were served the same date both buy.
        for installation in ["i1", "i2"] {
            _ = await stage.ask("GET", "/users/me", token: user.token, installation: installation)
        }
        for installation in ["i1", "i2", "i2", "i1"] {
            #expect(await write(stage, stage.date(months: 6), user, installation) == 200)
        }
        #expect(await end(stage, session["access_token"]) == stage.date(months: 9))
    }

    @Test("An account of /v1 is a user, names are unique without regard to case, and follow a change")
    func names() async throws {
        let stage = try await ParseStage()
        let alice = AccountOwner.signUpJSON("Alice")
        #expect(await stage.service.ask(.post, "/v1/accounts", json: alice).status == 201)
        let entered = await stage.ask("POST", "/login", #"{"username":"alice","password":"correct horse"}"#)
        #expect(entered.status == 200 && entered["username"] == "Alice" && entered["objectId"]?.utf8.count == 10)
        #expect(await stage.ask("POST", "/users", #"{"username":"ALICE","password":"x"}"#).status == 400)
        // No other account can get the object id of the account as a name, on either wire.
        let id = try #require(entered["objectId"])
        let taken = await stage.ask("POST", "/users", #"{"username":"\#(id)","password":"x"}"#)
        #expect(taken.members["code"] as? Int == 202)
        let other = ["name": id, "password": "another password"]
        #expect(await stage.service.ask(.post, "/v1/accounts", json: other).status == 409)
        let repeated = await stage.ask("POST", "/login", #"{"username":"alice","password":"correct horse"}"#)
        #expect(repeated["objectId"] == id)
        let user = await stage.signUp("owl", "secret password")
        #expect(await stage.service.ask(.post, "/v1/accounts", json: AccountOwner.signUpJSON("OWL")).status == 409)
        #expect(
            await stage.ask("PUT", "/users/\(user.id)", #"{"username":"bat"}"#, token: user.token).status == 200)
        #expect(await logIn(stage, "owl", "secret password").status == 400)
        #expect(await logIn(stage, "bat", "secret password")["account"] == user.id)
        #expect(await stage.signUp("owl").id != user.id)
    }

    @Test("A rename to another spelling of the name keeps it, and no other user gets any spelling")
    func spellings() async throws {
        let stage = try await ParseStage()
        let user = await stage.signUp("straße", "secret password")
        func rename(_ name: String) async -> Int {
            await stage.ask("PUT", "/users/\(user.id)", #"{"username":"\#(name)"}"#, token: user.token).status
        }
        for name in ["STRASSE", "Straße", "ｓtrasse"] {
            #expect(await rename(name) == 200)
            let entered = await stage.ask("POST", "/login", #"{"username":"strasse","password":"secret password"}"#)
            #expect(entered["objectId"] == user.id && entered["username"] == name)
            let taken = await stage.ask("POST", "/users", #"{"username":"sTRASSE","password":"x"}"#)
            #expect(taken.members["code"] as? Int == 202)
            #expect(await stage.service.ask(.post, "/v1/accounts", json: AccountOwner.signUpJSON(name)).status == 409)
        }
        #expect(await rename("bat") == 200)
        #expect(await logIn(stage, "straße", "secret password").status == 400)
        #expect(await stage.signUp("Strasse").id != user.id)
    }

    @Test("A name whose account of /v1 was erased is free")
    func erasedName() async throws {
        let stage = try await ParseStage()
        let made = await stage.service.ask(.post, "/v1/accounts", json: AccountOwner.signUpJSON("owl"))
        let erased = await stage.service.ask(
            .post, "/v1/accounts/self/erasure", token: made["access_token"], json: ["password": "correct horse"])
        #expect(erased.status == 204)
        let user = await stage.signUp("owl", "secret password")
        #expect(await logIn(stage, "OWL", "secret password")["account"] == user.id)
    }

    @Test("A password change ends the sessions of both wires")
    func passwords() async throws {
        let stage = try await ParseStage()
        let user = await stage.signUp("owl", "secret password")
        let session = await logIn(stage, "owl", "secret password")
        let changed = await stage.ask("PUT", "/users/\(user.id)", #"{"password":"another one"}"#, token: user.token)
        #expect(changed.status == 200)
        #expect(await stage.ask("GET", "/users/me", token: user.token).status == 400)
        #expect(await stage.ask("GET", "/users/me", token: changed["sessionToken"]).status == 200)
        #expect(await stage.service.ask(.get, "/v1/entitlements", token: session["access_token"]).status == 401)
        let again = await logIn(stage, "owl", "another one")
        _ = await stage.service.ask(
            .put, "/v1/accounts/self/password", token: again["access_token"],
            json: ["password": "another one", "new_password": "the third one"])
        #expect(await stage.ask("GET", "/users/me", token: changed["sessionToken"]).status == 400)
    }

    @Test("Wrong passwords are slowed down together with those under /v1")
    func guesses() async throws {
        let stage = try await ParseStage()
        _ = await stage.signUp("owl", "secret password")
        for name in ["owl", "OWL", "Owl", "oWl", "owL"] {
            #expect(await stage.ask("POST", "/login", #"{"username":"\#(name)","password":"x"}"#).status == 404)
            #expect(await logIn(stage, name, "wrong").status == 400)
        }
        let late = await stage.ask("POST", "/login", #"{"username":"owl","password":"secret password"}"#)
        #expect(late.status == 429 && late.members["code"] as? Int == 155 && late.fields[.retryAfter] != nil)
        #expect(await logIn(stage, "owl", "secret password").status == 429)
    }

    @Test("An erasure leaves nothing of the façade behind, and frees the name")
    func erasure() async throws {
        let stage = try await ParseStage()
        let before = try await keys(of: stage)
        let user = await stage.signUp("owl", "secret password")
        _ = await write(stage, stage.date(months: 3), user)
        _ = await stage.ask("POST", "/classes/Purchase", #"{"p":1}"#, token: user.token)
        let session = await logIn(stage, "owl", "secret password")
        let erased = await stage.service.ask(
            .post, "/v1/accounts/self/erasure", token: session["access_token"], json: ["password": "secret password"])
        #expect(erased.status == 204)
        #expect(await stage.ask("GET", "/users/me", token: user.token).members["code"] as? Int == 209)
        let left = try await keys(of: stage).subtracting(before)
        let kinds = ["server/names/", "server/parse/", "server/holdings/"]
        #expect(left.filter { key in kinds.contains { key.hasPrefix($0) } } == [])
        #expect(await stage.signUp("owl").id != user.id)
    }

    private func keys(of stage: ParseStage) async throws -> Set<String> {
        Set(try await stage.store.list(prefix: "server/", after: nil, limit: 1_000).outcome.items.map(\.key.text))
    }

    @Test("Under the policy verified, written dates grant nothing")
    func verified() async throws {
        let stage = try await ParseStage(policy: .verified)
        let user = await stage.signUp("owl", "secret password")
        #expect(await write(stage, stage.date(months: 3), user) == 200)
        #expect(await end(stage, await logIn(stage, "owl", "secret password")["access_token"]) == nil)
    }

    @Test("An account gets a limited number of derived purchases in a day")
    func dailyLimit() async throws {
        let stage = try await ParseStage()
        let user = await stage.signUp()
        var statuses: [Int] = []
        for count in 1...21 { statuses.append(await write(stage, stage.date(months: Int64(3 * count)), user)) }
        #expect(statuses.prefix(20).allSatisfy { $0 == 200 } && statuses.last == 429)
    }
}

enum AccountOwner {
    static func signUpJSON(_ name: String) -> [String: any Sendable] { ["name": name, "password": "correct horse"] }
}
