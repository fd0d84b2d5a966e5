import Foundation
import Testing

@Suite("Finds of SDKs at the Parse façade")
struct QueryTests {
    private func encoded(_ text: String) -> String {
        text.utf8.map { "%" + ($0 < 16 ? "0" : "") + String($0, radix: 16, uppercase: true) }.joined()
    }

    /// A user with the objects 3, 1 and 2.
    private func make() async throws -> (ParseStage, ParseStage.User) {
        let stage = try await ParseStage()
        let user = await stage.signUp()
        for number in [3, 1, 2] {
            _ = await stage.ask("POST", "/classes/Purchase", #"{"n":\#(number),"p":"owl"}"#, token: user.token)
        }
        return (stage, user)
    }

    private func numbers(_ reply: ParseReply) -> [Int] { reply.results.compactMap { $0["n"] as? Int } }

    @Test("Swift: parameters are JSON, in a query and in the body of a POST")
    func swift() async throws {
        let (stage, user) = try await make()
        let query =
            "?count=true&limit=100&order=\(encoded(#"["-n"]"#))&skip=0&where=\(encoded(#"{"p":"owl"}"#))"
        let body =
            #"{"where":{"p":"owl"},"_method":"GET","limit":100,"skip":0,"count":true,"order":["-n"]}"#
        for reply in [
            await stage.ask("GET", "/classes/Purchase" + query, token: user.token),
            await stage.ask("POST", "/classes/Purchase", body, token: user.token),
        ] {
            #expect(numbers(reply) == [3, 2, 1] && reply.members["count"] as? Int == 3, "\(stage.text(reply))")
        }
        let count = await stage.ask(
            "GET", "/classes/Purchase?count=true&limit=0&skip=0&where=%7B%7D", token: user.token)
        #expect(stage.text(count) == #"{"count":3,"results":[]}"#)
    }

    @Test(
        "A parameter may be a text or JSON, and means the same",
        arguments: [
            (#""order":"-n""#, [3, 2, 1]), (#""order":["-n"]"#, [3, 2, 1]), (#""order":"[\"-n\"]""#, [3, 2, 1]),
            (#""order":"p, -n""#, [3, 2, 1]), (#""order":["p","n"]"#, [1, 2, 3]), (#""order":"\"n\"""#, [1, 2, 3]),
            (#""order":"n","limit":"2","skip":"1""#, [2, 3]), (#""order":["n"],"limit":2,"skip":1"#, [2, 3]),
            (#""order":null,"limit":null,"include":[],"keys":"""#, [3, 1, 2]), (#""limit":5000"#, [3, 1, 2]),
            (#""where":"{\"n\":2}""#, [2]), (#""where":{"n":2.0}"#, [2]), (#""where":null"#, [3, 1, 2]),
        ])
    func forms(_ parameters: String, _ expected: [Int]) async throws {
        let (stage, user) = try await make()
        let reply = await stage.askAsJavaScript("GET", "/classes/Purchase", parameters, token: user.token)
        #expect(reply.status == 200 && numbers(reply) == expected, "\(stage.text(reply))")
        // The number of all objects is returned only if it is asked for.
        for (value, isCounted) in [
            ("1", true), ("true", true), (#""1""#, true), (#""true""#, true), ("2", true), ("0", false),
            ("false", false), (#""0""#, false), ("null", false),
        ] {
            let body = parameters + #","count":\#(value)"#
            let counted = await stage.askAsJavaScript("GET", "/classes/Purchase", body, token: user.token)
            #expect((counted.members["count"] != nil) == isCounted, "\(value)")
        }
    }

    @Test("keys and excludeKeys choose the members, and id, dates and access list are always there")
    func keys() async throws {
        let (stage, user) = try await make()
        func names(_ reply: ParseReply) -> [String] { (reply.results.first ?? reply.members).keys.sorted() }
        let dates = ["createdAt", "n", "objectId", "updatedAt"]
        for parameters in [
            #""keys":"n""#, #""keys":["n"]"#, #""excludeKeys":"p""#, #""keys":"n,p","excludeKeys":["p"]"#,
        ] {
            let found = await stage.askAsJavaScript("GET", "/classes/Purchase", parameters, token: user.token)
            #expect(names(found) == dates, "\(parameters)")
            let id = found.results.first?["objectId"] as? String ?? ""
            let one = await stage.askAsJavaScript("GET", "/classes/Purchase/\(id)", parameters, token: user.token)
            #expect(names(one) == dates, "\(parameters)")
        }
        let found = await stage.ask("GET", "/users?keys=username", token: user.token)
        #expect(names(found) == ["ACL", "createdAt", "objectId", "updatedAt", "username"])
    }

    @Test("A date that keys leaves out was not served, so that the same date of another device is a purchase")
    func unshownDate() async throws {
        let stage = try await ParseStage()
        let user = await stage.signUp()
        for installation in ["i1", "i2"] { _ = await stage.end(of: user, installation: installation) }
        #expect(await stage.write(stage.date(months: 3), user, installation: "i1").status == 200)
        let path = "/users/\(user.id)?excludeKeys=ExpirationDate"
        let read = await stage.ask("GET", path, token: user.token, installation: "i2")
        #expect(read.status == 200 && read.members["ExpirationDate"] == nil)
        #expect(await stage.write(stage.date(months: 3), user, installation: "i2").status == 200)
        #expect(await stage.end(of: user) == stage.date(months: 6))
    }

    @Test(
        "A parameter that is not supported is refused with 102 and named",
        arguments: [
            (#""include":"owner""#, "include"), (#""include":["owner"]"#, "include"),
            (#""includeAll":true"#, "includeAll"),
            (#""hint":"_id_""#, "hint"), (#""explain":true"#, "explain"), (#""distinct":"n""#, "distinct"),
            (#""readPreference":"PRIMARY""#, "readPreference"), (#""limits":1"#, "limits"),
            (#""redirectClassNameForKey":"a""#, "redirectClassNameForKey"), (#""limit":-1"#, "limit"),
            (#""limit":"many""#, "limit"), (#""skip":1.5"#, "skip"), (#""count":"many""#, "count"),
            (#""order":"owner.name""#, "order"), (#""order":{"n":1}"#, "order"), (#""order":["n",1]"#, "order"),
            (#""order":"$score""#, "order"), (#""keys":"owner.name""#, "keys"), (#""where":{"a.b":1}"#, "where"),
        ])
    func refusals(_ parameter: String, _ name: String) async throws {
        let (stage, user) = try await make()
        for path in ["/classes/Purchase", "/classes/_User", "/classes/_Session"] {
            let reply = await stage.askAsJavaScript("GET", path, parameter, token: user.token)
            #expect(reply.status == 400 && reply.code == 102, "\(path): \(stage.text(reply))")
            #expect(reply["error"]?.contains(name) == true, "\(stage.text(reply))")
        }
        let id = await stage.ask("GET", "/classes/Purchase?limit=1", token: user.token).results.first?["objectId"]
        for path in ["/classes/Purchase/\(id as? String ?? "")", "/users/\(user.id)", "/users/me"] {
            let reply = await stage.askAsJavaScript("GET", path, parameter, token: user.token)
            #expect(reply.status == 400 && reply.code == 102, "\(path): \(stage.text(reply))")
        }
    }

    @Test("Names that begin with an underscore are no parameters and no fields, in a query and in a part of a batch")
    func underscores() async throws {
        let (stage, user) = try await make()
        #expect(numbers(await stage.ask("GET", "/classes/Purchase?_=1712&order=n", token: user.token)) == [1, 2, 3])
        let parts = try await SDK.javaScript.batch(
            stage,
            [
                ("GET", "/classes/Purchase", #""_method":"GET","_":1712,"order":"-n""#),
                ("POST", "/classes/Purchase", #""_method":"POST","_hidden":1,"n":4"#),
            ], token: user.token)
        #expect(parts.map(\.status) == [200, 200])
        #expect(numbers(parts[0]) == [3, 2, 1])
        #expect(numbers(await stage.ask("GET", "/classes/Purchase?order=n", token: user.token)) == [1, 2, 3, 4])
    }

    @Test("A condition can have 32 names, and one more is refused", arguments: [(32, 200), (33, 400)])
    func names(_ count: Int, _ status: Int) async throws {
        let (stage, user) = try await make()
        let members = (0..<count).map { #""a\#($0)":null"# }.joined(separator: ",")
        let find = #""where":{\#(members)}"#
        let reply = await stage.askAsJavaScript("GET", "/classes/Purchase", find, token: user.token)
        #expect(reply.status == status && reply.code == (status == 200 ? nil : 102), "\(stage.text(reply))")
        #expect(numbers(reply) == (status == 200 ? [3, 1, 2] : []))
    }

    @Test("JavaScript: a batch that must be a transaction is refused, and nothing of it is applied")
    func transaction() async throws {
        let (stage, user) = try await make()
        let before = try await stage.cursor()
        let requests = #""requests":[{"method":"POST","path":"/parse/classes/Purchase","body":{"n":4}}]"#
        let refused = await stage.askAsJavaScript(
            "POST", "/batch", requests + #","transaction":true"#, token: user.token)
        #expect(refused.status == 400 && refused.code == 102 && refused["error"]?.contains("transaction") == true)
        #expect(try await stage.cursor() == before)
        let plain = await stage.askAsJavaScript(
            "POST", "/batch", requests + #","transaction":false"#, token: user.token)
        #expect(try plain.parts().map(\.status) == [200])
    }

    @Test("JavaScript: fetchAll gets objects and the own user by their ids")
    func fetchAll() async throws {
        let (stage, user) = try await make()
        let other = await stage.signUp("bat")
        let all = await stage.askAsJavaScript("GET", "/classes/Purchase", #""where":{}"#, token: user.token)
        let ids = all.results.compactMap { $0["objectId"] as? String }
        let query = #""where":{"objectId":{"$in":["\#(ids[0])","\#(ids[2])","missing"]}},"limit":3"#
        let found = await stage.askAsJavaScript("GET", "/classes/Purchase", query, token: user.token)
        #expect(numbers(found) == [3, 2])
        let users = #""where":{"objectId":{"$in":["\#(other.id)","\#(user.id)"]}},"limit":2"#
        let found2 = await stage.askAsJavaScript("GET", "/classes/_User", users, token: user.token)
        #expect(found2.results.compactMap { $0["objectId"] as? String } == [user.id])
        let none = #""where":{"objectId":{"$in":[]}}"#
        #expect(await stage.askAsJavaScript("GET", "/classes/_User", none, token: user.token).results.isEmpty)
    }

    @Test("JavaScript: each and findAll go through all objects in pages, in the order of their ids")
    func each() async throws {
        let stage = try await ParseStage()
        let user = await stage.signUp()
        let requests = (1...7).map { ("POST", "/classes/Purchase", #""n":\#($0)"#) }
        _ = try await SDK.javaScript.batch(stage, requests, token: user.token)
        var (seen, last, pages) = ([Int](), "", 0)
        while pages < 9 {
            let condition = last.isEmpty ? "{}" : #"{"objectId":{"$gt":"\#(last)"}}"#
            let page = await stage.askAsJavaScript(
                "GET", "/classes/Purchase", #""where":\#(condition),"limit":3,"order":"objectId""#, token: user.token)
            let ids = page.results.compactMap { $0["objectId"] as? String }
            #expect(page.status == 200 && ids == ids.sorted() && ids.allSatisfy { $0 > last })
            seen += numbers(page)
            pages += 1
            guard let next = ids.last, ids.count == 3 else { break }
            last = next
        }
        #expect(seen.sorted() == [1, 2, 3, 4, 5, 6, 7] && pages == 3)
        // Of users, there is one.
        for (bound, count) in [("", 1), (user.id, 0)] {
            let query = #""where":{"objectId":{"$gt":"\#(bound)"}},"limit":100,"order":"objectId""#
            #expect(
                await stage.askAsJavaScript("GET", "/classes/_User", query, token: user.token).results.count == count)
        }
    }

    @Test("Equality is that of MongoDB: null is a missing member, and an array equals each of its elements")
    func equality() async throws {
        let stage = try await ParseStage()
        let user = await stage.signUp()
        for body in [#"{"n":1,"tags":["a","b"]}"#, #"{"n":2,"tags":"a"}"#, #"{"n":3}"#, #"{"n":4,"tags":null}"#] {
            _ = await stage.ask("POST", "/classes/Purchase", body, token: user.token)
        }
        for (condition, expected) in [
            (#"{"tags":"a"}"#, [1, 2]), (#"{"tags":["a","b"]}"#, [1]), (#"{"tags":{"$eq":"b"}}"#, [1]),
            (#"{"tags":null}"#, [3, 4]), (#"{"n":1.0}"#, [1]), (#"{"missing":"a"}"#, []),
        ] {
            let find = #""where":\#(condition)"#
            let reply = await stage.askAsJavaScript("GET", "/classes/Purchase", find, token: user.token)
            #expect(numbers(reply) == expected, "\(condition)")
        }
    }
}
