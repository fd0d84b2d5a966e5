import EntitlementSync
import Entitlements
import HTTPTypes
import ServiceTestSupport
import SyncCore
import SyncProtocol
import Testing

@testable import SyncService

extension ProjectionStage {
    /// The answer to a question of the operator.
    func ask(_ path: String, _ fields: HTTPFields = [:], token: String = .operatorToken) async -> Reply {
        await service.ask(.get, path, token: token, fields)
    }

    /// The value of a member in each object of an array.
    static func texts(_ member: String, of array: String, in reply: Reply) -> [String] {
        (reply.members[array] as? [[String: Any]] ?? []).map { $0[member] as? String ?? "-" }
    }

    /// The accounts that a search finds, each with the part of it that matched.
    func search(_ query: String) async -> [String] {
        let reply = await ask("/v1/customers?query=\(query)")
        #expect(reply.status == 200, "\(reply.members)")
        return zip(
            Self.texts("account", of: "customers", in: reply), Self.texts("matched", of: "customers", in: reply)
        ).map { "\($0) \($1)" }
    }
}

@Suite("An operator's questions about customers")
struct CustomerRouteTests {
    @Test(
        "A search finds names, aliases and external ids by prefix, and transactions exactly",
        arguments: DatabaseKind.allCases)
    func search(kind: DatabaseKind) async throws {
        let stage = try await ProjectionStage(kind)
        for name in ["ann", "anna", "Annika", "bob", "zoë"] { try await stage.signUp(name) }
        try await stage.buy("month", "m1", as: "bob")
        try await stage.buy("month", "ann", as: "zoë")
        let bob = try await stage.account("bob")
        #expect(try await stage.service.accounts.aliases.reserve("robert@example.com", for: bob))
        try await ExternalIDs(records: stage.service.accounts.records).attach(
            "user-7", to: try await stage.account("anna"))
        try await stage.project()
        #expect(await stage.search("ann") == ["zoë transaction", "ann name", "anna name", "Annika alias"])
        #expect(await stage.search("ANNI") == ["Annika alias"])
        #expect(await stage.search("Robert@") == ["bob alias"])
        #expect(await stage.search("user-") == ["anna externalId"])
        #expect(await stage.search("m1") == ["bob transaction"])
        #expect(await stage.search("m") == [])
        #expect(await stage.search("zo%C3%AB") == ["zoë name"])
        #expect(await stage.search("100%25") == [])
        #expect(await stage.search("") == ["Annika name", "ann name", "anna name", "bob name", "zoë name"])
        let found = await stage.ask("/v1/customers?query=user-7").members["customers"] as? [[String: Any]]
        #expect(found?.first?["externalId"] as? String == "user-7" && found?.first?["sessions"] as? Int == 1)
    }

    @Test("The pages of a search have each customer once, whatever their size", arguments: [1, 2, 3, 5])
    func pages(size: Int) async throws {
        let stage = try await ProjectionStage(.sqlite)
        for name in ["ann", "anna", "Annika", "bob", "zoë"] { try await stage.signUp(name) }
        for (index, name) in ["bob", "zoë"].enumerated() {
            try await ExternalIDs(records: stage.service.accounts.records).attach(
                "ann-\(index)", to: try await stage.account(name))
        }
        try await stage.project()
        var (all, after): ([String], String?) = ([], nil)
        repeat {
            let start = after.map { "&after=" + WireQuery.encoded($0) } ?? ""
            let reply = await stage.ask("/v1/customers?query=ann&limit=\(size)\(start)")
            try #require(reply.status == 200, "\(reply.members)")
            all += ProjectionStage.texts("account", of: "customers", in: reply)
            after = reply["next"]
        } while after != nil
        #expect(all == ["ann", "anna", "Annika", "bob", "zoë"])
        for wrong in ["x", "name", "name:zzz", "owner:a", ":"] {
            #expect(await stage.ask("/v1/customers?query=ann&after=\(wrong)").status == 400, "\(wrong)")
        }
    }

