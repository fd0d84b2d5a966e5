import Foundation
import HTTPTypes
import ServiceTestSupport
import SyncCore
import SyncService
import Synchronization
import Testing

@Suite("Sessions, installations, roles and functions at the Parse façade")
struct SmallRequestTests {
    @Test("A function is unknown (141), with and without a session", arguments: SDK.allCases)
    func functions(_ sdk: SDK) async throws {
        let stage = try await ParseStage()
        let user = await stage.signUp()
        for token in [user.token, nil] {
            let reply = await sdk.ask(stage, "POST", "/functions/hello", #""n":1"#, token: token)
            #expect(reply.status == 400 && stage.text(reply) == #"{"code":141,"error":"Invalid function: \"hello\""}"#)
        }
    }

    @Test("health needs no application id", arguments: ["GET", "POST"])
    func health(_ method: String) async throws {
        let stage = try await ParseStage()
        for application in ["other", "owls", nil] {
            let reply = await stage.ask(method, "/health", application: application)
            #expect(reply.status == 200 && stage.text(reply) == #"{"status":"ok"}"#)
        }
        #expect(await stage.ask("GET", "/config", application: nil).status == 403)
    }

    @Test("sessions/me is the session of the request", arguments: SDK.allCases)
    func currentSession(_ sdk: SDK) async throws {
        let stage = try await ParseStage()
        let made = await sdk.ask(stage, "POST", "/users", #""username":"owl","password":"pw""#)
        let (id, token) = (made["objectId"] ?? "", made["sessionToken"] ?? "")
        stage.clock.advance(seconds: 100)
        let entered = await sdk.ask(stage, "POST", "/login", #""username":"owl","password":"pw""#)
        for (token, action, start, end) in [
            (token, "signup", "2027-01-15T08:00:00.000Z", "2028-01-15T08:00:00.000Z"),
            (entered["sessionToken"] ?? "", "login", "2027-01-15T08:01:40.000Z", "2028-01-15T08:01:40.000Z"),
        ] {
            let reply = await sdk.ask(stage, "GET", "/sessions/me", token: token)
            let session = reply.members
            #expect(reply.status == 200 && session["sessionToken"] as? String == token)
            #expect((session["objectId"] as? String)?.utf8.count == 10 && session["restricted"] as? Bool == false)
            #expect(
                session["user"] as? [String: String]
                    == ["__type": "Pointer", "className": "_User", "objectId": id])
            #expect(session["expiresAt"] as? [String: String] == ["__type": "Date", "iso": end])
            #expect(session["createdAt"] as? String == start)
            #expect(session["createdWith"] as? [String: String] == ["action": action, "authProvider": "password"])
            let names = [SDK.iOS: "e25ff2f5-6fd4-4b66-ad5f-3b9a2d8fd41c", .swift: "swift", .php: nil, .python: nil]
            #expect(session["installationId"] as? String == names[sdk, default: "browser"])
        }
        #expect(await sdk.ask(stage, "GET", "/sessions/me", token: "r:0").code == 209)
        #expect(await sdk.ask(stage, "GET", "/sessions/me").code == 209)
    }

    @Test(
        "The session of the request shows the members that keys names, and other parameters are refused",
        arguments: [("GET", "/sessions/me"), ("POST", "/upgradeToRevocableSession")])
    func sessionKeys(_ method: String, _ path: String) async throws {
        let stage = try await ParseStage()
        let user = await stage.signUp()
        let shown = await stage.ask(method, path + "?keys=installationId", token: user.token)
        #expect(shown.status == 200 && shown["installationId"] == "i1")
        #expect(shown.members.keys.sorted() == ["createdAt", "installationId", "objectId", "updatedAt"])
        let refused = await stage.ask(method, path + "?include=user", token: user.token)
        #expect(refused.status == 400 && refused.code == 102, "\(stage.text(refused))")
    }

    @Test(
        "A user finds its own sessions, without their tokens, and ends one",
        arguments: ["/sessions", "/classes/_Session"])
    func ownSessions(_ path: String) async throws {
        let stage = try await ParseStage()
        let user = await stage.signUp("owl", installation: "phone")
        let other = await stage.signUp("bat", installation: "bat")
        let logIn = #"{"username":"owl","password":"pw"}"#
        let second = await stage.ask("POST", "/login", logIn, installation: "tablet")["sessionToken"] ?? ""
        let found = await stage.ask("GET", path + "?order=installationId", token: user.token)
        #expect(found.results.map { $0["installationId"] as? String } == ["phone", "tablet"])
        #expect(found.results.map { $0["sessionToken"] as? String } == [user.token, nil])
        let condition = #"{"where":{"installationId":"tablet"},"_method":"GET"}"#
        let tablet = await stage.ask("POST", path, condition, token: user.token).results
        let id = try #require(tablet.first?["objectId"] as? String)
        #expect(tablet.count == 1)
        #expect(await stage.ask("GET", "\(path)/\(id)", token: user.token)["installationId"] == "tablet")
        #expect(await stage.ask("GET", "\(path)/\(id)", token: other.token).code == 101)
        #expect(await stage.ask("DELETE", "\(path)/\(id)", token: other.token).code == 101)
        #expect(await stage.ask("GET", "/users/me", token: second).status == 200)
        #expect(stage.text(await stage.ask("DELETE", "\(path)/\(id)", token: user.token)) == "{}")
        #expect(await stage.ask("GET", "/users/me", token: second).code == 209)
        #expect(await stage.ask("GET", "/users/me", token: user.token).status == 200)
        #expect(await stage.ask("GET", path, token: user.token).results.count == 1)
        for (method, path) in [("POST", path), ("PUT", path + "/\(id)")] {
            #expect(await stage.ask(method, path, "{}", token: user.token).code == 119)
        }
        #expect(await stage.ask("GET", path).code == 209)
    }

    @Test("A request for one session reads that session and its own, however many there are")
    func oneSession() async throws {
        let store = HookedBackend()
        let reads = Mutex(0)
        store.beforeReading { key in
            if key.hasPrefix("server/parse/sessions/") { reads.withLock { $0 += 1 } }
        }
        let stage = try await ParseStage(over: store)
        let user = await stage.signUp()
        let logIn = #"{"username":"owl","password":"pw"}"#
        for number in 1...5 {
            #expect(await stage.ask("POST", "/login", logIn, installation: "phone \(number)").status == 200)
        }
        reads.withLock { $0 = 0 }
        let found = await stage.ask("GET", "/sessions?order=installationId", token: user.token)
        #expect(found.results.count == 6)
        #expect(reads.withLock { $0 } == 1 + 6)
        let id = found.results.last?["objectId"] as? String ?? ""
        let one = await stage.ask("GET", "/sessions/\(id)", token: user.token)
        #expect(one["installationId"] == "phone 5")
        #expect(reads.withLock { $0 } == 9)
        #expect(await stage.ask("GET", "/sessions/missing", token: user.token).code == 101)
        #expect(reads.withLock { $0 } == 10)
    }

    @Test("An installation can be fetched by its id, also by one that another server gave it", arguments: SDK.allCases)
    func installation(_ sdk: SDK) async throws {
        let stage = try await ParseStage()
        let body = #""installationId":"browser","deviceType":"web""#
        let id = await sdk.ask(stage, "POST", "/classes/_Installation", body)["objectId"] ?? ""
        for (path, id) in [("/installations", id), ("/classes/_Installation", id), ("/installations", "aBcDeFgHiJ")] {
            let reply = await sdk.ask(stage, "GET", "\(path)/\(id)")
            #expect(reply.status == 200 && reply["objectId"] == id, "\(stage.text(reply))")
        }
        let refused = await sdk.ask(stage, "DELETE", "/installations/\(id)")
        #expect(refused.code == 119 && refused["error"]?.contains("delete operation") == true)
    }

    @Test("There are no roles", arguments: ["/roles", "/classes/_Role"])
    func roles(_ path: String) async throws {
        let stage = try await ParseStage()
        let user = await stage.signUp()
        let pointer = #"{"__type":"Pointer","className":"_User","objectId":"\#(user.id)"}"#
        let find = #""where":{"users":\#(pointer)}"#
        for token in [user.token, nil] {
            let found = await SDK.javaScript.ask(stage, "GET", path, find, token: token)
            #expect(found.status == 200 && stage.text(found) == #"{"results":[]}"#)
        }
        let count = await SDK.javaScript.ask(stage, "GET", path, #""limit":0,"count":1"#, token: user.token)
        #expect(stage.text(count) == #"{"count":0,"results":[]}"#)
        #expect(await stage.ask("GET", path + "/a", token: user.token).code == 101)
        #expect(await stage.ask("POST", path, #"{"name":"admin"}"#, token: user.token).code == 119)
    }

    @Test("A preflight allows the header fields that the SDK of JavaScript sends")
    func preflight() async throws {
        let stage = try await ParseStage { $0.origins = ["https://owls.example.com"] }
        let asked = ["content-type", "x-parse-request-id", "authorization"]
        let reply = await stage.ask(
            "OPTIONS", "/classes/Purchase", installation: nil, application: nil,
            further: [
                "Origin": "https://owls.example.com", "Access-Control-Request-Method": "POST",
                "Access-Control-Request-Headers": asked.joined(separator: ","),
            ])
        #expect(reply.status == 204 && reply.fields[.accessControlAllowOrigin] == "https://owls.example.com")
        let allowed = Set(
            (reply.fields[.accessControlAllowHeaders] ?? "").lowercased().split(separator: ",")
                .map { $0.filter { $0 != " " } })
        // Parse Server allows these.
        let usual = [
            "x-parse-master-key", "x-parse-rest-api-key", "x-parse-javascript-key", "x-parse-application-id",
            "x-parse-client-version", "x-parse-session-token", "x-requested-with", "x-parse-revocable-session",
            "pragma",
            "cache-control", "x-parse-installation-id",
        ]
        #expect(allowed.isSuperset(of: asked + usual), "\(allowed)")
    }
}
