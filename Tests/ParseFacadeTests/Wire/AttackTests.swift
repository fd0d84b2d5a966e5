import Foundation
import HTTPTypes
import ServiceTestSupport
import Testing

@Suite("Attacks on the Parse façade")
struct AttackTests {
    private static let keys = [
        "X-Parse-Master-Key": "secret", "X-Parse-Client-Key": "secret", "X-Parse-JavaScript-Key": "secret",
        "X-Parse-REST-API-Key": "secret",
    ]

    /// Sends a request with a master key and client keys, in header fields or in the body.
    private func ask(
        _ stage: ParseStage, inBody isInBody: Bool, _ method: String, _ path: String, _ members: String = "",
        token: String? = nil
    ) async -> ParseReply {
        guard isInBody else {
            let isFind = method == "GET" && !members.isEmpty
            let body = isFind ? #"{"_method":"GET",\#(members)}"# : members.isEmpty ? "" : "{\(members)}"
            return await stage.ask(isFind ? "POST" : method, path, body, token: token, further: Self.keys)
        }
        let secret = #""_MasterKey":"secret","_masterKey":"secret","_RestAPIKey":"secret""#
        let all = members.isEmpty ? secret : secret + "," + members
        return await stage.askAsJavaScript(method, path, all, token: token)
    }