    @Test("A customer is named by name, alias or external id, and an erased or unknown one is refused")
    func names() async throws {
        let stage = try await ProjectionStage(.sqlite)
        for name in ["Ann", "bob"] { try await stage.signUp(name) }
        let ann = try await stage.account("Ann")
        try await ExternalIDs(records: stage.service.accounts.records).attach("user/7", to: ann)
        try await stage.buy("month", "m1", as: "Ann")
        try await stage.project()
        let parts = ["entitlements", "timeline", "facts", "conflicts", "explain/nights", "history"]
        for part in [""] + parts.map({ "/\($0)" }) {
            let bodies = [
                await stage.ask("/v1/customers/Ann\(part)"), await stage.ask("/v1/customers/ann\(part)"),
                await stage.ask("/v1/customers/user%2F7\(part)"),
            ]
            #expect(bodies.allSatisfy { $0.status == 200 && $0.body == bodies[0].body }, "\(part)")
            #expect(bodies[0]["account"] == "Ann", "\(part)")
            let unknown = await stage.ask("/v1/customers/nobody\(part)")
            #expect(unknown.status == 404 && unknown.problem?.detail.contains("\"nobody\"") == true, "\(part)")
        }
        #expect(await stage.ask("/v1/customers/Ann/explain/none").status == 404)
        try await stage.erase("bob")
        for part in parts { #expect(await stage.ask("/v1/customers/bob/\(part)").status == 410, "\(part)") }
    }

    @Test("Unknown parameters, bad dates, positions and limits are refused with the value")
    func badInput() async throws {
        let stage = try await ProjectionStage(.sqlite)
        try await stage.signUp("ann")
        try await stage.project()
        let cases = [
            ("?atx=1", "unknown query parameter \"atx\""), ("/entitlements?at=yesterday", "at: "),
            ("/entitlements?environment=", "environment: "), ("/timeline?at=2026-13-01", "at: "),
            ("/facts?after=zz", "not \"zz\""), ("/facts?after=account.0", "not \"account.0\""),
            ("/facts?limit=0", "limit must be"), ("/facts?at=2026-01-01", "unknown query parameter \"at\""),
            ("/history?after=1.2", "not \"1.2\""), ("/explain/nights?at=1", "at: "), ("/conflicts?x=1", "\"x\""),
        ]
        for (path, text) in cases {
            let reply = await stage.ask("/v1/customers/ann\(path)")
            #expect(reply.status == 400 && reply.problem?.detail.contains(text) == true, "\(path) \(reply.members)")
        }
        #expect(await stage.ask("/v1/customers?name=x").status == 400)
        #expect(await stage.ask("/v1/statistics?environment=%00").status == 400)
        #expect(await stage.ask("/v1/customers/%FF/facts").status == 400)
    }

    @Test("An operator reads what the account itself reads, at any instant, and what its own replay gives")
    func replay() async throws {
        let stage = try await ProjectionStage(.sqlite)
        try await stage.signUp("ann")
        try await stage.buy("month", "m1", as: "ann")
        stage.clock.advance(seconds: 3 * ProjectionStage.day)
        try await stage.buy("month", "m2", as: "ann")
        try await stage.buy("pack", "p1", as: "ann")
        try await stage.report("ann", ["kind": "refunded", "transaction": "m1"])
        let token = try await stage.logIn("ann")
        for at in ["", "?at=2027-01-16", "?at=2030-01-01T00:00:00Z", "?environment=sandbox"] {
            let own = await stage.service.ask(.get, "/v1/entitlements\(at)", token: token)
            #expect(own.status == 200)
            #expect(await stage.ask("/v1/customers/ann/entitlements\(at)").body == own.body, "\(at)")
        }
        let keys = try LedgerKeys(try await stage.account("ann"))
        func ledger(_ key: EntryKey) async throws -> Ledger {
            try await stage.store.read(key).outcome.entry.map { try LedgerRules.stored($0, key) } ?? Ledger()
        }
        let ledgers = [("account", try await ledger(keys.ledger)), ("server", try await ledger(keys.serverLedger))]
        let replay = Replay(
            Facts(account: ledgers[0].1, server: ledgers[1].1), catalog: try Catalog(json: ProjectionStage.catalogue),
            environment: .production)
        let now = Timestamp(milliseconds: stage.clock.now)
        func json(_ path: String) async throws -> JSON {
            try JSON(parsing: await stage.ask("/v1/customers/ann\(path)").body)
        }
        let snapshot = replay.snapshot(at: now)
        let groups = snapshot.subscriptions.map { snapshot.json(of: $0, replay.timelines[$0.group] ?? Timeline()) }
        #expect(groups.count == 1 && groups[0]["periods"]?.elements?.count == 2)
        #expect(try await json("/timeline")["groups"] == .array(groups))
        #expect(try await json("/conflicts")["conflicts"] == .array(replay.conflicts(at: now).map(\.json)))
        let explanation = try #require(replay.explanation(of: EntitlementID("nights"), at: now))
        let rules = replay.catalog.policy.rules
        #expect(
            try await json("/explain/nights")
                == .object([("account", .string("ann"))] + explanation.members(rules: rules, isAccelerated: false)))
        #expect(try await json("")["entitlements"] == snapshot.json(account: nil))
        let facts = ledgers.flatMap { name, ledger in ledger.records.map { Fact($0).json(ledger: name) } }
        #expect(facts.count > 3)
        for size in [1, 2, 100] {
            var (paged, after): ([JSON], String?) = ([], nil)
            repeat {
                let page = try await json("/facts?limit=\(size)" + (after.map { "&after=\($0)" } ?? ""))
                paged += page["facts"]?.elements ?? []
                after = page["next"]?.string
            } while after != nil
            #expect(paged == facts)
        }
    }

