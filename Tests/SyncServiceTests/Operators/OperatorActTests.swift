import Entitlements
import HTTPTypes
import ServiceTestSupport
import StoreEvidence
import SyncCore
import Testing

@testable import SyncService

@Suite("Acts of operators")
struct OperatorActTests {
    private static let month: [String: String] = ["group": "nights", "for": "P1M"]

    @Test("A grant is given once for its key, its outcome is repeated, and another request with the key is refused")
    func repetition() async throws {
        let acts = try await ActStage()
        let stage = acts.stage
        let first = try await acts.perform(.grant, members: Self.month, key: "k1")
        #expect(first.entry == 1)
        #expect(await stage.rights(of: stage.alice) == ["nights"])
        stage.clock.advance(seconds: 3_600)
        #expect(try await acts.perform(.grant, members: Self.month, key: "k1", at: acts.other) == first)
        #expect(try await acts.entries().count == 1)
        let error = await #expect(throws: RequestError.self) {
            try await acts.perform(.grant, members: ["group": "nights", "for": "P2M"], key: "k1")
        }
        #expect(error?.status.code == 422)
        let second = try await acts.perform(.grant, members: Self.month, key: "k2")
        #expect(second.expires != first.expires)
        #expect(try await stage.serverLedger(of: stage.alice).facts.count { $0.purchase != nil } == 2)
    }

    @Test(
        "A dry run writes nothing, and predicts what then happens",
        arguments: [
            ("group for", .grant, ["group": "nights", "for": "P1M"]),
            ("group until", .grant, ["group": "nights", "until": "2030-01-01"]),
            ("entitlement", .grant, ["entitlement": "owls", "until": "2030-01-01"]),
            ("product", .grant, ["product": "three", "for": "P3M"]),
            ("for good", .grant, ["product": "owl"]),
            ("refund", .refund, Sale("1", at: 0).members), ("transfer", .transfer, ["to": "bob"]),
            ("recovery", .recovery, [:]), ("sessions", .sessions, [:]), ("erasure", .erasure, [:]),
        ] as [(String, OperatorAct.Kind, [String: String])])
    func dryRun(_ name: String, _ kind: OperatorAct.Kind, _ members: [String: String]) async throws {
        let acts = try await ActStage.owned(Sale("1", at: EvidenceStage.start))
        let stage = acts.stage
        let members = kind == .transfer ? members.merging(Sale("1", at: 0).members) { $1 } : members
        let former = try await acts.everything()
        let access = try await acts.access(of: stage.alice)
        var trial = try await acts.perform(kind, members: members, key: nil)
        #expect(try await acts.everything() == former)
        #expect(trial.isDryRun == true && trial.entry == nil && trial.recoveryCode == nil)
        var done = try await acts.perform(kind, members: members, key: "k")
        #expect((done.recoveryCode != nil) == (kind == .recovery))
        #expect(done.entry == 1)
        // A grant's transaction is named after the key.
        (trial.transaction, done.transaction) = (nil, nil)
        (trial.isDryRun, done.entry, done.recoveryCode) = (nil, nil, nil)
        #expect(trial == done)
        let entry = try #require(try await acts.entries().first)
        #expect(entry.act == kind.rawValue && entry.actor == "olga" && entry.reason == "ticket 7", "\(entry)")
        // The owl is bought already.
        #expect((entry.before == entry.after) == (name == "for good"), "\(entry)")
        guard ![.recovery, .sessions].contains(kind) else { return }
        #expect(try JSON(parsing: Array(done.customer.before.utf8))["access"] == access)
        guard kind != .erasure else { return }
        #expect(try await acts.access(of: stage.alice) == JSON(parsing: Array(done.customer.after.utf8))["access"])
        guard let receiver = done.receiver else { return }
        #expect(try await acts.access(of: stage.bob) == JSON(parsing: Array(receiver.after.utf8))["access"])
        #expect(await stage.rights(of: stage.bob) == ["owl"])
    }

    @Test("A grant of time until a date ends then, and one that is covered is refused")
    func until() async throws {
        let acts = try await ActStage()
        for (group, name) in [("nights", "nights"), ("owls", "owls")] {
            let until: [String: String] = ["group": group, "until": "2030-01-01"]
            #expect(try await acts.perform(.grant, members: until, key: name).expires == "2030-01-01T00:00:00.000Z")
            let error = await #expect(throws: RequestError.self) {
                try await acts.perform(.grant, members: until, key: name + "2")
            }
            #expect(error?.status.code == 409)
        }
        #expect(try await acts.entries().count == 2)
        // A refund takes it again.
        let id = try #require(try await acts.perform(.grant, members: ["product": "owl"], key: "k").transaction)
        let gift: [String: String] = ["store": "support", "transaction": id.id]
        try await acts.perform(.refund, members: gift, key: "k2")
        #expect(await acts.stage.rights(of: acts.stage.alice) == ["nights", "owls"])
        try await acts.perform(.reinstatement, members: gift, key: "k3")
        #expect(await acts.stage.rights(of: acts.stage.alice) == ["nights", "owls", "owl"])
    }

    @Test(
        "A transfer moves a reported purchase as well as a verified one, and only that of the customer",
        arguments: [false, true])
    func transfer(isReinstated: Bool) async throws {
        let acts = try await ActStage(.trusted)
        let stage = acts.stage
        let fact = LedgerAccount.purchase("7", at: stage.now)
        #expect(await stage.alice.put([fact]).status == 200)
        let members: [String: String] = ["store": "reported", "transaction": "7", "to": "bob"]
        let error = await #expect(throws: RequestError.self) {
            try await acts.perform(.transfer, "bob", members: members.merging(["to": "alice"]) { $1 }, key: "k")
        }
        #expect(error?.status.code == 404)
        if isReinstated {
            let sale: [String: String] = ["store": "reported", "transaction": "7"]
            try await acts.perform(.refund, members: sale, key: "r1")
            stage.clock.advance(seconds: 1)
            try await acts.perform(.reinstatement, members: sale, key: "r2")
            stage.clock.advance(seconds: 1)
        }
        #expect(try await acts.perform(.transfer, members: members, key: "k").takenFrom == ["alice"])
        #expect(await stage.rights(of: stage.alice) == [])
        #expect(await stage.rights(of: stage.bob) == ["owl"])
    }

    @Test("A refunded purchase is transferred without a warning about its refund")
    func transferOfRefund() async throws {
        let acts = try await ActStage.owned(Sale("1", at: 0))
        try await acts.perform(.refund, members: Sale("1", at: 0).members, key: "k1")
        let outcome = try await acts.perform(
            .transfer, members: Sale("1", at: 0).members.merging(["to": "bob"]) { $1 }, key: "k2")
        #expect(outcome.takenFrom == ["alice"] && outcome.warnings == [])
        let unknown = try await acts.perform(
            .refund, members: ["store": "app-store", "transaction": "99"], key: nil)
        #expect(unknown.warnings.contains { $0.contains("no purchase app-store/production/99") })
    }

    @Test("A recovery code works, is repeated to a repetition, and is not in the store")
    func recovery() async throws {
        let acts = try await ActStage()
        let code = try #require(try await acts.perform(.recovery, key: "k").recoveryCode)
        #expect(try await acts.perform(.recovery, key: "k", at: acts.other).recoveryCode == code)
        for item in try await acts.everything() {
            guard case .found(let entry) = try await acts.stage.store.base.read(item.key).outcome else { continue }
            #expect(!String(decoding: entry.value, as: UTF8.self).contains(code), "\(item.key)")
        }
        #expect(await acts.stage.service.recover("alice", code).status == 200)
        #expect(try await acts.perform(.recovery, key: "k").recoveryCode == code)
        #expect(await acts.stage.service.recover("alice", code, newPassword: "a third horse").status == 400)
    }

    @Test("All sessions end, or one of them, and later ones stay")
    func sessions() async throws {
        let acts = try await ActStage()
        let (stage, service) = (acts.stage, acts.stage.service)
        let token = await AccountOwner(service, "alice").logIn()["access_token"]
        let id = try #require(try await stage.store.keys().last { $0.hasPrefix("server/sessions/alice/") })
        let session = String(try #require(id.split(separator: "/").last))
        try await acts.perform(.sessions, members: ["session": session], key: "one")
        let living = [await service.status(of: token), await service.status(of: stage.alice.token)]
        #expect(living.sorted() == [200, 401])
        try await acts.perform(.sessions, key: "all")
        #expect(await service.status(of: stage.alice.token) == 401)
        let late = await AccountOwner(service, "alice").logIn()["access_token"]
        try await acts.perform(.sessions, key: "all")
        #expect(await service.status(of: late) == 200)
    }

    @Test("A refused act says why, and writes nothing")
    func refusals() async throws {
        let acts = try await ActStage.owned(Sale("1", at: EvidenceStage.start))
        let former = try await acts.everything()
        func refusal(
            _ kind: OperatorAct.Kind = .grant, _ account: String = "alice", _ members: [String: String] = Self.month,
            key: String = "k", reason: String = "ticket 7"
        ) async throws -> String {
            let error = await #expect(throws: RequestError.self) {
                try await acts.perform(kind, account, members: members, key: key, reason: reason)
            }
            return error.map { "\($0.status.code) \($0.detail)" } ?? ""
        }
        let long = String(repeating: "x", count: 1_001)
        for reason in ["", "  ", long, "a\u{7}b", "two\nlines", "a\u{202E}b", "a\u{85}b"] {
            #expect(try await refusal(reason: reason).hasPrefix("400 the member \"reason\" must be"), "\(reason)")
        }
        #expect(try await refusal(key: "").hasPrefix("400 the header Idempotency-Key must be"))
        #expect(try await refusal(key: "a b").hasPrefix("400 the header Idempotency-Key must be"))
        for (members, text) in [
            (["group": "night", "for": "P1M"], "400 the catalogue has no group \"night\"; known: nights, owls"),
            (["product": "cat"], "400 the catalogue has no product \"cat\"; known: month, three, owl"),
            (
                ["entitlement": "x", "for": "P1M"],
                "400 the catalogue has no entitlement \"x\"; known: nights, owl, owls"
            ),
            (["group": "nights"], "400 pass either until or for"),
            (["group": "nights", "for": "P1M", "until": "2030-01-01"], "400 pass either until or for, not both"),
            (["group": "nights", "for": "P0D"], "400 for must be longer than zero and at most 100 years"),
            (["group": "nights", "for": "x"], "400 for: "), (["group": "nights", "until": "x"], "400 until: "),
            (["group": "nights", "until": "2020-01-01"], "400 until: 2020-01-01T00:00:00.000Z is in the past"),
            (["group": "owls", "for": "P1M", "level": "7"], "400 level must be one of 1, the levels of"),
            (["product": "owl", "for": "P1M"], "400 until and for do not apply: \"owl\" does not end"),
            (["product": "three"], "400 pass either until or for: \"three\" is paid time"),
            (["for": "P1M"], "400 pass one of the members entitlement, group and product, not 0"),
            (["group": "nights", "for": "P1M", "colour": "red"], "400 unknown member \"colour\"; known here: "),
        ] as [([String: String], String)] {
            #expect(try await refusal(.grant, "alice", members).hasPrefix(text), "\(members)")
        }
        #expect(try await refusal(.grant, "carol").hasPrefix("404 "))
        #expect(try await refusal(.refund, "bob", Sale("1", at: 0).members).hasPrefix("409 app-store/production/1"))
        #expect(try await refusal(.sessions, "alice", ["session": "x"]).hasPrefix("404 the account \"alice\" has no"))
        #expect(try await acts.everything() == former)
        try await acts.perform(.erasure, "bob", key: "gone")
        #expect(try await refusal(.grant, "bob") == "410 the account \"bob\" was erased")
        #expect(try await acts.perform(.erasure, "bob", key: "gone").entry == 1)
    }

    @Test("A reason with HTML is kept as text")
    func html() async throws {
        let acts = try await ActStage()
        let reason = "<script>alert(1)</script> \u{1F600} \"quoted\""
        try await acts.perform(.grant, members: Self.month, key: "k", reason: reason)
        #expect(try await acts.entries().map(\.reason) == [reason])
    }

    @Test("The outcome of an act is forgotten after 30 days, and its key is free then")
    func retention() async throws {
        let acts = try await ActStage()
        let stage = acts.stage
        try await acts.perform(.grant, members: Self.month, key: "k")
        let sweeper = OperatorActs(stage.service)
        stage.clock.advance(seconds: 30 * 86_400 - 1)
        try await sweeper.sweep(now: stage.now) { Issue.record($0) }
        #expect(try await stage.store.keys().count { $0.hasPrefix("server/acts/") } == 1)
        stage.clock.advance(seconds: 1)
        try await sweeper.sweep(now: stage.now) { Issue.record($0) }
        #expect(try await stage.store.keys().count { $0.hasPrefix("server/acts/") } == 0)
        #expect(try await acts.entries().count == 1)
    }

    @Test("A list with acts verifies, and a changed, missing or reordered entry is named")
    func audit() async throws {
        let acts = try await ActStage()
        for number in 1...4 { try await acts.perform(.grant, members: Self.month, key: "\(number)") }
        let (store, log) = (acts.stage.store, AuditLog(store: acts.stage.store))
        func key(_ number: Int) throws -> EntryKey { try EntryKey("server/audit/00000000000\(number)") }
        func bytes(_ number: Int) async throws -> [UInt8] {
            guard case .found(let entry) = try await store.read(try key(number)).outcome else { return [] }
            return entry.value
        }
        let texts = [try await bytes(1), try await bytes(2), try await bytes(3), try await bytes(4)]
        guard case .intact(4, _) = try await log.verify() else {
            Issue.record("not intact")
            return
        }
        func broken(_ changes: [Int: [UInt8]?]) async throws -> Int? {
            for (number, bytes) in changes {
                _ = try await store.write([WriteRequest(try key(number), value: bytes, if: .any)])
            }
            let result = try await log.verify()
            for number in changes.keys { _ = try await store.write(texts[number - 1], to: try key(number), if: .any) }
            guard case .broken(let number, _) = result else { return nil }
            return number
        }
        let changed = String(decoding: texts[1], as: UTF8.self).replacing("ticket 7", with: "ticket 8")
        #expect(try await broken([2: Array(changed.utf8)]) == 2)
        #expect(try await broken([3: nil]) == 3)
        #expect(try await broken([2: texts[2], 3: texts[1]]) == 2)
        #expect(try await broken([:]) == nil)
    }
}
