import Foundation
import ServiceTestSupport
import SyncCore
import Testing

@Suite("Repeated requests at the Parse façade")
struct RepetitionTests {
    @Test("iOS from 4.1.0: all requests of a process have one id, and two different ones are no repetitions")
    func processID() async throws {
        let stage = try await ParseStage()
        let user = await stage.signUp()
        let first = await SDK.iOS.ask(stage, "POST", "/classes/Purchase", #""product":"owl""#, token: user.token)
        let second = await SDK.iOS.ask(stage, "POST", "/classes/Purchase", #""product":"bat""#, token: user.token)
        #expect(first.status == 201 && second.status == 201 && first["objectId"] != second["objectId"])
        #expect(await SDK.iOS.count(stage, user.token) == 2)
        for path in ["/classes/_User/\(user.id)", "/classes/Purchase/\(first["objectId"] ?? "")"] {
            for amount in [1, 5] {
                let body = #""n":{"__op":"Increment","amount":\#(amount)}"#
                #expect(await SDK.iOS.ask(stage, "PUT", path, body, token: user.token).status == 200)
            }
            #expect(await stage.ask("GET", path, token: user.token).members["n"] as? Int == 6, "\(path)")
        }
    }

    @Test(
        "A request that an SDK repeats four times, each after a time-out of 60 s and a pause of 2 s, counts once",
        arguments: SDK.allCases)
    func timeout(_ sdk: SDK) async throws {
        let stage = try await ParseStage()
        let user = await stage.signUp()
        func buy(_ number: Int) async -> String? {
            await sdk.ask(stage, "POST", "/classes/Purchase", #""p":1"#, token: user.token, number: number)["objectId"]
        }
        func add(_ number: Int) async -> Int? {
            let body = #""n":{"__op":"Increment","amount":1}"#
            let path = "/classes/_User/\(user.id)"
            return await sdk.ask(stage, "PUT", path, body, token: user.token, number: number).members["n"] as? Int
        }
        let (id, sum) = (await buy(1), await add(2))
        #expect(sum == 1)
        for _ in 0..<4 {
            stage.clock.advance(seconds: 62)
            #expect(await buy(1) == id)
            #expect(await add(2) == 1)
        }
        stage.clock.advance(seconds: 66)
        let (later, laterSum) = (await buy(3), await add(4))
        #expect(later != id && laterSum == 2)
        #expect(await sdk.count(stage, user.token) == 2)
    }

    @Test(
        "A repetition with a request id of its own is recognized for 325 s, and one without for 65 s",
        arguments: SDK.allCases)
    func windows(_ sdk: SDK) async throws {
        let stage = try await ParseStage()
        let user = await stage.signUp()
        var ids: [String?] = []
        for seconds in [0, 66, 259, 1] as [Int64] {
            stage.clock.advance(seconds: seconds)
            let made = await sdk.ask(stage, "POST", "/classes/Purchase", #""p":1"#, token: user.token, number: 1)
            ids.append(made["objectId"])
        }
        #expect((ids[1] == ids[0]) == sdk.hasRequestIDs && (ids[2] == ids[1]) == sdk.hasRequestIDs)
        // 326 s after the first request; without an id, 1 s after the last one.
        #expect((ids[3] != ids[2]) == sdk.hasRequestIDs && !ids.contains(nil))
        #expect(await sdk.count(stage, user.token) == (sdk.hasRequestIDs ? 2 : 3))
    }

    @Test("Equal requests that an app sends each minute are no endless repetition", arguments: SDK.allCases)
    func series(_ sdk: SDK) async throws {
        let stage = try await ParseStage()
        let user = await stage.signUp()
        let mine = await stage.ask("POST", "/classes/Purchase", #"{"n":0}"#, token: user.token)
        let paths = ["/classes/_User/\(user.id)", "/classes/Purchase/\(mine["objectId"] ?? "")"]
        for number in 1...10 {
            for path in paths {
                let body = #""n":{"__op":"Increment","amount":1}"#
                _ = await sdk.ask(stage, "PUT", path, body, token: user.token, number: number)
            }
            _ = await sdk.ask(stage, "POST", "/classes/Purchase", #""log":1"#, token: user.token, number: number)
            stage.clock.advance(seconds: 60)
        }
        // Without ids, the requests of the first 325 s count once, and those that follow once more.
        let count = sdk.hasRequestIDs ? 10 : 2
        for path in paths {
            #expect(await stage.ask("GET", path, token: user.token).members["n"] as? Int == count, "\(path)")
        }
        #expect(await sdk.count(stage, user.token) == 1 + count)
    }

    @Test("Objects that differ in a field named password alone are different objects", arguments: SDK.allCases)
    func passwordField(_ sdk: SDK) async throws {
        let stage = try await ParseStage()
        let user = await stage.signUp()
        for password in ["one", "two", "two"] {
            let body = #""title":"wifi","password":"\#(password)""#
            #expect(await sdk.ask(stage, "POST", "/classes/Purchase", body, token: user.token).status == 201)
        }
        let found = await stage.ask("GET", "/classes/Purchase?order=password", token: user.token)
        #expect(found.results.map { $0["password"] as? String } == ["one", "two"])
    }

    @Test(
        "Request ids count, except those of the SDK of Apple's platforms",
        arguments: [
            ("i4.1.1", 1), ("osx1.19.4", 1), ("apple-tv4.1.1", 1), ("apple-watch4.1.1", 1), ("swift5.11.2", 2),
            ("js3.4.2", 2), ("a4.3.0", 2),
        ])
    func clientVersions(_ version: String, _ count: Int) async throws {
        let stage = try await ParseStage()
        let user = await stage.signUp()
        for number in 1...2 {
            let made = await stage.ask(
                "POST", "/classes/Purchase", #"{"p":1}"#, token: user.token, request: "\(number)",
                further: ["X-Parse-Client-Version": version])
            #expect(made.status == 201)
        }
        #expect(await SDK.javaScript.count(stage, user.token) == count)
        for number in 3...4 {
            let body = #"{"p":2,"_ClientVersion":"\#(version)","_RequestId":"\#(number)"}"#
            #expect(await stage.ask("POST", "/classes/Purchase", body, token: user.token).status == 201)
        }
        #expect(await SDK.javaScript.count(stage, user.token) == 2 * count)
    }

    @Test(
        "Equal requests of one batch are no repetitions of each other, and a repeated batch is", arguments: SDK.allCases
    )
    func batches(_ sdk: SDK) async throws {
        let stage = try await ParseStage()
        let user = await stage.signUp()
        let create = ("POST", "/classes/Purchase", #""p":1"#)
        let add = ("PUT", "/classes/_User/\(user.id)", #""n":{"__op":"Increment","amount":1}"#)
        let requests = [create, create, add, create, add]
        var ids: [[String]] = []
        for _ in 0..<2 {
            let replies = try await sdk.batch(stage, requests, token: user.token, number: 7)
            #expect(replies.map(\.status) == [200, 200, 200, 200, 200])
            ids.append(replies.compactMap { $0["objectId"] })
            #expect(replies.last?.members["n"] as? Int == 2)
        }
        #expect(Set(ids[0]).count == 3 && ids[0] == ids[1])
        #expect(await sdk.count(stage, user.token) == 3)
        // The same requests in another order are another batch.
        let other = try await sdk.batch(stage, requests.reversed(), token: user.token, number: 8)
        #expect(other.first?.members["n"] as? Int == 3)
        #expect(await sdk.count(stage, user.token) == 6)
    }

    @Test("Equal requests with ids of their own are no repetitions, alone and in batches", arguments: SDK.allCases)
    func ownIDs(_ sdk: SDK) async throws {
        let stage = try await ParseStage()
        let user = await stage.signUp()
        for number in [1, 2, 1, 2] {
            _ = await sdk.ask(stage, "POST", "/classes/Purchase", #""p":1"#, token: user.token, number: number)
        }
        #expect(await sdk.count(stage, user.token) == (sdk.hasRequestIDs ? 2 : 1))
        let create = [("POST", "/classes/Purchase", #""p":2"#), ("POST", "/classes/Purchase", #""p":3"#)]
        for number in [3, 4, 3, 4] { _ = try await sdk.batch(stage, create, token: user.token, number: number) }
        #expect(await sdk.count(stage, user.token) == (sdk.hasRequestIDs ? 6 : 3))
    }

    @Test("iOS: a change that the next process replays counts once, also if it is the first write of that process")
    func replay() async throws {
        let stage = try await ParseStage()
        let user = await stage.signUp()
        func add(_ amount: Int, process: Int) async -> Int? {
            let body = #""n":{"__op":"Increment","amount":\#(amount)}"#
            let path = "/classes/_User/\(user.id)"
            return await SDK.iOS.ask(stage, "PUT", path, body, token: user.token, process: process).members["n"] as? Int
        }
        #expect(await add(1, process: 1) == 1)
        // `saveEventually` of the first process, from the disk.
        #expect(await add(1, process: 2) == 1)
        #expect(await add(5, process: 2) == 6)
        #expect(await add(1, process: 2) == 6)
        #expect(await add(7, process: 2) == 13)
    }

    @Test("All changes of the largest batch are recognized when it is repeated")
    func largestBatch() async throws {
        let stage = try await ParseStage()
        let user = await stage.signUp()
        let made = await stage.ask("POST", "/classes/Purchase", #"{"n":0}"#, token: user.token)
        let path = "/classes/Purchase/\(made["objectId"] ?? "")"
        let requests = (1...50).map { ("PUT", path, #""n":{"__op":"Increment","amount":\#($0)}"#) }
        for _ in 0..<2 {
            let replies = try await SDK.javaScript.batch(stage, requests, token: user.token)
            #expect(replies.last?.members["n"] as? Int == 1_275)
        }
    }

    @Test("A second sign-up with the same name and password is 202 from another installation, and a retry is not")
    func signUp() async throws {
        let stage = try await ParseStage()
        let first = await stage.signUp("owl", "pw", installation: "phone")
        let body = #"{"username":"owl","password":"pw"}"#
        for _ in 0..<2 {
            stage.clock.advance(seconds: 62)
            let retry = await stage.ask("POST", "/users", body, installation: "phone")
            #expect(retry.status == 201 && retry["objectId"] == first.id && retry["sessionToken"]?.isEmpty == false)
        }
        for installation in ["tablet", nil] {
            let other = await stage.ask("POST", "/users", body, installation: installation)
            #expect(other.status == 400 && other.code == 202, "\(stage.text(other))")
            #expect(other["error"] == "Account already exists for this username.")
        }
        let changed = await stage.ask(
            "POST", "/users", #"{"username":"owl","password":"pw","theme":"dark"}"#, installation: "phone")
        #expect(changed.code == 202)
        stage.clock.advance(seconds: 66)
        #expect(await stage.ask("POST", "/users", body, installation: "phone").code == 202)
        #expect(await stage.ask("GET", "/users/me", token: first.token)["theme"] == nil)
    }

    @Test("The store keeps no fast digest of a password: sign-ups that differ in it alone have the same mark")
    func passwords() async throws {
        var marks: Set<String> = []
        for password in ["first", "second"] {
            let stage = try await ParseStage()
            let signUp = ("POST", "/users", #""username":"owl","password":"\#(password)""#)
            let id = try await SDK.javaScript.batch(stage, [signUp], token: nil).first?["objectId"]
            #expect(id?.utf8.count == 10)
            for item in try await stage.store.list(prefix: "server/", after: nil, limit: 1_000).outcome.items
            where item.key.text.hasSuffix("parse/user") {
                guard case .found(let entry) = try await stage.store.read(item.key).outcome else { continue }
                let user = try JSONSerialization.jsonObject(with: Data(entry.value)) as? [String: Any]
                marks.insert((user?["signUp"] as? [String: Any])?["digest"] as? String ?? "missing \(password)")
            }
        }
        #expect(marks.count == 1 && marks.first?.utf8.count == 64, "\(marks)")
    }
}