    @Test(
        "The history has events and acts of one account, the latest first, in pages", arguments: DatabaseKind.allCases)
    func history(kind: DatabaseKind) async throws {
        let stage = try await ProjectionStage(kind)
        try await stage.project()
        for name in ["ann", "bob"] { try await stage.signUp(name) }
        try await stage.buy("owl", "o1", as: "ann")
        try await stage.buy("owl", "o2", as: "bob")
        try await stage.project()
        stage.clock.advance(seconds: 60)
        let acts = SupportActs(
            store: stage.store, catalog: try Catalog(json: ProjectionStage.catalogue), host: stage.clock.host)
        _ = try await acts.credit(
            CalendarDuration(days: 7), to: GroupID("nights"), from: SourceID("sorry"), transaction: TransactionID("g1"),
            SupportActs.Order(
                account: "ann", act: "record", summary: "a week", operatorName: "eve", reason: "an outage"))
        try await stage.project()
        var (all, after): ([String], String?) = ([], nil)
        repeat {
            let reply = await stage.ask("/v1/customers/ann/history?limit=2" + (after.map { "&after=\($0)" } ?? ""))
            let rows = reply.members["history"] as? [[String: Any]] ?? []
            all += rows.map { ($0["event"] ?? $0["act"]) as? String ?? "?" }
            after = reply["next"]
        } while after != nil
        #expect(
            all == [
                "record", "access.granted", "subscription.started", "purchase.recorded", "access.granted",
                "purchase.recorded", "account.created",
            ])
        // The next account of the name does not see the events of the erased one.
        try await stage.erase("ann")
        try await stage.signUp("ann")
        try await stage.project()
        let reply = await stage.ask("/v1/customers/ann/history")
        let rows = reply.members["history"] as? [[String: Any]] ?? []
        #expect(rows.compactMap { $0["event"] as? String } == ["account.created"])
    }

    @Test("Statistics count by product and by day, and state their time", arguments: DatabaseKind.allCases)
    func statistics(kind: DatabaseKind) async throws {
        let stage = try await ProjectionStage(kind)
        for name in ["ann", "bob", "cid"] { try await stage.signUp(name) }
        try await stage.buy("month", "m1", as: "ann")
        try await stage.buy("month", "m2", as: "bob")
        try await stage.buy("owl", "o1", as: "cid")
        stage.clock.advance(seconds: ProjectionStage.day)
        try await stage.report("bob", ["kind": "refunded", "transaction": "m2"])
        stage.clock.advance(seconds: 24 * ProjectionStage.day)
        try await stage.project()
        let json = try JSON(parsing: await stage.ask("/v1/statistics").body)
        #expect(json["projected"]?.string == "\(Timestamp(milliseconds: stage.clock.now))")
        func counts(_ active: Int64, _ expiring: Int64, _ lapsed: Int64, _ purchased: Int64, _ refunded: Int64) -> JSON
        {
            .object([
                ("active", .number(active)), ("expiring", .number(expiring)), ("lapsed", .number(lapsed)),
                ("purchased", .number(purchased)), ("refunded", .number(refunded)),
            ])
        }
        #expect(json["total"] == counts(2, 1, 1, 3, 1), "\(json.line)")
        let products = (json["products"]?.elements ?? []).compactMap { $0["product"]?.string }
        #expect(products == ["month", "owl"])
        let days = json["days"]?.elements ?? []
        #expect(days.first?["day"]?.string == "2027-01-15" && days.first?["purchased"] == .number(3))
        #expect(days.last?["day"]?.string == "2027-02-14" && days.last?["expiring"] == .number(1))
        let sandbox = try JSON(parsing: await stage.ask("/v1/statistics?environment=sandbox").body)
        #expect(sandbox["total"] == counts(0, 0, 0, 0, 0))
    }

    @Test("Without a projection, search, statistics, history and events say what is missing; one customer is answered")
    func withoutProjection() async throws {
        let service = try await EntitlementService.open(
            MemoryBackend(),
            configure: {
                $0.catalog = try? Catalog(json: ProjectionStage.catalogue)
            })
        _ = await service.ask(.post, "/v1/accounts", json: ["name": "ann", "password": "correct horse battery"])
        for path in ["customers", "statistics", "events", "customers/ann/history"] {
            let reply = await service.ask(.get, "/v1/\(path)", token: .operatorToken)
            #expect(reply.status == 409 && reply.problem?.detail.contains("--projection") == true, "\(path)")
        }
        for part in ["", "/entitlements", "/timeline", "/facts", "/conflicts", "/explain/nights"] {
            #expect(await service.ask(.get, "/v1/customers/ann\(part)", token: .operatorToken).status == 200, "\(part)")
        }
    }
}
