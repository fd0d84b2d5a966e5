import Entitlements
import EntitlementSync
import Foundation
import HTTPTypes
import ParseFacade
import ServiceTestSupport
import SyncCore
import SyncService
import Testing

@Suite("Importing a Parse app")
struct ImportTests {
    private static let owl = """
        {"_id":"g7y9tkhB7O","username":"owl","_hashed_password":"\(OwlHashes.cheap[0])","theme":"dark",\
        "_created_at":{"$date":"2016-05-01T10:00:00.000Z"},"_updated_at":{"$date":{"$numberLong":"1799000000000"}},\
        "ExpirationDate":{"$date":{"$numberLong":"1805000000000"}},"_rperm":["*"],"_wperm":["g7y9tkhB7O"],\
        "_acl":{"*":{"r":true}},"email":"owl@example.com","_email_verify_token":"x","score":{"$numberLong":"7"}}

        """
    private static let session = """
        {"_id":"s1","_p_user":"_User$g7y9tkhB7O","_session_token":"r:0123456789abcdef0123456789abcdef",\
        "expiresAt":{"$date":{"$numberLong":"1810000000000"}},"restricted":false,"installationId":"x"}

        """
    private static let token = "r:0123456789abcdef0123456789abcdef"

    // MARK: What a user gets

    @Test("A user keeps name, password, fields, dates and end, under both wires")
    func user() async throws {
        let (stage, _) = try await ParseStage.importing()
        #expect(try await stage.add(users: Self.owl) == [.added])
        let user = try await stage.logIn("OWL", "owl password 0")
        #expect(user.status == 200 && user["objectId"] == "g7y9tkhB7O" && user["username"] == "owl")
        #expect(user["theme"] == "dark" && user["email"] == "owl@example.com" && user.members["score"] as? Int == 7)
        #expect(user["createdAt"] == "2016-05-01T10:00:00.000Z")
        #expect(user["updatedAt"] == "\(Timestamp(milliseconds: 1_799_000_000_000))")
        let end = (user.members["ExpirationDate"] as? [String: Any])?["iso"] as? String
        #expect(end == "\(Timestamp(milliseconds: 1_805_000_000_000))")
        let names = Set(user.members.keys)
        #expect(names.isDisjoint(with: ["_rperm", "_acl", "_email_verify_token", "bcryptPassword", "authData"]))
        let session = await stage.session("owl", "owl password 0")
        #expect(session.status == 200 && session["account"] == "g7y9tkhB7O")
        let state = await stage.service.ask(.get, "/v1/entitlements", token: session["access_token"])
        let groups = state.members["subscriptions"] as? [[String: Any]]
        #expect(groups?.first?["expires"] as? String == "\(Timestamp(milliseconds: 1_805_000_000_000))")
    }

