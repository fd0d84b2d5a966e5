import EntitlementSync
import Entitlements
import Foundation
import HTTPTypes
import ServiceTestSupport
import SyncCore
import Testing

@testable import SyncService

@Suite("Tokens, audit list and export")
struct EvidenceRecordTests {
    private let stage: EvidenceStage

    init() async throws { stage = try await EvidenceStage(.verified) }

    private func register(_ token: String, as account: LedgerAccount) async -> Int {
        await stage.service.ask(.post, "/v1/accounts/self/token", token: account.token, json: ["token": token]).status
    }

    private func uuid(_ number: Int) -> String {
        "00000000-0000-4000-8000-" + String(repeating: "0", count: 10) + (number < 10 ? "0" : "") + "\(number)"
    }

    @Test("A token of another account is refused without its name, and is free once that account is erased")
    func takenToken() async throws {
        #expect(await register(uuid(1), as: stage.alice) == 204)
        #expect(await register(uuid(1), as: stage.alice) == 204)
        let refused = await stage.service.ask(
            .post, "/v1/accounts/self/token", token: stage.bob.token, json: ["token": uuid(1)])
        #expect(refused.status == 409)
        #expect(!String(decoding: refused.body, as: UTF8.self).contains("alice"))
        #expect(await AccountOwner(stage.service, "alice").erase(token: stage.alice.token).status == 204)
        #expect(await register(uuid(1), as: stage.bob) == 204)
    }

    @Test("An account has at most eight tokens, and the issued one always has a place")
    func tokenCount() async throws {
        for number in 1...7 { #expect(await register(uuid(number), as: stage.alice) == 204) }
        #expect(await register(uuid(8), as: stage.alice) == 409)
        let token = try #require(await stage.token(of: stage.alice))
        #expect(try await stage.service.recorder.tokens.holder(of: token)?.name == "alice")
    }

    @Test(
        "Texts that are no UUID are no tokens",
        arguments: ["", "x", "00000000-0000-4000-8000-00000000000g", "../../keys"])
    func malformedToken(text: String) async throws {
        #expect(await register(text, as: stage.alice) == 400)
        #expect(try await stage.service.recorder.tokens.holder(of: text) == nil)
    }

    private var log: AuditLog { AuditLog(store: stage.store) }

    private func entry(_ number: Int) -> AuditLog.Entry {
        AuditLog.Entry(date: "2027-01-15T08:00:00Z", act: "record", account: "a\(number)", actor: "support")
    }

    @Test("The audit list numbers its entries without gaps, also for concurrent writers")
    func auditOrder() async throws {
        #expect(try await log.verify() == .intact(count: 0, digest: String(repeating: "0", count: 64)))
        let log = log
        let entry = entry(0)
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<20 { group.addTask { try await log.append(entry) } }
            try await group.waitForAll()
        }
        #expect(try await log.entries().map(\.number) == Array(1...20))
        #expect(try await log.entries(after: 15, limit: 2).map(\.number) == [16, 17])
        guard case .intact(20, _) = try await log.verify() else {
            Issue.record("the list is broken")
            return
        }
    }

    @Test("A changed, removed or inserted entry is found", arguments: ["changed", "removed", "swapped", "unreadable"])
    func auditForgery(kind: String) async throws {
        for number in 1...5 { try await log.append(entry(number)) }
        let (second, third) = (try EntryKey("server/audit/000000000002"), try EntryKey("server/audit/000000000003"))
        guard case .found(let two) = try await stage.store.read(second).outcome,
            case .found(let three) = try await stage.store.read(third).outcome
        else {
            Issue.record("the entries are missing")
            return
        }
        switch kind {
        case "changed":
            let text = String(decoding: three.value, as: UTF8.self).replacingOccurrences(of: "a3", with: "a9")
            _ = try await stage.store.write(Array(text.utf8), to: third, if: .any)
        case "removed": _ = try await stage.store.delete(third, if: .any)
        case "swapped":
            _ = try await stage.store.write(three.value, to: second, if: .any)
            _ = try await stage.store.write(two.value, to: third, if: .any)
        default: _ = try await stage.store.write([1], to: third, if: .any)
        }
        guard case .broken(let number, _) = try await log.verify() else {
            Issue.record("the forgery was not found")
            return
        }
        #expect(number == (kind == "swapped" ? 2 : 3))
    }

