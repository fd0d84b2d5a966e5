import Entitlements
import Foundation
import HTTPTypes
import ServiceTestSupport
import SyncCore
import SyncProtocol
import Testing

@testable import SyncService

@Suite("The routes of operators' acts")
struct ActRouteTests {
    private let store = MemoryBackend()
    private let service: EntitlementService
    private let token: String

    init() async throws {
        let clock = TestClock(1_800_000_000_000)
        service = try await .open(
            store, clock: clock, configure: { $0.catalog = try? Catalog(json: Array(EvidenceStage.catalog.utf8)) })
        #expect(await AccountOwner(service, "alice").signUp().status == 201)
        #expect(await AccountOwner(service, "bob").signUp().status == 201)
        token = try await OperatorTokens(store, host: clock.host).create("helpdesk", scope: .support, expires: nil).text
    }

    private func ask(
        _ path: String, by method: HTTPRequest.Method = .post, key: String? = "k", _ json: [String: any Sendable]
    ) async throws -> Reply {
        var fields: HTTPFields = [.contentType: "application/json"]
        if let key { fields[try #require(HTTPField.Name("Idempotency-Key"))] = key }
        let body = Array(try JSONSerialization.data(withJSONObject: json))
        return await service.ask(method, "/v1/customers/" + path, token: token, fields, body: body)
    }

    @Test("An act answers with the access before and after, and the audit list has the name of the token")
    func grant() async throws {
        let grant: [String: any Sendable] = ["reason": "ticket 7", "entitlement": "nights", "for": "P1M"]
        let trial = try await ask("alice/grants?dry-run=true", key: nil, grant)
        #expect(trial.status == 200 && trial.members["dryRun"] as? Bool == true, "\(trial)")
        #expect(trial.members["entry"] is NSNull)
        let done = try await ask("alice/grants", grant)
        #expect(done.status == 200 && done.members["entry"] as? Int == 2, "\(done)")
        func access(_ reply: Reply, _ side: String) -> Bool? {
            let state = reply.members[side] as? [String: [String: [String: Any]]]
            return state?["access"]?["nights"]?["granted"] as? Bool
        }
        for reply in [trial, done] { #expect([access(reply, "before"), access(reply, "after")] == [false, true]) }
        #expect(try await ask("alice/grants", grant).body == done.body)
        let entry = try #require(try await AuditLog(store: store).entries(after: 1).first)
        #expect(entry.actor == "helpdesk" && entry.reason == "ticket 7")
        #expect(entry.before?.contains(#""granted":false"#) == true)
        #expect(entry.after?.contains(#""granted":true"#) == true)
        let id = (done.members["transaction"] as? [String: String])?["id"] ?? ""
        let refund = try await ask(
            "alice/refunds", key: "k2", ["reason": "ticket 8", "store": "support", "transaction": id])
        #expect(access(refund, "after") == false, "\(refund)")
        let reinstated = try await ask(
            "alice/refunds", key: "k3",
            ["reason": "ticket 8", "store": "support", "transaction": id, "reinstate": true])
        #expect(reinstated["act"] == "reinstatement" && access(reinstated, "after") == true)
        let moved = try await ask(
            "alice/transfers", key: "k4", ["reason": "r", "store": "support", "transaction": id, "to": "bob"])
        #expect((moved.members["to"] as? [String: Any])?["account"] as? String == "bob", "\(moved)")
        #expect(try await AuditLog(store: store).entries(after: 1).map(\.act).sorted().first == "grant")
    }

    @Test("Requests without a reason or a key, with a used key or a wrong body are refused")
    func refusals() async throws {
        let grant: [String: any Sendable] = ["reason": "r", "group": "nights", "for": "P1M"]
        for (path, method) in [
            ("grants", .post), ("refunds", .post), ("transfers", .post), ("recovery", .post), ("erasure", .post),
            ("sessions", .delete),
        ] as [(String, HTTPRequest.Method)] {
            let silent = try await ask("alice/" + path, by: method, [:])
            #expect(
                silent.status == 400 && silent.problem?.detail.contains("\"reason\" is required") == true, "\(path)")
            let unkeyed = try await ask("alice/" + path, by: method, key: nil, ["reason": "r"])
            #expect(unkeyed.status == 400 && unkeyed.problem?.detail.contains("Idempotency-Key") == true, "\(path)")
        }
        #expect(try await ask("alice/grants", grant).status == 200)
        #expect(try await ask("bob/grants", grant).status == 422)
        #expect(try await ask("alice/grants", grant.merging(["reason": "s"]) { $1 }).status == 422)
        #expect(try await ask("alice/grants", key: "n", grant.merging(["for": 1]) { $1 }).status == 400)
        #expect(try await ask("carol/grants", key: "n", grant).status == 404)
        #expect(try await ask("alice/grants?dry-run=yes", key: "n", grant).status == 400)
        #expect(try await ask("alice/grants?dry_run=true", key: "n", grant).status == 400)
        // The first entry is that of the token.
        #expect(try await AuditLog(store: store).entries().count == 2)
    }

    @Test("Sessions, recovery and erasure")
    func accounts() async throws {
        let session = await AccountOwner(service, "alice").logIn()["access_token"]
        let ended = try await ask("alice/sessions", by: .delete, ["reason": "lost phone"])
        #expect((ended.members["before"] as? [String: Int])?["sessions"] == 2, "\(ended)")
        #expect(await service.status(of: session) == 401)
        let code = try await ask("alice/recovery", key: "r", ["reason": "lost codes"])["recovery_code"]
        #expect(await service.recover("alice", code).status == 200)
        let erased = try await ask("alice/erasure", key: "e", ["reason": "asked for by letter"])
        #expect(erased.status == 200, "\(erased)")
        #expect(try await ask("alice/recovery", key: "r2", ["reason": "r"]).status == 410)
        #expect(try await ask("alice/erasure", key: "e", ["reason": "asked for by letter"]).body == erased.body)
    }

    @Test("The ledgers of a customer are those that the store has")
    func ledgers() async throws {
        _ = try await ask("alice/grants", ["reason": "r", "group": "nights", "for": "P1M"])
        let reply = await service.ask(.get, "/v1/customers/alice/ledgers", token: token)
        #expect(reply["account"] == "alice" && reply["policy"] == "trusted" && reply.members["ledger"] is NSNull)
        let bytes = try #require(Data(base64Encoded: reply["serverLedger"] ?? ""))
        #expect(try LedgerDocument(decoding: Array(bytes)).ledger.records.compactMap(\.purchase).count == 1)
    }
}