    @Test("A session of Parse stays valid until its end, and neither a log-out nor a new password is undone")
    func sessions() async throws {
        let (stage, _) = try await ParseStage.importing()
        try await stage.add(users: Self.owl)
        let importer = try await stage.importer()
        let other = Self.session.replacing("0123456789abcdef\",", with: "fedcba9876543210\",")
        let otherToken = Self.token.dropLast(16) + "fedcba9876543210"
        #expect(try await importer.add(stage.sessions(Self.session + other)) == [.added, .added])
        #expect(await stage.ask("GET", "/users/me", token: Self.token)["username"] == "owl")
        // Logged out here, it does not come back.
        #expect(await stage.ask("POST", "/logout", token: Self.token).status == 200)
        #expect(await stage.ask("GET", "/users/me", token: Self.token).status == 400)
        #expect(try await importer.add(stage.sessions(Self.session + other)) == [.present, .present])
        #expect(await stage.ask("GET", "/users/me", token: Self.token).status == 400)
        #expect(await stage.ask("GET", "/users/me", token: String(otherToken)).status == 200)
        // A new password ends all sessions, and none is imported any more.
        let change = await stage.ask(
            "PUT", "/users/g7y9tkhB7O", #"{"password":"new password"}"#, token: String(otherToken))
        #expect(change.status == 200)
        let third = Self.session.replacing("0123456789abcdef\",", with: "1111111111111111\",")
        #expect(try await importer.add(stage.sessions(third)) == [.leftOut("its user was not imported")])
        #expect(try await stage.add(users: Self.owl) == [.present])
        #expect(try await stage.logIn("owl", "owl password 0").status == 404)
        #expect(try await stage.logIn("owl", "new password").status == 200)
        #expect(await stage.ask("GET", "/users/me", token: String(otherToken)).status == 400)
    }

    @Test("Sessions that have ended, are restricted, or belong to no imported user are left out")
    func uselessSessions() async throws {
        let (stage, _) = try await ParseStage.importing()
        try await stage.add(users: Self.owl)
        let importer = try await stage.importer()
        let lines =
            Self.session.replacing("1810000000000", with: "1799999999999")
            + Self.session.replacing("false", with: "true") + Self.session.replacing("_User$g7y", with: "_User$h7y")
        let outcomes = try await importer.add(stage.sessions(lines))
        let ended = ParseImport.Outcome.leftOut("the session has ended or is restricted")
        #expect(outcomes == [ended, ended, .leftOut("its user was not imported")])
        #expect(await stage.ask("GET", "/users/me", token: Self.token).status == 400)
        for wrong in [
            #"{"_id":"s","_session_token":"r:0123456789abcdef0123456789abcdef"}"#,
            #"{"_id":"s","_p_user":"_User$a","_session_token":"r:1"}"#,
            #"{"_id":"s","_p_user":"Owl$a","_session_token":"r:0123456789abcdef0123456789abcdef"}"#,
        ] { #expect(throws: InputError.self, "\(wrong)") { try stage.sessions(wrong) } }
        // The hundredth session is the last one.
        let many = (100..<202).map { Self.session.replacing("0123456789abcdef\",", with: "0123456789abc\($0)\",") }
        let results = try await importer.add(stage.sessions(many.joined()))
        #expect(results.count { $0 == .added } == 100)
        #expect(results.suffix(2) == [.leftOut("the user has 100 sessions"), .leftOut("the user has 100 sessions")])
    }

    @Test("Objects belong to their user, with the types of the API")
    func objects() async throws {
        let (stage, _) = try await ParseStage.importing()
        try await stage.add(users: Self.owl)
        try await stage.importer().add(stage.sessions(Self.session)).first.map { #expect($0 == .added) }
        let text = """
            {"_id":"p1","_p_user":"_User$g7y9tkhB7O","_created_at":{"$date":1466000000000},"_acl":{},\
            "at":{"$date":"2016-06-15T14:13:20.000+0000"},"price":{"$numberDouble":"1.99"},"_p_item":"Item$i1"}
            {"_id":"p2","_p_user":"_User$nobody0000","x":1}
            """
        let importer = try await stage.importer()
        let outcomes = try await importer.add(stage.exported(text), to: "Purchase")
        #expect(outcomes == [.added, .leftOut("its user was not imported")])
        #expect(try await importer.add(stage.exported(text), to: "Purchase").first == .present)
        let reply = await stage.ask("GET", "/classes/Purchase", token: Self.token)
        let found = reply.members["results"] as? [[String: Any]]
        #expect(found?.count == 1 && found?.first?["objectId"] as? String == "p1")
        #expect(found?.first?["createdAt"] as? String == "2016-06-15T14:13:20.000Z")
        #expect((found?.first?["at"] as? [String: Any])?["iso"] as? String == "2016-06-15T14:13:20.000Z")
        #expect(found?.first?["price"] as? Double == 1.99)
        #expect((found?.first?["item"] as? [String: Any])?["className"] as? String == "Item")
        // Larger than what the façade keeps for a user. Nothing is written.
        let before = try await stage.entries()
        let large = (0..<5).map {
            #"{"_id":"l\#($0)","_p_user":"_User$g7y9tkhB7O","x":"\#(String(repeating: "x", count: 60 << 10))"}"#
        }
        let results = try await importer.add(stage.exported(large.joined(separator: "\n")), to: "Large")
        #expect(results.count { $0 == .added } == 4)
        guard case .refused(let reason)? = results.last else {
            Issue.record("\(results)")
            return
        }
        #expect(reason.contains("262144"))
        let after = try await stage.entries()
        #expect(after.count == before.count + 1)
        for wrong in [
            #"{"_id":"p"}"#, #"{"_id":"p","_p_a":"_User$a","_p_b":"_User$b"}"#,
            #"{"_id":"p","_p_user":"_User$a","x":"\#(String(repeating: "x", count: 257 << 10))"}"#,
        ] { #expect(throws: InputError.self, "\(wrong.prefix(80))") { try stage.exported(wrong) } }
    }

    @Test("The old export of parse.com has other names and types")
    func parseCom() async throws {
        let (stage, _) = try await ParseStage.importing()
        let text = """
            { "results": [
             {"objectId":"abcdefghij","username":"bat","bcryptPassword":"\(OwlHashes.cheap[1])","theme":"dark",
              "ACL":{"*":{"read":true}},"createdAt":"2013-01-02T03:04:05.678Z","updatedAt":"2027-01-10T03:04:05.678Z",
              "ExpirationDate":[{"__type":"Date","iso":"2026-11-01T00:00:00.000Z"},
               {"__type":"Date","iso":"2027-03-01T00:00:00.000Z"}],
              "sessionToken":"legacytokenlegacytoken12"}
            ] }
            """
        #expect(try await stage.add(users: text) == [.added])
        let user = try await stage.logIn("bat", "owl password 1")
        #expect(user["objectId"] == "abcdefghij" && user["createdAt"] == "2013-01-02T03:04:05.678Z")
        #expect((user.members["ExpirationDate"] as? [String: Any])?["iso"] as? String == "2027-03-01T00:00:00.000Z")
        #expect(await stage.ask("GET", "/users/me", token: "legacytokenlegacytoken12")["username"] == "bat")
        let objects =
            #"{"results":[{"objectId":"p1","user":{"__type":"Pointer","className":"_User","objectId":"abcdefghij"}}]}"#
        #expect(try await stage.importer().add(stage.exported(objects), to: "Purchase") == [.added])
    }

    @Test("An anonymous user logs in with its id, and one without a hash needs a new password")
    func withoutPassword() async throws {
        let (stage, _) = try await ParseStage.importing()
        let id = "0A1B2C3D-0000-4000-8000-00000000000F"
        let text = """
            {"_id":"anon","username":"k3jh4","_auth_data_anonymous":{"id":"\(id)"}}
            {"_id":"other","username":"fox","_auth_data_facebook":{"id":"1"}}
            {"_id":"copy","username":"copy","_auth_data_anonymous":{"id":"\(id.lowercased())"}}
            """
        let outcomes = try await stage.add(users: text)
        #expect(outcomes == [.added, .added, .refused("another account has this anonymous id")])
        let entered = await stage.ask("POST", "/users", #"{"authData":{"anonymous":{"id":"\#(id)"}}}"#)
        #expect(entered.status == 200 && entered["objectId"] == "anon")
        #expect(try await stage.logIn("fox", "anything").status == 404)
        #expect(try await stage.logIn("copy", "anything").status == 404)
        #expect(try await stage.entries().keys.allSatisfy { !$0.contains("copy") })
        // The operator gives it a recovery code.
        let code = await stage.service.ask(.post, "/v1/accounts/other/recovery-code", token: .operatorToken)
        let recovery = await stage.service.ask(
            .post, "/v1/sessions",
            json: [
                "grant_type": "urn:entitlementsync:recovery-code", "username": "fox",
                "recovery_code": code["recovery_code"] ?? "", "new_password": "another password",
            ])
        #expect(code.status == 200 && recovery.status == 200, "\(code.members) \(recovery.members)")
        #expect(try await stage.logIn("fox", "another password")["objectId"] == "other")
    }

    @Test(
        "A user that cannot be imported is refused with a reason",
        arguments: [
            (#"{"username":"a"}"#, "no _id"), (#"{"_id":"a"}"#, "no name"), (#"{"_id":"a","username":7}"#, "no name"),
            (#"{"_id":"a","username":"a","_hashed_password":"x"}"#, "must be bcrypt's"),
            (#"{"_id":"a","username":"a","_hashed_password":7}"#, "must be a text"),
            (
                #"{"_id":"a","username":"a","_hashed_password":"$2a$15$CCCCCCCCCCCCCCCCCCCCC."#
                    + #"E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW"}"#,
                "4 to 14, not 15"
            ),
            (#"{"_id":"a","username":"a","_created_at":{"$date":"yesterday"}}"#, "a date is expected"),
            (#"{"_id":"a","username":"a","_created_at":7}"#, "a date is expected"),
            (#"{"_id":"a","username":"a","x":{"$date":{"$numberLong":"9223372036854775807"}}}"#, "a date is expected"),
            (#"{"_id":"a","username":"a","ExpirationDate":"soon"}"#, "an array of dates"),
            (#"{"_id":"a","username":"a","ExpirationDate":[7]}"#, "an array of dates"),
            (#"{"_id":"a","username":"a","x y":7}"#, "the name of a field"),
        ])
    func refusals(text: String, reason: String) async throws {
        let (stage, _) = try await ParseStage.importing()
        let error = #expect(throws: InputError.self) { try stage.users(text) }
        #expect(error?.description.contains(reason) == true, "\(error?.description ?? "")")
    }

    @Test("The fields of a user have a limit, which is checked before anything is written")
    func size() async throws {
        let (stage, _) = try await ParseStage.importing()
        let text = #"{"_id":"a","username":"a","x":"\#(String(repeating: "x", count: 64 << 10))"}"#
        let error = #expect(throws: InputError.self) { try stage.users(text) }
        #expect(error?.reason.contains("65536 bytes") == true)
    }

    // MARK: Clashes

    @Test("Names, aliases and object ids are unique; a clash refuses one user and leaves nothing of it")
    func clashes() async throws {
        let (stage, _) = try await ParseStage.importing()
        #expect(
            await stage.service.ask(.post, "/v1/accounts", json: AccountOwner.signUpJSON("alice")).status == 201)
        _ = await stage.signUp("bat", "secret password")
        _ = try await stage.importer()
        let before = try await stage.entries()
        func user(_ id: String, _ name: String) -> String { #"{"_id":"\#(id)","username":"\#(name)"}"# + "\n" }
        let taken = "is already the name of another account; names are compared without regard to case"
        let outcomes = try await stage.add(
            users: user("one", "Alice") + user("two", "BAT") + user("alice", "free") + user("three", " space")
                + user("bat", "free"))
        #expect(
            outcomes.prefix(3) == [
                .refused("the username \(taken)"), .refused("the username \(taken)"),
                .refused("the object id \(taken)"),
            ])
        #expect(outcomes.count { if case .refused = $0 { true } else { false } } == 5, "\(outcomes)")
        #expect(try await stage.entries() == before)
        // In one export the first one gets the name. Names and ids are one set.
        let inside = try await stage.add(
            users: user("a1", "owl") + user("a2", "Owl") + user("a3", "A1") + user("OWL", "x") + user("a5", "fox"))
        #expect(inside[0] == .added && inside[4] == .added)
        #expect(inside[1...3].allSatisfy { if case .refused = $0 { true } else { false } }, "\(inside)")
        let names = Set(try await stage.entries().keys.flatMap { $0.split(separator: "/") })
        #expect(names.contains("a5") && !names.contains("a2") && !names.contains("a3"))
    }

    // MARK: Repetition

    @Test("A second import changes nothing, also after names and fields were changed here")
    func repeated() async throws {
        let (stage, _) = try await ParseStage.importing()
        let users = Self.owl + OwlHashes.user(1, hash: OwlHashes.cheap[1])
        #expect(try await stage.add(users: users) == [.added, .added])
        _ = try await stage.importer().add(stage.sessions(Self.session))
        let first = try await stage.entries()
        stage.clock.advance(seconds: 3_600)
        #expect(try await stage.add(users: users) == [.present, .present])
        #expect(try await stage.importer().add(stage.sessions(Self.session)) == [.present])
        #expect(differing(first, try await stage.entries()).isEmpty)
        let body = #"{"username":"eagle","theme":"light"}"#
        #expect(await stage.ask("PUT", "/users/g7y9tkhB7O", body, token: Self.token).status == 200)
        #expect(try await stage.add(users: users) == [.present, .present])
        let user = try await stage.logIn("eagle", "owl password 0")
        #expect(user["theme"] == "light" && user["username"] == "eagle")
        #expect(try await stage.logIn("owl", "owl password 0").status == 404)
    }

    /// The keys whose values differ, except those of the server's clock and keys.
    private func differing(_ one: [String: [UInt8]], _ other: [String: [UInt8]]) -> [String] {
        Set(one.keys).union(other.keys).filter { key in
            one[key] != other[key] && !key.hasPrefix("server/clock") && !key.hasPrefix("server/keys")
        }
    }

    @Test("An import that is interrupted after any write is completed by the next one")
    func interrupted() async throws {
        let anonymous = """
            {"_id":"anon","username":"k3jh4","_auth_data_anonymous":{"id":"0A1B2C3D-0000-4000-8000-00000000000F"},\
            "_session_token":"r:ffffffffffffffffffffffffffffffff","ExpirationDate":{"$date":1806000000000}}
            """
        let (whole, _) = try await ParseStage.importing()
        _ = try await whole.importer()
        for text in [Self.owl, anonymous] { #expect(try await whole.add(users: text) == [.added]) }
        _ = try await whole.importer().add(whole.sessions(Self.session))
        let right = try await whole.entries()
        var (writes, wasWhole) = (0, false)
        while !wasWhole, writes < 100 {
            let (stage, _) = try await ParseStage.importing()
            // The keys of the service itself are there.
            _ = try await stage.importer()
            do {
                let mortal = HookedBackend(stage.store)
                mortal.fail(after: writes)
                let importer = try await stage.importer(into: mortal)
                for text in [Self.owl, anonymous] { _ = try await importer.add(stage.users(text)) }
                _ = try await importer.add(stage.sessions(Self.session))
                wasWhole = true
            } catch let error as BackendError { #expect(error.message == "crashed") }
            for text in [Self.owl, anonymous] { try await stage.add(users: text) }
            _ = try await stage.importer().add(stage.sessions(Self.session))
            let left = differing(right, try await stage.entries())
            #expect(left.isEmpty, "after \(writes) writes: \(left)")
            writes += 1
        }
        #expect(wasWhole && writes > 15, "\(writes)")
    }

    @Test("A user who logs in while an import is interrupted has the name and the fields of the export, and keeps them")
    func earlyLogIn() async throws {
        var (writes, wasWhole, logIns) = (0, false, 0)
        let right = ["username": "owl", "theme": "dark", "objectId": "g7y9tkhB7O"]
        while !wasWhole, writes < 100 {
            let (stage, _) = try await ParseStage.importing()
            _ = try await stage.importer()
            do {
                let mortal = HookedBackend(stage.store)
                mortal.fail(after: writes)
                let importer = try await stage.importer(into: mortal)
                _ = try await importer.add(stage.users(Self.owl))
                wasWhole = true
            } catch let error as BackendError { #expect(error.message == "crashed") }
            for isEarly in [true, false] {
                let reply = try await stage.logIn("g7y9tkhB7O", "owl password 0")
                guard reply.status != 404 else {
                    #expect(isEarly, "after \(writes) writes")
                    try await stage.add(users: Self.owl)
                    continue
                }
                logIns += 1
                #expect(right.allSatisfy { reply[$0.key] == $0.value }, "after \(writes) writes: \(reply.members)")
                try await stage.add(users: Self.owl)
                #expect(try await stage.add(users: Self.owl) == [.present])
            }
            writes += 1
        }
        #expect(wasWhole && logIns > writes + 2, "\(logIns) of \(writes)")
    }

    @Test("The incarnation of an imported account depends on a secret of the store")
    func secret() async throws {
        let stores = [MemoryBackend(), MemoryBackend()]
        var incarnations: [String] = []
        for store in [stores[0], stores[0], stores[1]] {
            let accounts = try await AccountImport(store)
            incarnations.append(try accounts.account("g7y9tkhB7O").incarnation)
        }
        #expect(incarnations[0] == incarnations[1] && incarnations[1] != incarnations[2])
    }

    @Test("An account that was erased does not come back, nor do its sessions and objects")
    func erased() async throws {
        let (stage, _) = try await ParseStage.importing()
        try await stage.add(users: Self.owl)
        _ = try await stage.importer().add(stage.sessions(Self.session))
        let session = await stage.session("owl", "owl password 0")
        let erasure = await stage.service.ask(
            .post, "/v1/accounts/self/erasure", token: session["access_token"], json: ["password": "owl password 0"])
        #expect((200..<300).contains(erasure.status), "\(erasure.members)")
        let importer = try await stage.importer()
        #expect(try await importer.add(stage.users(Self.owl)) == [.leftOut("the account was erased")])
        #expect(try await importer.add(stage.sessions(Self.session)) == [.leftOut("its user was not imported")])
        let object = #"{"_id":"p1","_p_user":"_User$g7y9tkhB7O"}"#
        #expect(
            try await importer.add(stage.exported(object), to: "Purchase") == [.leftOut("its user was not imported")])
        #expect(try await stage.logIn("owl", "owl password 0").status == 404)
        #expect(await stage.ask("GET", "/users/me", token: Self.token).status == 400)
    }

    // MARK: Dates

    @Test(
        "An imported date that a device writes again is an echo, and what it adds to the date is a purchase",
        arguments: ["date", "dates"])
    func echo(shape: String) async throws {
        let (stage, _) = try await ParseStage.importing(shape: shape)
        // Three months apart, the last one about three months ahead.
        let start = Timestamp(milliseconds: stage.clock.now - 90 * 86_400_000)
        let all = [Int64(0), 3, 6, 9].map { "\(start.adding(CalendarDuration(months: $0)))" }
        let dates = all.prefix(3)
        let list = dates.map { #"{"$date":"\#($0)"}"# }.joined(separator: ",")
        let text = Self.owl.replacing(#"{"$date":{"$numberLong":"1805000000000"}}"#, with: "[\(list)]")
        #expect(try await stage.add(users: text, shape: shape) == [.added])
        _ = try await stage.importer(shape: shape).add(stage.sessions(Self.session))
        func write(_ date: String) async -> Int {
            let body = #"{"ExpirationDate":{"__type":"Date","iso":"\#(date)"}}"#
            return await stage.ask("PUT", "/users/g7y9tkhB7O", body, token: Self.token, installation: "new").status
        }
        func end() async throws -> String? {
            let session = await stage.session("owl", "owl password 0")
            let state = await stage.service.ask(.get, "/v1/entitlements", token: session["access_token"])
            return (state.members["subscriptions"] as? [[String: Any]])?.first?["expires"] as? String
        }
        for date in dates { #expect(await write(date) == 200) }
        #expect(try await end() == dates[2])
        #expect(await write(all[3]) == 200)
        #expect(try await end() == all[3])
    }
}
