import HTTPTypes
import ServiceTestSupport
import SyncCore
import SyncProtocol
import SyncService
import Synchronization
import Testing

@Suite("Stores of versions that compared names exactly")
struct EarlierNameTests {
    private let store = MemoryBackend()

    /// Adds an account as an earlier version created it, without a claim of its name.
    ///
    /// - Parameter age: The age of the account in seconds.
    private func add(_ name: String, password: String = "correct horse", age: Int64 = 0) async throws {
        let other = MemoryBackend()
        let service = try await EntitlementService.open(other, clock: TestClock(1_800_000_000_000 - age * 1_000))
        #expect(await AccountOwner(service, name, password: password).signUp().status == 201)
        let key = "server/accounts/\(name)"
        try await write(try #require(try await text(key, in: other)), to: key)
    }

    private func text(_ key: String, in store: MemoryBackend) async throws -> String? {
        guard case .found(let entry) = try await store.read(try EntryKey(key)).outcome else { return nil }
        return String(decoding: entry.value, as: UTF8.self)
    }

    private func write(_ text: String, to key: String) async throws {
        _ = try await store.write(Array(text.utf8), to: try EntryKey(key), if: .any)
    }

    private func claim(_ name: String) async throws -> String? { try await text("server/names/\(name)", in: store) }

    @Test("Accounts whose names differ by case stay, each logs in, and no further spelling creates an account")
    func twins() async throws {
        try await add("Owl@Example.com", password: "first password", age: 10)
        try await add("owl@example.com", password: "second password", age: 20)
        try await add("oWl@example.com", password: "third password", age: 15)
        let service = try await EntitlementService.open(store)
        for (name, password) in [
            ("Owl@Example.com", "first password"), ("owl@example.com", "second password"),
            ("oWl@example.com", "third password"),
        ] {
            let session = await AccountOwner(service, name, password: password).logIn()
            #expect(session.status == 200 && session["account"] == name)
            #expect(await AccountOwner(service, name, password: password).signUp()["account"] == name)
        }
        // Any other spelling means the oldest account.
        for name in ["OWL@example.com", "ｏｗｌ@example.com"] {
            #expect(await AccountOwner(service, name).signUp().status == 409)
            let session = await AccountOwner(service, name, password: "second password").logIn()
            #expect(session.status == 200 && session["account"] == "owl@example.com")
        }
        // The name of an erased one stays with the others.
        let token = await AccountOwner(service, "oWl@example.com", password: "third password").logIn()["access_token"]
        let erased = await AccountOwner(service, "oWl@example.com", password: "third password").erase(token: token)
        #expect(erased.status == 204)
        #expect(await AccountOwner(service, "oWl@example.com").signUp().status == 409)
        #expect(try await claim("owl@example.com")?.contains("\"owl@example.com\"") == true)
    }

    @Test("An alias of an earlier version leads to its account, and is taken in every spelling")
    func aliases() async throws {
        for (id, alias, password) in [
            ("x1", "straße", "first password"), ("x2", "strasse", "second password"), ("x3", "ﬁsch", "third password"),
        ] {
            try await add(id, password: password)
            let record = try #require(try await text("server/accounts/\(id)", in: store))
            let incarnation = try #require(record.split(separator: "\"incarnation\":\"").last?.prefix { $0 != "\"" })
            try await write("{\"incarnation\":\"\(incarnation)\",\"name\":\"\(id)\"}", to: "server/names/\(alias)")
        }
        let service = try await EntitlementService.open(store)
        for (name, password, account) in [
            ("Straße", "first password", "x1"), ("STRASSE", "second password", "x2"), ("Fisch", "third password", "x3"),
            ("ﬁsch", "third password", "x3"),
        ] {
            #expect(await AccountOwner(service, name, password: password).logIn()["account"] == account, "\(name)")
            #expect(await AccountOwner(service, name).signUp().status == 409, "\(name)")
        }
    }

    @Test("The names of all accounts are claimed once, and again if that was interrupted", arguments: [2, 500, 1_203])
    func sweep(_ count: Int) async throws {
        try await add("bat0")
        let record = try #require(try await text("server/accounts/bat0", in: store))
        for number in 1..<count {
            try await write(record.replacing("bat0", with: "Bat\(number)"), to: "server/accounts/Bat\(number)")
        }
        // The names of a transaction have the same prefix, and are no names of accounts.
        let others = ["server/accounts/damaged", "server/names/bat0", "server/names/app-store/production/7"]
        for key in others { try await write("no record", to: key) }
        let line = StoreLine(store)
        let writes = Counter()
        line.beforeWriting { key in
            if key.text.hasPrefix("server/names/"), writes.next() == count { line.cut(true) }
        }
        await #expect(throws: BackendError.self) { try await EntitlementService.open(line) }
        let damaged = Mutex<Set<String>>([])
        let service = try await EntitlementService.open(
            store,
            onError: { error in
                if error.kind == .damaged { damaged.withLock { _ = $0.insert(error.key?.text ?? "") } }
            })
        #expect(damaged.withLock { $0 } == ["server/accounts/damaged", "server/names/bat0"])
        for number in 1..<count { #expect(try await claim("bat\(number)") != nil) }
        #expect(await AccountOwner(service, "BAT\(count - 1)").logIn()["account"] == "Bat\(count - 1)")
        // The next server does not repeat it.
        _ = try await store.delete(try EntryKey("server/names/bat1"), if: .any)
        _ = try await EntitlementService.open(store)
        #expect(try await claim("bat1") == nil)
    }

    @Test("After an interruption the next start continues: it visits no batch again that was finished")
    func continuation() async throws {
        try await add("Bat1000")
        let record = try #require(try await text("server/accounts/Bat1000", in: store))
        for number in 1001...2200 {
            try await write(record.replacing("Bat1000", with: "Bat\(number)"), to: "server/accounts/Bat\(number)")
        }
        let line = StoreLine(store)
        let writes = Counter()
        line.beforeWriting { key in
            if key.text.hasPrefix("server/names/"), writes.next() == 1_100 { line.cut(true) }
        }
        await #expect(throws: BackendError.self) { try await EntitlementService.open(line) }
        let second = StoreLine(store)
        let (accounts, claims) = (Counter(), Counter())
        second.beforeReading { key in
            if key.text.hasPrefix("server/accounts/") { _ = accounts.next() }
            if key.text.hasPrefix("server/names/") { _ = claims.next() }
        }
        _ = try await EntitlementService.open(second)
        // The third batch has 201 accounts, each of which is read once. Claims of their own are not looked up again.
        #expect(accounts.next() == 201 + 1)
        #expect(claims.next() == 0 + 1)
        for number in [1000, 1999, 2000, 2098, 2099, 2100, 2200] {
            #expect(try await claim("bat\(number)")?.contains("\"Bat\(number)\"") == true, "\(number)")
        }
    }

    @Test("A server that has claimed names for minutes is ready")
    func longStart() async throws {
        try await add("Owl")
        let (line, clock) = (StoreLine(store), TestClock(1_800_000_000_000))
        line.beforeWriting { if $0.text.hasPrefix("server/names/") { clock.advance(seconds: 120) } }
        let service = try await EntitlementService(
            line, configuration: ServiceConfiguration(name: "https://sync.example.com"),
            passwords: PlainPasswords(), host: clock.host, onError: { _ in })
        #expect(try await claim("owl") != nil)
        #expect(service.feedAge < .seconds(10))
    }

    @Test("An operator's repeated erasure of a spelling does not reach the account of another one")
    func repeatedErasure() async throws {
        try await add("Owl", password: "first password", age: 20)
        try await add("owl", password: "second password", age: 10)
        let service = try await EntitlementService.open(store)
        #expect(await service.ask(.post, "/v1/accounts/owl/erasure", token: .operatorToken).status == 204)
        for path in ["erasure", "recovery-code"] {
            #expect(await service.ask(.post, "/v1/accounts/owl/\(path)", token: .operatorToken).status == 404)
        }
        #expect(await AccountOwner(service, "Owl", password: "first password").logIn().status == 200)
        // Of several spellings the operator names one exactly.
        for path in ["erasure", "recovery-code"] {
            let reply = await service.ask(.post, "/v1/accounts/OWL/\(path)", token: .operatorToken)
            #expect(reply.status == 404)
            #expect(
                reply.problem?.detail
                    == "there is no account of this exact name; use the exact one of these instead: Owl, owl")
        }
        let code = await service.ask(.post, "/v1/accounts/Owl/recovery-code", token: .operatorToken)
        #expect(code.status == 200 && code["account"] == "Owl")
    }

    @Test("When the oldest account of a folded name is erased, the name passes to the next one")
    func succession() async throws {
        try await add("Owl", password: "first password", age: 30)
        try await add("oWl", password: "second password", age: 10)
        try await add("owl", password: "third password", age: 20)
        let service = try await EntitlementService.open(store)
        let passwords = ["Owl": "first password", "oWl": "second password", "owl": "third password"]
        for (name, heir) in [("Owl", "owl"), ("owl", "oWl")] {
            #expect(await service.ask(.post, "/v1/accounts/\(name)/erasure", token: .operatorToken).status == 204)
            #expect(await AccountOwner(service, name, password: passwords[name] ?? "").logIn().status == 400)
            #expect(await AccountOwner(service, "OWL").signUp().status == 409, "\(name)")
            for spelling in [heir, "OWL"] {
                let session = await AccountOwner(service, spelling, password: passwords[heir] ?? "").logIn()
                #expect(session["account"] == heir, "\(spelling)")
            }
        }
        #expect(await service.ask(.post, "/v1/accounts/oWl/erasure", token: .operatorToken).status == 204)
        #expect(try await claim("owl") == nil)
        #expect(await AccountOwner(service, "OWL").signUp().status == 201)
    }

    @Test("A sign-up during the erasure of the oldest account does not get its folded name")
    func signUpDuringErasure() async throws {
        try await add("Owl", age: 20)
        try await add("owl", password: "second password", age: 10)
        let service = try await EntitlementService.open(store)
        // The erasure has begun, and the claim is still that of the erased account.
        let record = try #require(try await text("server/accounts/Owl", in: store))
        let incarnation = try #require(record.split(separator: "\"incarnation\":\"").last?.prefix { $0 != "\"" })
        try await write(
            record.replacing("\"erased\":[]", with: "\"erased\":[\"\(incarnation)\"]"), to: "server/accounts/Owl")
        #expect(await AccountOwner(service, "OWL").signUp().status == 409)
        #expect(await AccountOwner(service, "OWL", password: "second password").logIn()["account"] == "owl")
    }

    @Test("A log-in claims the name of an account that a server of an earlier version has created since")
    func rollingUpgrade() async throws {
        let service = try await EntitlementService.open(store)
        try await add("Owl", age: 10)
        #expect(await AccountOwner(service, "owl").logIn().status == 400)
        #expect(await AccountOwner(service, "Owl").logIn().status == 200)
        #expect(await AccountOwner(service, "owl").logIn()["account"] == "Owl")
        #expect(await AccountOwner(service, "OWL", password: "another horse").signUp().status == 409)
        // The older account gets the name even if another one was created before its log-in.
        #expect(await AccountOwner(service, "bat", password: "another horse").signUp().status == 201)
        try await add("Bat", age: 10)
        #expect(await AccountOwner(service, "BAT", password: "another horse").logIn()["account"] == "bat")
        #expect(await AccountOwner(service, "Bat").logIn()["account"] == "Bat")
        #expect(await AccountOwner(service, "BAT").logIn()["account"] == "Bat")
        #expect(await AccountOwner(service, "bat", password: "another horse").logIn()["account"] == "bat")
    }

    @Test("A name that folds to a very long text keeps its exact spelling")
    func longFold() async throws {
        // Each of these characters folds to 33 bytes.
        let name = String(repeating: "\u{FDFA}", count: 80)
        try await add("owl")
        let record = try #require(try await text("server/accounts/owl", in: store))
        try await write(record.replacing("\"owl\"", with: "\"\(name)\""), to: "server/accounts/\(name)")
        let service = try await EntitlementService.open(store)
        #expect(await AccountOwner(service, name).logIn()["account"] == name)
        #expect(await AccountOwner(service, name).signUp().status == 200)
    }
}