    @Test("An export contains what is kept of the account, and no secrets")
    func export() async throws {
        let token = try #require(await stage.token(of: stage.alice))
        #expect(try await stage.send([Sale("1", at: stage.now)], as: stage.alice).results == ["2"])
        #expect(await stage.alice.put([LedgerAccount.purchase("2", at: stage.now)]).status == 200)
        let path = stage.alice.path + "note?if=any"
        #expect(await stage.service.ask(.put, path, token: stage.alice.token, body: [1]).status == 200)
        let reply = await stage.service.ask(.get, "/v1/accounts/self/export", token: stage.alice.token)
        #expect(reply.status == 200)
        let members = reply.members
        #expect((members["account"] as? [String: Any])?["name"] as? String == "alice")
        #expect(members["tokens"] as? [String] == [token])
        #expect((members["sessions"] as? [[String: Any]])?.count == 1)
        #expect((members["lines"] as? [[String: Any]])?.map { $0["transactionID"] as? String } == ["1"])
        #expect((members["ledger"] as? [[String: Any]])?.count == 1)
        let server = (members["serverLedger"] as? [[String: Any]] ?? []).compactMap { $0["kind"] as? String }
        #expect(Set(server) == ["policy", "purchase", "reinstatement"])
        #expect((members["keys"] as? [String])?.count == 1)
        let text = String(decoding: reply.body, as: UTF8.self)
        for secret in ["password", "secret", "scrypt"] { #expect(!text.contains(secret)) }
    }

    @Test("The first claim belongs to the account that the store names; later ones follow the policy")
    func verdicts() throws {
        let (alice, bob) = (try Account("alice"), try Account("bob"))
        let line = Sale("1", at: 0).line
        let record = Ownership(owners: [.init(account: AccountIdentity(alice), since: 1_000)])
        func verdict(
            _ claim: Ownership.Claim, _ record: Ownership?, _ policy: ServiceConfiguration.Ownership,
            now: Int64 = 2_000, isHeld: Bool = true
        ) -> Ownership.Verdict {
            (record ?? Ownership()).verdict(on: claim, policy: policy, now: now, isHeld: isHeld)
        }
        let named = Ownership.Claim(line: line, named: alice, caller: bob)
        let sent = Ownership.Claim(line: line, caller: bob)
        #expect(verdict(named, nil, .keepWithFirst) == .claimed(by: alice))
        #expect(verdict(sent, nil, .keepWithFirst) == .claimed(by: bob))
        #expect(verdict(Ownership.Claim(line: line), nil, .keepWithFirst) == .unowned)
        #expect(verdict(Ownership.Claim(line: line, named: bob), record, .transfer) == .owned([alice]))
        #expect(verdict(sent, record, .keepWithFirst) == .refused)
        #expect(verdict(sent, record, .share) == .shared([alice], with: bob))
        #expect(
            verdict(sent, record, .keepWithFirst, now: 61_000, isHeld: false)
                == .moved(to: bob, isRestore: false))
        #expect(verdict(sent, record, .keepWithFirst, now: 60_999, isHeld: false) == .refused)
        var restore = sent
        restore.restoredAt = Timestamp(milliseconds: 1_001)
        #expect(verdict(restore, record, .transfer) == .moved(to: bob, isRestore: true))
        #expect(verdict(restore, record, .keepWithFirst) == .refused)
        #expect(verdict(restore, record, .transfer, now: 3_601_002) == .refused)
        restore.restoredAt = Timestamp(milliseconds: 1_000)
        #expect(verdict(restore, record, .transfer) == .refused)
    }
}
