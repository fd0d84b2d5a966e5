import Entitlements
import Foundation
import HTTPTypes
import ServiceTestSupport
import SyncCore
import SyncService
import Testing

@Suite("Refusals, repetitions and interruptions at the Parse façade")
struct RefusalTests {
    private func code(_ reply: ParseReply) -> Int? { reply.members["code"] as? Int }

    private func date(_ text: String) -> String { #"{"__type":"Date","iso":"\#(text)"}"# }

    @Test(
        "A refused save changes nothing: no password, no name, no date, no other field",
        arguments: [
            (#""a-b":1"#, 105), (#""n":{"__op":"Increment","amount":"x"}"#, 111), (#""email":"nobody""#, 125),
            (#""ExpirationDate":"2030-01-01""#, 111), (#""text":"\#(String(repeating: "x", count: 40_000))""#, 116),
        ])
    func refusedSave(_ member: String, _ expected: Int) async throws {
        let stage = try await ParseStage()
        let user = await stage.signUp("owl", "secret password")
        let end = stage.date(months: 3)
        // Almost all of the 64 KiB that the fields may have.
        let big = #"{"big":"\#(String(repeating: "x", count: 40_000))"}"#
        #expect(await stage.ask("PUT", "/users/\(user.id)", big, token: user.token).status == 200)
        let body =
            #"{"username":"bat","password":"another","theme":"dark","Expires":1,"#
            + (member.contains("ExpirationDate") ? "" : #""ExpirationDate":\#(date(end)),"#) + member + "}"
        let refused = await stage.ask("PUT", "/users/\(user.id)", body, token: user.token)
        #expect(code(refused) == expected && refused.status == 400, "\(stage.text(refused))")
        let me = await stage.ask("GET", "/users/me", token: user.token).members
        #expect(me["username"] as? String == "owl" && me["theme"] == nil && me["ExpirationDate"] == nil)
        #expect(await stage.ask("POST", "/login", #"{"username":"owl","password":"secret password"}"#).status == 200)
        // A refused sign-up creates no account.
        guard expected != 116 else { return }
        let signUp = await stage.ask("POST", "/users", #"{"username":"cat","password":"pw",\#(member)}"#)
        #expect(code(signUp) == expected)
        stage.clock.advance(seconds: 120)
        #expect(await stage.ask("POST", "/users", #"{"username":"cat","password":"other"}"#).status == 201)
    }

    @Test(
        "Names and passwords are refused with the codes of a sign-up",
        arguments: [
            (#"{"password":""}"#, 201), (#"{"password":"\#(String(repeating: "x", count: 1_025))"}"#, 142),
            (#"{"username":""}"#, 200), (#"{"username":" owl"}"#, 200), (#"{"username":"cat"}"#, 202),
        ])
    func codes(_ body: String, _ expected: Int) async throws {
        let stage = try await ParseStage()
        let user = await stage.signUp("owl", "secret password")
        _ = await stage.signUp("cat")
        let refused = await stage.ask("PUT", "/users/\(user.id)", body, token: user.token)
        #expect(code(refused) == expected, "\(stage.text(refused))")
    }

    @Test("Dates that no purchase explains are limited for each account and day, with everything else of the save")
    func assertions() async throws {
        let stage = try await ParseStage()
        let user = await stage.signUp()
        var statuses: [Int] = []
        for start in [2100, 2120] {
            let dates = (0..<16).map { date("\(start + $0)-01-01T00:00:00.000Z") }.joined(separator: ",")
            let body = #"{"ExpirationDate":{"__op":"Add","objects":[\#(dates)]},"year":\#(start)}"#
            statuses.append(await stage.ask("PUT", "/users/\(user.id)", body, token: user.token).status)
        }
        #expect(statuses == [200, 429])
        let me = await stage.ask("GET", "/users/me", token: user.token).members
        let text = try #require((me["ExpirationDate"] as? [String: String])?["iso"])
        // Twenty sums of two of the longest product.
        #expect(try Timestamp(text) <= Timestamp(stage.date(months: 240)) && me["year"] as? Int == 2100)
        let later = #"{"ExpirationDate":\#(date("2090-01-01T00:00:00.000Z"))}"#
        let refused = await stage.ask("PUT", "/users/\(user.id)", later, token: user.token)
        #expect(refused.status == 429 && code(refused) == 155)
        let dates = Array(repeating: date(stage.date(months: 3)), count: 17).joined(separator: ",")
        let long = #"{"ExpirationDate":{"__op":"Add","objects":[\#(dates)]}}"#
        #expect(code(await stage.ask("PUT", "/users/\(user.id)", long, token: user.token)) == 111)
    }

    @Test("A date that no product explains counts once when it is written twice at the same time")
    func concurrentAssertions() async throws {
        for _ in 0..<8 {
            let stage = try await ParseStage()
            let user = await stage.signUp()
            let body = #"{"ExpirationDate":\#(date("2090-01-01T00:00:00.000Z"))}"#
            async let first = stage.ask("PUT", "/users/\(user.id)", body, token: user.token)
            async let second = stage.ask("PUT", "/users/\(user.id)", body, token: user.token)
            #expect(await [first.status, second.status] == [200, 200])
            let me = await stage.ask("GET", "/users/me", token: user.token).members
            #expect((me["ExpirationDate"] as? [String: String])?["iso"] == stage.date(months: 6))
        }
    }

    @Test("A mail address belongs to one user, who can log in with it, until it is changed")
    func mail() async throws {
        let stage = try await ParseStage()
        let user = await stage.signUp("owl", "secret password")
        let save = #"{"email":"owl@example.com"}"#
        for _ in 0..<2 { #expect(await stage.ask("PUT", "/users/\(user.id)", save, token: user.token).status == 200) }
        let logIn = #"{"email":"OWL@example.com","password":"secret password"}"#
        #expect(await stage.ask("POST", "/login", logIn)["objectId"] == user.id)
        let taken = #"{"username":"bat","password":"pw","email":"Owl@Example.com"}"#
        #expect(code(await stage.ask("POST", "/users", taken)) == 203)
        let other = await stage.signUp("bat", "other password")
        #expect(code(await stage.ask("PUT", "/users/\(other.id)", save, token: other.token)) == 203)
        #expect(await stage.ask("GET", "/users/me", token: other.token).members["email"] == nil)
        let moved = #"{"email":"new@example.com"}"#
        #expect(await stage.ask("PUT", "/users/\(user.id)", moved, token: user.token).status == 200)
        #expect(await stage.ask("POST", "/login", logIn).status == 404)
        #expect(await stage.ask("PUT", "/users/\(other.id)", save, token: other.token).status == 200)
        // An address that is the name too stays the name when it is deleted.
        let named = #"{"username":"cat@example.com","password":"cat password","email":"cat@example.com"}"#
        let cat = await stage.ask("POST", "/users", named)
        let delete = #"{"email":{"__op":"Delete"}}"#
        #expect(
            await stage.ask("PUT", "/users/\(cat["objectId"] ?? "")", delete, token: cat["sessionToken"]).status == 200)
        let again = #"{"username":"cat@example.com","password":"cat password"}"#
        #expect(await stage.ask("POST", "/login", again).status == 200)
    }

    @Test(
        "The name of an account of /v1 stays its own: after a change of the username, and from a time without a façade")
    func ownNames() async throws {
        let stage = try await ParseStage()
        let catalog = try tutorialCatalog()
        let plain = try await EntitlementService.open(
            stage.store, clock: stage.clock, configure: { $0.catalog = catalog })
        for name in ["Alice", "Carol"] {
            #expect(await plain.ask(.post, "/v1/accounts", json: AccountOwner.signUpJSON(name)).status == 201)
        }
        let entered = await stage.ask("POST", "/login", #"{"username":"Alice","password":"correct horse"}"#)
        let id = try #require(entered["objectId"])
        #expect(
            await stage.ask("PUT", "/users/\(id)", #"{"username":"bob"}"#, token: entered["sessionToken"]).status == 200
        )
        #expect(code(await stage.ask("POST", "/users", #"{"username":"alice","password":"x"}"#)) == 202)
        let session = await stage.service.ask(
            .post, "/v1/sessions", json: ["grant_type": "password", "username": "Carol", "password": "correct horse"])
        #expect(session.status == 200)
        #expect(code(await stage.ask("POST", "/users", #"{"username":"carol","password":"x"}"#)) == 202)
    }

    @Test("A sign-up that is interrupted after any write can be repeated, and the user has the name of the sign-up")
    func interruptedSignUp() async throws {
        var (writes, wasWhole) = (0, false)
        while !wasWhole, writes < 60 {
            let mortal = HookedBackend()
            let stage = try await ParseStage(over: mortal)
            mortal.fail(after: writes)
            let body =
                #"{"username":"owl","password":"secret password","theme":"dark","email":"owl@example.com"}"#
            let first = await stage.ask("POST", "/users", body)
            wasWhole = first.status == 201
            mortal.before(nil)
            let second = await stage.ask("POST", "/users", body)
            #expect(second.status == 201, "after \(writes) writes: \(stage.text(second))")
            let entered = await stage.ask(
                "POST", "/login", #"{"email":"owl@example.com","password":"secret password"}"#)
            #expect(
                entered["username"] == "owl" && entered["theme"] == "dark" && entered["objectId"] == second["objectId"])
            writes += 1
        }
        #expect(wasWhole && writes > 8, "\(writes)")
    }

    @Test("An anonymous sign-up that is interrupted after any write can be repeated, and keeps its fields and dates")
    func interruptedAnonymousSignUp() async throws {
        var (writes, wasWhole) = (0, false)
        while !wasWhole, writes < 60 {
            let mortal = HookedBackend()
            let stage = try await ParseStage(over: mortal)
            mortal.fail(after: writes)
            let body =
                #"{"authData":{"anonymous":{"id":"01234567-89ab-cdef-0123-456789abcdef"}},"theme":"dark","#
                + #""ExpirationDate":\#(date(stage.date(months: 3)))}"#
            wasWhole = await stage.ask("POST", "/users", body).status == 201
            mortal.before(nil)
            let again = await stage.ask("POST", "/users", body)
            #expect(again.status == 201, "after \(writes) writes: \(stage.text(again))")
            let me = await stage.ask("GET", "/users/me", token: again["sessionToken"]).members
            #expect(me["theme"] as? String == "dark", "after \(writes) writes")
            #expect((me["ExpirationDate"] as? [String: String])?["iso"] == stage.date(months: 3))
            writes += 1
        }
        #expect(wasWhole && writes > 8, "\(writes)")
    }

    @Test("A mail address of another user cannot be taken by repeating a sign-up, and an empty one is none")
    func repeatedMail() async throws {
        let stage = try await ParseStage()
        let owner = #"{"username":"owl","password":"pw","email":"owl@example.com"}"#
        #expect(await stage.ask("POST", "/users", owner).status == 201)
        #expect(await stage.ask("POST", "/users", #"{"username":"bat","password":"pw","email":""}"#).status == 201)
        let repeated = await stage.ask(
            "POST", "/users", #"{"username":"bat","password":"pw","email":"owl@example.com"}"#)
        #expect(code(repeated) == 202)
        // A name that is taken leaves the mail address free.
        let bat = await stage.ask("POST", "/login", #"{"username":"bat","password":"pw"}"#)
        let both = #"{"username":"owl","email":"bat@example.com"}"#
        #expect(
            code(await stage.ask("PUT", "/users/\(bat["objectId"] ?? "")", both, token: bat["sessionToken"])) == 202)
        let cat = #"{"username":"cat","password":"pw","email":"bat@example.com"}"#
        #expect(await stage.ask("POST", "/users", cat).status == 201)
    }

    @Test("A date counts as served only if it was in the answer")
    func countedFind() async throws {
        let stage = try await ParseStage()
        let user = await stage.signUp()
        for installation in ["i1", "i2"] {
            _ = await stage.ask("GET", "/users/me", token: user.token, installation: installation)
        }
        #expect(await stage.write(stage.date(months: 3), user, installation: "i1").status == 200)
        let count = await stage.ask("GET", "/users?count=1&limit=0", token: user.token, installation: "i2")
        #expect(stage.text(count) == #"{"count":1,"results":[]}"#)
        #expect(await stage.write(stage.date(months: 3), user, installation: "i2").status == 200)
        #expect(await stage.end(of: user) == stage.date(months: 6))
    }

    @Test("Several requests with a new anonymous id at the same time create one user")
    func anonymous() async throws {
        for round in 0..<8 {
            let stage = try await ParseStage()
            let body = #"{"authData":{"anonymous":{"id":"01234567-89ab-cdef-0123-45678900000\#(round)"}}}"#
            let ids = await withTaskGroup(of: String.self) { group in
                for _ in 0..<4 { group.addTask { await stage.ask("POST", "/users", body)["objectId"] ?? "" } }
                return await group.reduce(into: Set<String>()) { $0.insert($1) }
            }
            #expect(ids.count == 1 && ids.first?.utf8.count == 10, "\(ids)")
        }
    }

    @Test("Relative changes of an object count once for each request, also after others and after plain changes")
    func increments() async throws {
        let stage = try await ParseStage()
        let user = await stage.signUp()
        let made = await stage.ask("POST", "/classes/Purchase", #"{"n":0}"#, token: user.token, request: "make")
        let path = "/classes/Purchase/\(made["objectId"] ?? "")"
        let change = #"{"n":{"__op":"Increment","amount":1}}"#
        for request in ["a", "b", "a", "b", "c"] {
            _ = await stage.ask("PUT", path, change, token: user.token, request: request)
        }
        #expect(await stage.ask("GET", path, token: user.token).members["n"] as? Int == 3)
        let repeated = await stage.ask("POST", "/classes/Purchase", #"{"n":0}"#, token: user.token, request: "make")
        #expect(repeated["objectId"] == made["objectId"])
        // Without a request id, the time begins with the change itself.
        _ = await stage.ask("PUT", path, change, token: user.token)
        stage.clock.advance(seconds: 50)
        _ = await stage.ask("PUT", path, #"{"n":9}"#, token: user.token)
        stage.clock.advance(seconds: 50)
        _ = await stage.ask("PUT", path, change, token: user.token)
        #expect(await stage.ask("GET", path, token: user.token).members["n"] as? Int == 10)
        _ = await stage.ask("PUT", path, #"{"n":{"__op":"Increment","amount":0.5}}"#, token: user.token, request: "h")
        #expect(await stage.ask("GET", path, token: user.token).members["n"] as? Double == 10.5)
    }

    @Test("A find returns the selected objects, in the selected order")
    func selection() async throws {
        let stage = try await ParseStage()
        let user = await stage.signUp()
        for number in [3, 1, 2] {
            _ = await stage.ask("POST", "/classes/Purchase", #"{"n":\#(number)}"#, token: user.token)
            stage.clock.advance(seconds: 1)
        }
        func numbers(_ query: String) async -> [Int] {
            let reply = await stage.ask("GET", "/classes/Purchase?" + query, token: user.token)
            return (reply.members["results"] as? [[String: Any]] ?? []).compactMap { $0["n"] as? Int }
        }
        #expect(await numbers("") == [3, 1, 2])
        #expect(await numbers("order=n") == [1, 2, 3])
        #expect(await numbers("order=-createdAt&limit=2") == [2, 1])
        #expect(await numbers("order=-n&skip=1") == [2, 1])
        for value in [#""a""#, "0", #"{"__type":"Date","iso":"2020-01-01T00:00:00.000Z"}"#, "null"] {
            _ = await stage.ask("POST", "/classes/Purchase", #"{"m":\#(value),"n":0}"#, token: user.token)
        }
        let mixed = await stage.ask("GET", "/classes/Purchase?order=m,n&skip=4", token: user.token)
        let kinds = (mixed.members["results"] as? [[String: Any]] ?? []).map { item in
            item["m"] is String ? "text" : item["m"] is Int ? "number" : "date"
        }
        #expect(kinds == ["number", "text", "date"])
        let count = await stage.ask("GET", "/classes/Purchase?count=1&limit=0", token: user.token)
        #expect(stage.text(count) == #"{"count":7,"results":[]}"#)
        #expect(code(await stage.ask("GET", "/classes/Purchase?limit=-1", token: user.token)) == 102)
        #expect(
            stage.text(await stage.ask("GET", "/classes/_User?skip=1", token: user.token)) == #"{"results":[]}"#)
    }

    @Test("The upgrade of a session states the session's own end")
    func upgrade() async throws {
        let stage = try await ParseStage()
        let user = await stage.signUp()
        stage.clock.advance(seconds: 86_400)
        let reply = await stage.ask("POST", "/upgradeToRevocableSession", "{}", token: user.token)
        let end = (reply.members["expiresAt"] as? [String: String])?["iso"]
        #expect(end == "2028-01-15T08:00:00.000Z")
    }
}
