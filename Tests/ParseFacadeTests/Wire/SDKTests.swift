import Foundation
import HTTPTypes
import ServiceTestSupport
import Testing

@Suite("The requests of SDKs and the whole bodies of their answers")
struct SDKTests {
    private static let start = "2027-01-15T08:00:00.000Z"
    private static let later = "2027-01-15T08:01:40.000Z"

    /// A user as it is shown, with the members in order of their names.
    private func user(
        _ id: String, updated: String = start, end: String? = nil, theme: String? = nil, token: String? = nil
    ) -> String {
        let members = [
            #""ACL":{"*":{"read":true},"\#(id)":{"read":true,"write":true}}"#,
            end.map { #""ExpirationDate":{"__type":"Date","iso":"\#($0)"}"# },
            #""createdAt":"\#(Self.start)""#, #""objectId":"\#(id)""#, token.map { #""sessionToken":"\#($0)""# },
            theme.map { #""theme":"\#($0)""# }, #""updatedAt":"\#(updated)""#, #""username":"owl""#,
        ]
        return "{" + members.compactMap { $0 }.joined(separator: ",") + "}"
    }

    private func expect(
        _ stage: ParseStage, _ reply: ParseReply, _ status: Int, _ text: String,
        sourceLocation: SourceLocation = #_sourceLocation
    ) {
        #expect(reply.status == status && stage.text(reply) == text, sourceLocation: sourceLocation)
        #expect(
            reply.fields[.contentType] == "application/json; charset=utf-8", sourceLocation: sourceLocation)
    }

    @Test("JavaScript: everything is in a text, also the method, the application and the session")
    func javaScript() async throws {
        let stage = try await ParseStage()
        let made = await stage.askAsJavaScript("POST", "/users", #""username":"owl","password":"pw""#)
        let (id, token) = (made["objectId"] ?? "", made["sessionToken"] ?? "")
        expect(
            stage, made, 201, #"{"createdAt":"\#(Self.start)","objectId":"\#(id)","sessionToken":"\#(token)"}"#)
        #expect(id.utf8.count == 10 && token.utf8.count == 34)
        expect(stage, await stage.askAsJavaScript("GET", "/users/me", token: token), 200, user(id, token: token))
        stage.clock.advance(seconds: 100)
        // The date is an object, as toJSON writes it.
        let end = stage.date(months: 3)
        let save = #""theme":"dark","ExpirationDate":{"__type":"Date","iso":"\#(end)"}"#
        expect(
            stage, await stage.askAsJavaScript("PUT", "/users/\(id)", save, token: token), 200,
            #"{"updatedAt":"\#(Self.later)"}"#)
        let whole = user(id, updated: Self.later, end: end, theme: "dark")
        let find = #""where":{"objectId":"\#(id)"},"limit":1"#
        expect(
            stage, await stage.askAsJavaScript("GET", "/classes/_User", find, token: token), 200,
            #"{"results":[\#(whole)]}"#)
        let entered = await stage.askAsJavaScript("POST", "/login", #""username":"owl","password":"pw""#)
        let second = entered["sessionToken"] ?? ""
        #expect(second.hasPrefix("r:") && second != token)
        expect(stage, entered, 200, user(id, updated: Self.later, end: end, theme: "dark", token: second))
        // Objects.
        let object = await stage.askAsJavaScript("POST", "/classes/Purchase", #""product":"owl","n":1"#, token: token)
        let name = object["objectId"] ?? ""
        expect(stage, object, 201, #"{"createdAt":"\#(Self.later)","objectId":"\#(name)"}"#)
        #expect(object.fields[.location] == "/parse/classes/Purchase/\(name)")
        let increment = #""n":{"__op":"Increment","amount":2}"#
        expect(
            stage, await stage.askAsJavaScript("PUT", "/classes/Purchase/\(name)", increment, token: token), 200,
            #"{"n":3,"updatedAt":"\#(Self.later)"}"#)
        expect(
            stage, await stage.askAsJavaScript("GET", "/classes/Purchase", #""where":{"n":3}"#, token: token), 200,
            #"{"results":[{"createdAt":"\#(Self.later)","n":3,"objectId":"\#(name)","product":"owl","#
                + #""updatedAt":"\#(Self.later)"}]}"#)
        expect(stage, await stage.askAsJavaScript("DELETE", "/classes/Purchase/\(name)", token: token), 200, "{}")
        expect(
            stage, await stage.askAsJavaScript("GET", "/classes/Purchase/\(name)", token: token), 404,
            #"{"code":101,"error":"Object not found."}"#)
        expect(stage, await stage.askAsJavaScript("POST", "/logout", token: token), 200, "{}")
        expect(
            stage, await stage.askAsJavaScript("GET", "/users/me", token: token), 400,
            #"{"code":209,"error":"Invalid session token"}"#)
    }

    @Test("JavaScript: the id in the body names the installation, so that a date that was served is an echo")
    func javaScriptInstallation() async throws {
        let stage = try await ParseStage()
        let owl = await stage.signUp("owl", installation: "phone")
        let end = stage.date(months: 6)
        #expect(await stage.write(end, owl, installation: "phone").status == 200)
        _ = await stage.askAsJavaScript("GET", "/users/me", token: owl.token)
        // For an installation that was served nothing, it is six months after the present time: a purchase.
        let other = await stage.ask("POST", "/login", #"{"username":"owl","password":"pw"}"#, installation: "phone")
        let save = #""ExpirationDate":{"__type":"Date","iso":"\#(end)"}"#
        let saved = await stage.askAsJavaScript("PUT", "/users/\(owl.id)", save, token: other["sessionToken"])
        #expect(saved.status == 200)
        #expect(await stage.end(of: owl, installation: "phone") == end)
    }

    @Test("Swift: a save of the whole object with the date as it was served does not change the end")
    func swift() async throws {
        let stage = try await ParseStage()
        let made = await stage.ask("POST", "/users", #"{"username":"owl","password":"pw"}"#, installation: "swift1")
        let (id, token) = (made["objectId"] ?? "", made["sessionToken"] ?? "")
        #expect(made.fields[.location] == "/parse/users/\(id)")
        // An old device of the account buys.
        let end = stage.date(months: 6)
        _ = await stage.write(end, .init(id: id, token: token), installation: "phone")
        let query = "?limit=1&skip=0&where=%7B%22objectId%22%3A%7B%22%24eq%22%3A%22\(id)%22%7D%7D"
        let found = await stage.ask("GET", "/classes/_User" + query, token: token, installation: "swift1")
        expect(stage, found, 200, #"{"results":[\#(user(id, end: end))]}"#)
        stage.clock.advance(seconds: 100)
        let save = user(id, end: end, theme: "dark")
        let saved = await stage.ask("PUT", "/users/\(id)", save, token: token, installation: "swift1")
        expect(stage, saved, 200, #"{"updatedAt":"\#(Self.later)"}"#)
        let whole = user(id, updated: Self.later, end: end, theme: "dark")
        let again = await stage.ask("GET", "/classes/_User" + query, token: token, installation: "swift1")
        expect(stage, again, 200, #"{"results":[\#(whole)]}"#)
        expect(
            stage, await stage.ask("GET", "/users/\(id)", token: token, installation: "swift1"), 200,
            user(id, updated: Self.later, end: end, theme: "dark", token: token))
        // The installation id changes at log-out.
        expect(stage, await stage.ask("POST", "/logout", "", token: token, installation: "swift1"), 200, "{}")
        let entered = await stage.ask(
            "POST", "/login", #"{"username":"owl","password":"pw"}"#, installation: "swift2")
        let second = entered["sessionToken"] ?? ""
        expect(stage, entered, 200, user(id, updated: Self.later, end: end, theme: "dark", token: second))
        let light = user(id, updated: Self.later, end: end, theme: "light")
        _ = await stage.ask("PUT", "/users/\(id)", light, token: second, installation: "swift2")
        let last = await stage.ask("GET", "/users/\(id)", token: second, installation: "swift2")
        expect(stage, last, 200, user(id, updated: Self.later, end: end, theme: "light", token: second))
        expect(stage, await stage.ask("POST", "/health"), 200, #"{"status":"ok"}"#)
    }

    @Test(
        "An installation is created and saved, and never found",
        arguments: ["/installations", "/classes/_Installation"])
    func installations(_ path: String) async throws {
        let stage = try await ParseStage()
        let body = #"{"installationId":"i1","deviceType":"ios","appVersion":"1.0","badge":0}"#
        let made = await stage.ask("POST", path, body)
        let id = made["objectId"] ?? ""
        expect(stage, made, 201, #"{"createdAt":"\#(Self.start)","objectId":"\#(id)"}"#)
        #expect(id.utf8.count == 10 && made.fields[.location] == "/parse/installations/\(id)")
        #expect(await stage.ask("POST", path, body)["objectId"] == id)
        #expect(await stage.ask("POST", path, body, installation: "i2")["objectId"] != id)
        expect(
            stage, await stage.ask("PUT", path + "/" + id, #"{"badge":1}"#), 200, #"{"updatedAt":"\#(Self.start)"}"#)
        let refusal =
            #"{"code":119,"error":"Clients aren't allowed to perform the find operation on the installation "#
            + #"collection."}"#
        expect(stage, await stage.ask("GET", path), 400, refusal)
        let find = #"{"where":{"installationId":"i1"},"limit":"1","_method":"GET"}"#
        expect(stage, await stage.ask("POST", path, find), 400, refusal)
        expect(stage, await stage.askAsJavaScript("GET", path), 400, refusal)
    }
}