    @Test("Master keys and client keys give no access to another user", arguments: [false, true])
    func masterKeys(_ isInBody: Bool) async throws {
        let stage = try await ParseStage()
        let (owl, bat) = (await stage.signUp("owl"), await stage.signUp("bat"))
        let object = await stage.ask("POST", "/classes/Purchase", #"{"p":1}"#, token: bat.token)["objectId"] ?? ""
        let before = stage.text(await stage.ask("GET", "/users/me", token: bat.token))
        let cases: [(method: String, path: String, status: Int, code: Int)] = [
            ("PUT", "/users/\(bat.id)", 400, 206), ("PUT", "/classes/_User/\(bat.id)", 400, 206),
            ("GET", "/users/\(bat.id)", 404, 101), ("GET", "/classes/_User/\(bat.id)", 404, 101),
            ("DELETE", "/users/\(bat.id)", 400, 206), ("GET", "/classes/Purchase/\(object)", 404, 101),
            ("PUT", "/classes/Purchase/\(object)", 404, 101), ("DELETE", "/classes/Purchase/\(object)", 404, 101),
        ]
        for (method, path, status, code) in cases {
            let members = method == "PUT" ? #""theme":"dark","username":"cat","password":"new""# : ""
            let reply = await ask(stage, inBody: isInBody, method, path, members, token: owl.token)
            #expect(reply.status == status && reply.members["code"] as? Int == code, "\(method) \(path)")
        }
        for token in [owl.token, nil] {
            for condition in [#"{"username":"bat"}"#, #"{"objectId":"\#(bat.id)"}"#] {
                let find = #""where":\#(condition),"limit":"10""#
                let found = await ask(stage, inBody: isInBody, "GET", "/classes/_User", find, token: token)
                #expect(found.status == 200 && stage.text(found) == #"{"results":[]}"#)
            }
        }
        let found = await ask(stage, inBody: isInBody, "GET", "/classes/Purchase", #""where":{}"#, token: owl.token)
        #expect(stage.text(found) == #"{"results":[]}"#)
        // A key is no session.
        let save = await ask(stage, inBody: isInBody, "PUT", "/users/\(bat.id)", #""theme":"dark""#)
        #expect(save.status == 400 && save.members["code"] as? Int == 206)
        let read = await ask(stage, inBody: isInBody, "GET", "/users/\(bat.id)")
        #expect(read.status == 400 && read.members["code"] as? Int == 209)
        #expect(stage.text(await stage.ask("GET", "/users/me", token: bat.token)) == before)
        #expect(await stage.ask("GET", "/classes/Purchase/\(object)", token: bat.token).members["p"] as? Int == 1)
    }

    @Test(
        "Unknown classes and what needs a master key are refused with and without one",
        arguments: [
            "/classes/_Product", "/classes/Secret", "/schemas", "/jobs/a", "/aggregate/_User", "/hooks/functions",
            "/purge/Purchase", "/push", "/files/a.txt", "/loginAs",
        ])
    func closed(_ path: String) async throws {
        let stage = try await ParseStage()
        let user = await stage.signUp()
        let before = try await stage.cursor()
        for method in ["GET", "POST", "PUT", "DELETE"] {
            for further in [[:], Self.keys] {
                let body = method == "GET" ? "" : #"{"a":1}"#
                let reply = await stage.ask(method, path, body, token: user.token, further: further)
                #expect((400..<500).contains(reply.status) && reply.members["code"] as? Int == 119, "\(method)")
                #expect(reply["error"]?.isEmpty == false)
            }
        }
        #expect(try await stage.cursor() == before)
    }

    @Test("A forged id, date, session or access list in a body changes nothing")
    func forgedMembers() async throws {
        let stage = try await ParseStage()
        let other = await stage.signUp("bat")
        let forged =
            #""objectId":"\#(other.id)","createdAt":"2000-01-01T00:00:00.000Z","updatedAt":"2000-01-01T00:00:00.000Z","#
            + #""sessionToken":"\#(other.token)","ACL":{"*":{"read":true,"write":true}},"className":"_Role","#
            + #""emailVerified":true,"originalData":{"a":1},"_wperm":["*"],"_hashed_password":"x","#
            + #""_session_token":"\#(other.token)""#
        let made = await stage.ask("POST", "/users", #"{"username":"owl","password":"pw",\#(forged)}"#)
        let (id, token) = (made["objectId"] ?? "", made["sessionToken"] ?? "")
        #expect(made.status == 201 && id != other.id && token != other.token)
        #expect(made["createdAt"] == "2027-01-15T08:00:00.000Z")
        let whole =
            #"{"ACL":{"*":{"read":true},"\#(id)":{"read":true,"write":true}},"createdAt":"2027-01-15T08:00:00.000Z","#
            + #""objectId":"\#(id)","sessionToken":"\#(token)","updatedAt":"2027-01-15T08:00:00.000Z","#
            + #""username":"owl"}"#
        #expect(stage.text(await stage.ask("GET", "/users/me", token: token)) == whole)
        let saved = await stage.ask("PUT", "/users/\(id)", "{\(forged)}", token: token)
        #expect(saved.status == 200 && stage.text(saved) == #"{"updatedAt":"2027-01-15T08:00:00.000Z"}"#)
        #expect(stage.text(await stage.ask("GET", "/users/me", token: token)) == whole)
        // An object.
        let object = await stage.ask("POST", "/classes/Purchase", "{\(forged)}", token: token)
        let name = object["objectId"] ?? ""
        #expect(object.status == 201 && name != other.id && object["createdAt"] == "2027-01-15T08:00:00.000Z")
        stage.clock.advance(seconds: 1)
        let again = await stage.ask("PUT", "/classes/Purchase/\(name)", "{\(forged)}", token: token)
        #expect(stage.text(again) == #"{"updatedAt":"2027-01-15T08:00:01.000Z"}"#)
        let read = await stage.ask("GET", "/classes/Purchase/\(name)", token: token)
        #expect(read["objectId"] == name && read["createdAt"] == "2027-01-15T08:00:00.000Z")
        #expect(read["updatedAt"] == "2027-01-15T08:00:01.000Z" && read["className"] == nil)
        // The access list opens nothing.
        #expect(await stage.ask("GET", "/classes/Purchase/\(name)", token: other.token).status == 404)
        #expect(await stage.ask("PUT", "/classes/Purchase/\(name)", #"{"p":1}"#, token: other.token).status == 404)
        #expect(stage.text(await stage.ask("GET", "/classes/Purchase", token: other.token)) == #"{"results":[]}"#)
        #expect(await stage.ask("PUT", "/users/\(id)", #"{"a":1}"#, token: other.token).members["code"] as? Int == 206)
    }

    @Test("A wrong application id is refused, and changes nothing", arguments: ["x", "OWLS", "owls2", "", nil])
    func applications(_ application: String?) async throws {
        let stage = try await ParseStage()
        let user = await stage.signUp()
        let before = try await stage.cursor()
        let body = #"{"username":"bat","password":"pw","_ApplicationId":"\#(application ?? "x")"}"#
        for (method, path, body) in [
            ("GET", "/users/me", ""), ("PUT", "/users/\(user.id)", #"{"a":1}"#), ("POST", "/users", body),
            ("POST", "/login", #"{"username":"owl","password":"pw"}"#), ("GET", "/config", ""),
        ] {
            let reply = await stage.ask(method, path, body, token: user.token, application: application)
            #expect(reply.status == 403 && stage.text(reply) == #"{"error":"unauthorized"}"#, "\(method) \(path)")
        }
        let reply = await stage.askAsJavaScript("GET", "/users/me", token: user.token, application: application ?? "x")
        #expect(reply.status == 403 && stage.text(reply) == #"{"error":"unauthorized"}"#)
        #expect(try await stage.cursor() == before)
    }

    @Test(
        "A condition with an operator is refused",
        arguments: [
            #"{"objectId":{"$ne":"a"}}"#, #"{"username":{"$regex":"^b"}}"#, #"{"$or":[{"username":"bat"}]}"#,
            #"{"username":{"$in":["bat"]}}"#, #"{"objectId":{"$in":"a"}}"#, #"{"objectId":{"$gt":1}}"#,
            #"{"objectId":{"$gt":"a","$lt":"b"}}"#, #"{"username":{"$exists":true}}"#, #"{"$and":[]}"#,
            #"{"username":{"$eq":"bat","$ne":"owl"}}"#, #"{"username":{"$eq":"bat","a":1}}"#,
            #"{"$relatedTo":{"key":"a"}}"#, #""[]""#, #""{""#, "1", "[]",
            "\"\(String(repeating: "[", count: 1_000))\"",
        ])
    func operators(_ condition: String) async throws {
        let stage = try await ParseStage()
        let user = await stage.signUp("bat")
        _ = await stage.ask("POST", "/classes/Purchase", #"{"username":"bat"}"#, token: user.token)
        for path in ["/classes/_User", "/users", "/classes/Purchase"] {
            let body = #"{"where":\#(condition),"_method":"GET"}"#
            let reply = await stage.ask("POST", path, body, token: user.token)
            #expect(reply.status == 400 && reply.members["code"] as? Int == 102, "\(path): \(stage.text(reply))")
        }
    }

    @Test("A body that is nested deeply, or is longer than 64 KiB, is refused and changes nothing")
    func bodies() async throws {
        let stage = try await ParseStage()
        let user = await stage.signUp()
        let object = await stage.ask("POST", "/classes/Purchase", #"{"p":1}"#, token: user.token)["objectId"] ?? ""
        let before = try await stage.cursor()
        let lists = String(repeating: "[", count: 1_000) + String(repeating: "]", count: 1_000)
        let objects = String(repeating: #"{"a":"#, count: 1_000) + "1" + String(repeating: "}", count: 1_000)
        func long(_ count: Int) -> String { #"{"a":"\#(String(repeating: "x", count: count - 8))"}"# }
        let bodies = [(#"{"a":\#(lists)}"#, 400, 107), (objects, 400, 107), (long(65_537), 413, 116)]
        for (body, status, code) in bodies {
            for (method, path) in [
                ("PUT", "/users/\(user.id)"), ("POST", "/classes/Purchase"), ("PUT", "/classes/Purchase/\(object)"),
                ("POST", "/users"), ("POST", "/batch"),
            ] {
                let reply = await stage.ask(method, path, body, token: user.token)
                #expect(reply.status == status && reply.members["code"] as? Int == code, "\(method) \(path)")
            }
        }
        let inner = #"{"requests":[{"method":"POST","path":"/parse/classes/Purchase","body":{"a":\#(lists)}}]}"#
        #expect(await stage.ask("POST", "/batch", inner, token: user.token).members["code"] as? Int == 107)
        #expect(try await stage.cursor() == before)
        #expect(await stage.ask("PUT", "/users/\(user.id)", long(65_536), token: user.token).status == 200)
    }

    @Test("A batch in a batch and one of 51 requests are refused, and no request of them is applied")
    func batches() async throws {
        let stage = try await ParseStage()
        let user = await stage.signUp()
        let before = try await stage.cursor()
        func create(_ number: Int) -> String {
            #"{"method":"POST","path":"/parse/classes/Purchase","body":{"p":\#(number)}}"#
        }
        let nested = ["/parse/batch", "/1/batch", "/parse//batch", "/parse/batch/"].map {
            [create(0), #"{"method":"POST","path":"\#($0)","body":{"requests":[]}}"#]
        }
        for requests in nested + [(1...51).map(create)] {
            let body = #"{"requests":[\#(requests.joined(separator: ","))]}"#
            let reply = await stage.ask("POST", "/batch", body, token: user.token)
            #expect(reply.status == 400 && reply.members["code"] as? Int == 107, "\(requests.last ?? "")")
        }
        #expect(try await stage.cursor() == before)
        let most = #"{"requests":[\#((1...50).map(create).joined(separator: ","))]}"#
        let reply = await stage.ask("POST", "/batch", most, token: user.token)
        let results = try JSONSerialization.jsonObject(with: Data(reply.body)) as? [[String: Any]] ?? []
        #expect(reply.status == 200 && results.count == 50 && results.allSatisfy { $0["success"] != nil })
    }
}
