import Foundation
import HTTPTypes
import ServiceTestSupport
import SyncCore
import Testing

@Suite("The own user of an SDK: its session, its providers and its deletion")
struct OwnUserTests {
    private static let uuid = "01234567-89AB-cdef-0123-456789abcdef"

    private func anonymousID(_ reply: ParseReply) -> String? {
        let data = reply.members["authData"] as? [String: [String: String]]
        return data?["anonymous"]?["id"]
    }

    @Test("A fetch of the own user has the session's token, so that the next save has one", arguments: SDK.allCases)
    func fetch(_ sdk: SDK) async throws {
        let stage = try await ParseStage()
        let made = await sdk.ask(stage, "POST", "/users", #""username":"owl","password":"pw""#)
        let (id, token) = (made["objectId"] ?? "", made["sessionToken"] ?? "")
        for path in ["/classes/_User/\(id)", "/users/\(id)", "/users/me"] {
            let fetched = await sdk.ask(stage, "GET", path, token: token)
            #expect(fetched.status == 200 && fetched["objectId"] == id && fetched["sessionToken"] == token, "\(path)")
            // The SDK of JavaScript replaces all that it knows by the answer.
            let save = await sdk.ask(
                stage, "PUT", "/classes/_User/\(id)", #""theme":"\#(path)""#, token: fetched["sessionToken"])
            #expect(save.status == 200 && save["updatedAt"] != nil, "\(stage.text(save))")
        }
        let fetch = [("GET", "/classes/_User/\(id)", ""), ("GET", "/users/\(id)", #""keys":"theme""#)]
        for part in try await sdk.batch(stage, fetch, token: token) { #expect(part["sessionToken"] == token) }
        // A find has no token.
        let found = await stage.ask("GET", "/classes/_User", token: token)
        #expect(found.results.count == 1 && found.results[0]["sessionToken"] == nil)
    }

    @Test(
        "A provider that is not set up is refused with 252, and nothing of the save is stored",
        arguments: [
            #"{"facebook":{"id":"1","access_token":"t"}}"#, #"{"anonymous":null,"apple":{"id":"1","token":"t"}}"#,
            #"{"anonymous":{"id":"01234567-89ab-cdef-0123-456789abcdef"}}"#, #"{"facebook":{}}"#, #"{"facebook":1}"#,
            "null", #""facebook""#, "[]", #"{"__op":"Delete"}"#,
        ])
    func providers(_ data: String) async throws {
        let stage = try await ParseStage()
        let user = await stage.signUp()
        let before = try await stage.cursor()
        let save = #""authData":\#(data),"theme":"dark","username":"bat","password":"new""#
        for path in ["/users/\(user.id)", "/classes/_User/\(user.id)"] {
            let refused = await SDK.javaScript.ask(stage, "PUT", path, save, token: user.token)
            #expect(refused.status == 400 && refused.code == 252, "\(stage.text(refused))")
            #expect(refused["error"] == "This authentication method is unsupported.")
        }
        let logIn = #"{"username":"owl","password":"pw","authData":\#(data)}"#
        #expect(await stage.ask("POST", "/login", logIn).code == 252)
        let signUp = #"{"username":"cat","password":"pw","authData":\#(data)}"#
        #expect(await stage.ask("POST", "/users", signUp).code == 252)
        #expect(try await stage.cursor() == before)
        let me = await stage.ask("GET", "/users/me", token: user.token)
        #expect(me["username"] == "owl" && me["theme"] == nil && me.members["authData"] == nil)
    }

    @Test(
        "A save that unlinks a provider, and an empty authData, are obeyed", arguments: [#"{"facebook":null}"#, "{}"])
    func unlinked(_ data: String) async throws {
        let stage = try await ParseStage()
        let made = await stage.ask(
            "POST", "/users", #"{"username":"owl","password":"pw","authData":\#(data)}"#)
        #expect(made.status == 201)
        let save = #"{"authData":\#(data),"theme":"dark"}"#
        let path = "/users/\(made["objectId"] ?? "")"
        #expect(await stage.ask("PUT", path, save, token: made["sessionToken"]).status == 200)
        #expect(await stage.ask("GET", path, token: made["sessionToken"])["theme"] == "dark")
    }

    @Test("An anonymous user sees its own id, and can send it back, until it gets a name", arguments: SDK.allCases)
    func anonymous(_ sdk: SDK) async throws {
        let stage = try await ParseStage()
        let data = #""authData":{"anonymous":{"id":"\#(Self.uuid)"}}"#
        let made = await sdk.ask(stage, "POST", "/users", data)
        let (id, token) = (made["objectId"] ?? "", made["sessionToken"] ?? "")
        #expect(made.status == 201)
        let entered = await sdk.ask(stage, "POST", "/users", data, number: 1)
        #expect(entered.status == 200 && anonymousID(entered) == Self.uuid)
        for (path, token) in [("/users/me", token), ("/classes/_User/\(id)", entered["sessionToken"])] {
            #expect(anonymousID(await sdk.ask(stage, "GET", path, token: token)) == Self.uuid)
        }
        // The whole object, as Swift and Python save it.
        let echo = await sdk.ask(stage, "PUT", "/users/\(id)", data + #","theme":"dark""#, token: token)
        #expect(echo.status == 200)
        let other = #""authData":{"anonymous":{"id":"11111111-89ab-cdef-0123-456789abcdef"}},"theme":"light""#
        #expect(await sdk.ask(stage, "PUT", "/users/\(id)", other, token: token).code == 252)
        let me = await sdk.ask(stage, "GET", "/users/me", token: token)
        #expect(me["theme"] == "dark" && anonymousID(me) == Self.uuid)
        let name = #""username":"owl","password":"pw","authData":{"anonymous":null}"#
        let named = await sdk.ask(stage, "PUT", "/users/\(id)", name, token: token)
        let last = await sdk.ask(stage, "GET", "/users/me", token: named["sessionToken"])
        #expect(last["username"] == "owl" && last.members["authData"] == nil)
    }

    @Test("The store contains no anonymous id, which is a password")
    func sealed() async throws {
        let stage = try await ParseStage()
        let data = #"{"authData":{"anonymous":{"id":"\#(Self.uuid)"}},"theme":"dark"}"#
        #expect(await stage.ask("POST", "/users", data).status == 201)
        var count = 0
        for item in try await stage.store.list(prefix: "", after: nil, limit: 1_000).outcome.items {
            guard case .found(let entry) = try await stage.store.read(item.key).outcome else { continue }
            let text = String(decoding: entry.value, as: UTF8.self).lowercased()
            #expect(!text.contains(Self.uuid.lowercased()) && !text.contains("456789abcdef"), "\(item.key)")
            count += 1
        }
        #expect(count > 4)
    }

    @Test("A deletion of the own user erases the account on both wires, and frees its name", arguments: SDK.allCases)
    func deletion(_ sdk: SDK) async throws {
        let stage = try await ParseStage()
        let keys = try await serverKeys(stage)
        let user = await stage.signUp("owl", "secret password")
        let session = await stage.service.ask(
            .post, "/v1/sessions",
            json: ["grant_type": "password", "username": "owl", "password": "secret password"])
        #expect(session.status == 200)
        #expect(await stage.write(stage.date(months: 3), user).status == 200)
        _ = await stage.ask("POST", "/classes/Purchase", #"{"p":1}"#, token: user.token)
        let deleted = await sdk.ask(stage, "DELETE", "/classes/_User/\(user.id)", token: user.token)
        #expect(deleted.status == 200 && stage.text(deleted) == "{}")
        #expect(await stage.ask("GET", "/users/me", token: user.token).code == 209)
        let state = await stage.service.ask(.get, "/v1/entitlements", token: session["access_token"])
        #expect(state.status == 410, "\(String(decoding: state.body, as: UTF8.self))")
        #expect(await stage.ask("POST", "/login", #"{"username":"owl","password":"secret password"}"#).code == 101)
        let left = try await serverKeys(stage).subtracting(keys)
        let kinds = ["server/names/", "server/parse/", "server/holdings/"]
        #expect(left.filter { key in kinds.contains { key.hasPrefix($0) } } == [])
        // JavaScript 2.3 to 3.1 logs out after it has deleted an anonymous user.
        #expect(stage.text(await sdk.ask(stage, "POST", "/logout", token: user.token)) == "{}")
        #expect(await sdk.ask(stage, "DELETE", "/users/\(user.id)", token: user.token).code == 209)
        let next = await stage.signUp("owl")
        #expect(!next.id.isEmpty && next.id != user.id)
    }

    @Test(
        "An anonymous user that JavaScript 2.3 to 3.1 deletes in logIn or logOut is erased, and its id gives a new one",
        arguments: SDK.allCases)
    func anonymousDeletion(_ sdk: SDK) async throws {
        let stage = try await ParseStage()
        let keys = try await serverKeys(stage)
        let data = #""authData":{"anonymous":{"id":"\#(Self.uuid)"}}"#
        let made = await sdk.ask(stage, "POST", "/users", data)
        let (id, token) = (made["objectId"] ?? "", made["sessionToken"])
        _ = await sdk.ask(stage, "POST", "/classes/Purchase", #""p":1"#, token: token)
        let deleted = await sdk.ask(stage, "DELETE", "/classes/_User/\(id)", token: token)
        #expect(deleted.status == 200 && stage.text(deleted) == "{}")
        #expect(await sdk.ask(stage, "GET", "/users/me", token: token).code == 209)
        let left = try await serverKeys(stage).subtracting(keys)
        let kinds = ["server/names/", "server/parse/", "server/holdings/"]
        #expect(left.filter { key in kinds.contains { key.hasPrefix($0) } } == [])
        #expect(stage.text(await sdk.ask(stage, "POST", "/logout", token: token)) == "{}")
        let next = await sdk.ask(stage, "POST", "/users", data, number: 1)
        #expect(next.status == 201 && next["objectId"] != id && next["sessionToken"] != token)
        #expect(await sdk.count(stage, next["sessionToken"]) == 0)
    }

    private func serverKeys(_ stage: ParseStage) async throws -> Set<String> {
        Set(try await stage.store.list(prefix: "server/", after: nil, limit: 1_000).outcome.items.map(\.key.text))
    }

    @Test("destroyAll deletes the own user in a batch, and no later request of the batch has a session")
    func destroyAll() async throws {
        let stage = try await ParseStage()
        let user = await stage.signUp()
        let requests = [("DELETE", "/classes/_User/\(user.id)", ""), ("POST", "/classes/Purchase", #""p":1"#)]
        let replies = try await SDK.javaScript.batch(stage, requests, token: user.token)
        #expect(replies.map(\.code) == [nil, 209])
        #expect(await stage.signUp("owl").id != user.id)
    }

    @Test("No user can delete another one, and no request without a session can delete a user")
    func othersDeletion() async throws {
        let stage = try await ParseStage()
        let (owl, bat) = (await stage.signUp("owl"), await stage.signUp("bat"))
        for token in [owl.token, nil] {
            for path in ["/users/\(bat.id)", "/classes/_User/\(bat.id)", "/users/missing"] {
                let refused = await stage.ask("DELETE", path, token: token)
                #expect(refused.status == 400 && refused.code == 206, "\(path)")
                #expect(refused["error"]?.hasPrefix("Insufficient auth to delete user") == true)
            }
        }
        #expect(await stage.ask("DELETE", "/users/\(bat.id)", token: "r:0").code == 209)
        #expect(await stage.ask("GET", "/users/me", token: bat.token)["username"] == "bat")
        #expect(await stage.ask("DELETE", "/users", token: bat.token).code == 119)
    }

    @Test("A user that is deleted during its other requests is erased, and none of them brings it back")
    func concurrentDeletion() async throws {
        for _ in 0..<4 {
            let stage = try await ParseStage()
            let user = await stage.signUp()
            await withTaskGroup(of: Void.self) { group in
                for number in 0..<6 {
                    group.addTask {
                        _ = await stage.ask("POST", "/classes/Purchase", #"{"p":\#(number)}"#, token: user.token)
                    }
                }
                for _ in 0..<2 {
                    group.addTask { _ = await stage.ask("DELETE", "/users/\(user.id)", token: user.token) }
                }
            }
            let left = try await serverKeys(stage).filter { $0.hasPrefix("server/holdings/") }
            #expect(left == [])
            #expect(await stage.ask("GET", "/users/me", token: user.token).code == 209)
        }
    }
}
