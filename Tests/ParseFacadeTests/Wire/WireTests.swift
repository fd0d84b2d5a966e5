import Entitlements
import Foundation
import HTTPTypes
import ServiceTestSupport
import SyncService
import Testing

@Suite("The wire of the Parse façade")
struct WireTests {
    @Test("The requests of the SDK of iOS get the answers that it expects")
    func iOS() async throws {
        let stage = try await ParseStage()
        let made = await stage.ask("POST", "/users", #"{"username":"owl","password":"pw"}"#)
        let (id, token) = (made["objectId"] ?? "", made["sessionToken"] ?? "")
        #expect(made.status == 201 && made.fields[.location] == "/parse/users/\(id)")
        #expect(id.utf8.count == 10 && token.hasPrefix("r:") && token.utf8.count == 34)
        #expect(
            stage.text(made)
                == #"{"createdAt":"2027-01-15T08:00:00.000Z","objectId":"\#(id)","sessionToken":"\#(token)"}"#)
        let find = #"{"where":{"objectId":"\#(id)"},"limit":"1","_method":"GET"}"#
        let acl = #"{"*":{"read":true},"\#(id)":{"read":true,"write":true}}"#
        let dates = #""createdAt":"2027-01-15T08:00:00.000Z""#
        #expect(
            stage.text(await stage.ask("POST", "/classes/_User", find, token: token))
                == #"{"results":[{"ACL":\#(acl),\#(dates),"objectId":"\#(id)","#
                + #""updatedAt":"2027-01-15T08:00:00.000Z","username":"owl"}]}"#)
        let save = #"{"ExpirationDate":{"__type":"Date","iso":"2027-04-15T08:00:00.000Z"}}"#
        let saved = await stage.ask("PUT", "/classes/_User/\(id)", save, token: token)
        #expect(saved.status == 200 && stage.text(saved) == #"{"updatedAt":"2027-01-15T08:00:00.000Z"}"#)
        #expect(
            stage.text(await stage.ask("POST", "/classes/_User", find, token: token))
                == #"{"results":[{"ACL":\#(acl),"ExpirationDate":{"__type":"Date","iso":"2027-04-15T08:00:00.000Z"},"#
                + #"\#(dates),"objectId":"\#(id)","updatedAt":"2027-01-15T08:00:00.000Z","username":"owl"}]}"#)
        let entered = await stage.ask("POST", "/login", #"{"username":"OWL","password":"pw","_method":"GET"}"#)
        #expect(entered.status == 200 && entered["objectId"] == id && entered["sessionToken"] != token)
        #expect(stage.text(await stage.ask("POST", "/logout", "{}", token: token)) == "{}")
        #expect(await stage.ask("GET", "/users/me", token: token).status == 400)
        #expect(await stage.ask("GET", "/users/me", token: entered["sessionToken"]).status == 200)
    }

    @Test("The field with an array of 2013 gets the end as its last element")
    func array() async throws {
        let stage = try await ParseStage(shape: "dates")
        let user = await stage.signUp()
        let date = #"{"__type":"Date","iso":"2027-04-15T08:00:00.000Z"}"#
        let add = #"{"ExpirationDate":{"__op":"Add","objects":[\#(date)]}}"#
        for _ in 0..<2 {
            let reply = await stage.ask("PUT", "/classes/_User/\(user.id)", add, token: user.token)
            #expect(
                stage.text(reply) == #"{"ExpirationDate":[\#(date)],"updatedAt":"2027-01-15T08:00:00.000Z"}"#)
        }
    }

    @Test("The configuration is empty, events are dropped, and a session can be upgraded to itself")
    func others() async throws {
        let stage = try await ParseStage()
        let user = await stage.signUp()
        #expect(stage.text(await stage.ask("GET", "/config")) == #"{"params":{}}"#)
        #expect(stage.text(await stage.ask("POST", "/events/AppOpened", "{}")) == "{}")
        let session = await stage.ask("POST", "/upgradeToRevocableSession", "{}", token: user.token)
        #expect(session["sessionToken"] == user.token)
    }

    @Test("A refusal has the code of Parse")
    func refusals() async throws {
        let stage = try await ParseStage()
        let user = await stage.signUp()
        let other = await stage.signUp("bat")
        let (token, id) = (user.token, user.id)
        #expect(
            stage.text(await stage.ask("GET", "/users/me", token: token, application: "x"))
                == #"{"error":"unauthorized"}"#)
        let cases: [(ParseReply, Int, Int)] = [
            (await stage.ask("POST", "/users", #"{"password":"pw"}"#), 400, 200),
            (await stage.ask("POST", "/users", #"{"username":"cat"}"#), 400, 201),
            (await stage.ask("POST", "/users", #"{"username":"Owl","password":"other"}"#), 400, 202),
            (await stage.ask("POST", "/users", #"{"username":"\#(id)","password":"other"}"#), 400, 202),
            (await stage.ask("POST", "/login", #"{"username":"owl","password":"no"}"#), 404, 101),
            (await stage.ask("GET", "/users/me", token: "r:0"), 400, 209),
            (await stage.ask("GET", "/users/\(other.id)", token: token), 404, 101),
            (await stage.ask("PUT", "/users/\(other.id)", #"{"a":1}"#, token: token), 400, 206),
            (await stage.ask("PUT", "/users/\(id)", #"{"a":1}"#), 400, 206),
            (await stage.ask("PUT", "/users/\(id)", #"{"a-b":1}"#, token: token), 400, 105),
            (await stage.ask("PUT", "/users/\(id)", #"{"ExpirationDate":"soon"}"#, token: token), 400, 111),
            (await stage.ask("PUT", "/users/\(id)", #"{"username":"bat"}"#, token: token), 400, 202),
            (await stage.ask("PUT", "/users/\(id)", "[1]", token: token), 400, 107),
            (await stage.ask("GET", "/users?where=%7B%22a%22%3A%7B%22%24ne%22%3A1%7D%7D", token: token), 400, 102),
            (await stage.ask("GET", "/users?where=%7B%22%24or%22%3A%5B%5D%7D", token: token), 400, 102),
            (await stage.ask("GET", "/classes/Secret", token: token), 400, 119),
            (await stage.ask("POST", "/requestPasswordReset", #"{"email":"a@b"}"#), 400, 119),
            (await stage.ask("POST", "/requestPasswordReset", "{}"), 400, 204),
            (await stage.ask("POST", "/batch", #"{"requests":[{"method":"POST","path":"/parse/batch"}]}"#), 400, 107),
            (await stage.ask("POST", "/batch", #"{"requests":[{"method":"GET","path":"/v1/kv"}]}"#), 400, 107),
            (await stage.ask("PUT", "/users/\(id)", String(repeating: "[", count: 100), token: token), 400, 107),
            (await stage.ask("PUT", "/users/\(id)", String(repeating: " ", count: 70_000), token: token), 413, 116),
        ]
        for (index, (reply, status, code)) in cases.enumerated() {
            #expect(reply.status == status && reply.members["code"] as? Int == code, "\(index): \(stage.text(reply))")
            #expect(reply["error"]?.isEmpty == false, "\(index)")
        }
        #expect(
            stage.text(await stage.ask("GET", "/users?where=%7B%22username%22%3A%22bat%22%7D", token: token))
                == #"{"results":[]}"#)
        #expect(stage.text(await stage.ask("GET", "/users")) == #"{"results":[]}"#)
    }

    @Test("Operations change fields, and a repeated request changes nothing")
    func operations() async throws {
        let stage = try await ParseStage()
        let user = await stage.signUp()
        let path = "/users/\(user.id)"
        let change =
            #"{"n":{"__op":"Increment","amount":2},"l":{"__op":"Add","objects":[1]},"#
            + #""u":{"__op":"AddUnique","objects":[1]}}"#
        for request in ["a", "a", "b"] { _ = await stage.ask("PUT", path, change, token: user.token, request: request) }
        var members = await stage.ask("GET", "/users/me", token: user.token).members
        #expect(members["n"] as? Int == 4 && members["l"] as? [Int] == [1, 1] && members["u"] as? [Int] == [1])
        // Without a request id, an identical body within 65 seconds is a repetition.
        stage.clock.advance(seconds: 66)
        for _ in 0..<2 { _ = await stage.ask("PUT", path, change, token: user.token) }
        stage.clock.advance(seconds: 66)
        _ = await stage.ask("PUT", path, change, token: user.token)
        members = await stage.ask("GET", "/users/me", token: user.token).members
        #expect(members["n"] as? Int == 8)
        _ = await stage.ask("PUT", path, #"{"n":{"__op":"Delete"}}"#, token: user.token)
        #expect(await stage.ask("GET", "/users/me", token: user.token).members["n"] == nil)
        // A sign-up whose answer was lost.
        let first = await stage.signUp("cat")
        let second = await stage.signUp("cat")
        #expect(first.id == second.id && !second.token.isEmpty && first.token != second.token)
    }

    @Test("A batch answers each request, and objects belong to their owner")
    func objects() async throws {
        let stage = try await ParseStage()
        let (user, other) = (await stage.signUp(), await stage.signUp("bat"))
        let batch =
            #"{"requests":[{"method":"POST","path":"/parse/classes/Purchase","body":{"p":"owl"}},"#
            + #"{"method":"GET","path":"/parse/classes/Nothing","body":{}}]}"#
        let reply = await stage.ask("POST", "/batch", batch, token: user.token)
        let results = try JSONSerialization.jsonObject(with: Data(reply.body)) as? [[String: [String: Any]]] ?? []
        let id = results.first?["success"]?["objectId"] as? String ?? ""
        #expect(results.count == 2 && results.last?["error"]?["code"] as? Int == 119)
        #expect(stage.text(await stage.ask("GET", "/classes/Purchase", token: user.token)).contains(id))
        #expect(stage.text(await stage.ask("GET", "/classes/Purchase", token: other.token)) == #"{"results":[]}"#)
        #expect(await stage.ask("GET", "/classes/Purchase/\(id)", token: other.token).status == 404)
        #expect(await stage.ask("PUT", "/classes/Purchase/\(id)", #"{"p":1}"#, token: other.token).status == 404)
        #expect(await stage.ask("DELETE", "/classes/Purchase/\(id)", token: user.token).status == 200)
        let long = #"{"p":"\#(String(repeating: "x", count: 60_000))"}"#
        var statuses: [Int] = []
        for index in 0..<6 {
            statuses.append(
                await stage.ask("POST", "/classes/Purchase", long, token: user.token, request: "\(index)").status)
        }
        #expect(statuses == [201, 201, 201, 201, 400, 400])
        let requests = Array(repeating: #"{"method":"GET","path":"/parse/config"}"#, count: 51).joined(separator: ",")
        #expect(await stage.ask("POST", "/batch", #"{"requests":[\#(requests)]}"#).status == 400)
    }

    @Test("An anonymous user has its id as a password, until it gets a name")
    func anonymous() async throws {
        let stage = try await ParseStage()
        let body = #"{"authData":{"anonymous":{"id":"01234567-89ab-cdef-0123-456789abcdef"}}}"#
        let first = await stage.ask("POST", "/users", body)
        let second = await stage.ask("POST", "/users", body)
        #expect(first.status == 201 && second.status == 200 && first["objectId"] == second["objectId"])
        #expect(await stage.ask("POST", "/users", #"{"authData":{"anonymous":{"id":"1"}}}"#).status == 400)
        let id = first["objectId"] ?? ""
        let named = await stage.ask(
            "PUT", "/users/\(id)", #"{"username":"owl","password":"pw","authData":{"anonymous":null}}"#,
            token: second["sessionToken"])
        #expect(named.status == 200 && named["sessionToken"] != nil)
        #expect(await stage.ask("GET", "/users/me", token: first["sessionToken"]).status == 400)
        #expect(await stage.ask("POST", "/login", #"{"username":"owl","password":"pw"}"#)["objectId"] == id)
        let third = await stage.ask("POST", "/users", body)
        #expect(third.status == 201 && third["objectId"] != id)
    }
}
