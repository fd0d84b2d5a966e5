import Entitlements
import Foundation
import ServiceTestSupport
import StoreEvidence
import SyncCore
import Synchronization
import Testing

@testable import SyncService

@Suite("Acts of support on a server's store")
struct SupportActTests {
    private func acts(
        _ stage: EvidenceStage, _ ownership: ServiceConfiguration.Ownership = .keepWithFirst
    ) throws -> SupportActs {
        let cryptography = PlainCryptography(host: stage.clock.host)
        let catalog = try #require(stage.service.configuration.catalog)
        return SupportActs(
            store: stage.store, catalog: catalog, ownership: ownership, digest: { cryptography.digest(of: $0) },
            host: stage.clock.host)
    }

    private func audit(_ stage: EvidenceStage) async throws -> [AuditLog.Entry] {
        let cryptography = PlainCryptography(host: stage.clock.host)
        return try await AuditLog(store: stage.store) { cryptography.digest(of: $0) }.entries()
    }

    private func order(_ account: String = "alice", _ summary: String = "purchase") -> SupportActs.Order {
        SupportActs.Order(
            account: account, act: "record", summary: summary, operatorName: "olga", reason: "ticket 7")
    }

    private func purchase(_ id: String, _ product: ProductID = "owl", at date: Int64) -> Fact {
        .purchase(
            Purchase(
                transaction: TransactionReference(store: .appStore, id: TransactionID(id)), product: product,
                terms: nil, date: Timestamp(milliseconds: date), stamp: Stamp(logicalTime: .zero)))
    }

    private func revocation(_ id: String, at date: Int64?) -> Fact {
        .revocation(
            Revocation(
                transaction: TransactionReference(store: .appStore, id: TransactionID(id)),
                revokedAt: date.map { Timestamp(milliseconds: $0) }, stamp: Stamp(logicalTime: .zero)))
    }

    private func expectRefusal(
        _ kind: SupportError.Kind, _ stage: EvidenceStage, _ act: () async throws -> SupportActs.Outcome
    ) async throws {
        let (keys, entries) = (try await stage.store.keys(), try await audit(stage))
        let error = await #expect(throws: SupportError.self) { _ = try await act() }
        #expect(error?.kind == kind, "\(String(describing: error))")
        #expect(try await stage.store.keys() == keys)
        #expect(try await audit(stage) == entries)
    }

    @Test("A purchase, its refund and its reinstatement count, and each has an audit entry")
    func life() async throws {
        let stage = try await EvidenceStage(.verified)
        let acts = try acts(stage)
        let first = try await acts.record(purchase("1", at: stage.now), order())
        #expect(first.entry?.number == 1)
        #expect(await stage.rights(of: stage.alice) == ["owl"])
        #expect(await stage.rights(of: stage.bob) == [])
        _ = try await acts.record(revocation("1", at: stage.now), order("alice", "refund"))
        #expect(await stage.rights(of: stage.alice) == [])
        _ = try await acts.record(revocation("1", at: nil), order("alice", "reinstatement"))
        #expect(await stage.rights(of: stage.alice) == ["owl"])
        let entries = try await audit(stage)
        #expect(
            entries.map(\.detail) == [
                "purchase: ticket 7", "refund: ticket 7", "reinstatement: ticket 7",
            ])
        #expect(entries.allSatisfy { $0.line == "app-store/production/1" && $0.actor == "olga" })
        // The server's policy stays as it is.
        #expect(try await stage.serverLedger(of: stage.alice).policy == .verified)
    }

    @Test("A line that another account owns, and an unknown or erased account, are refused and change nothing")
    func refusals() async throws {
        let stage = try await EvidenceStage(.verified)
        let acts = try acts(stage)
        #expect(try await stage.send([Sale("1", at: stage.now)], as: stage.bob).results == ["2"])
        try await expectRefusal(.ownedByAnother, stage) {
            try await acts.record(purchase("1", at: stage.now), order())
        }
        try await expectRefusal(.ownedByAnother, stage) {
            try await acts.record(revocation("1", at: stage.now), order())
        }
        try await expectRefusal(.unknownAccount, stage) {
            try await acts.record(purchase("2", at: stage.now), order("carol"))
        }
        try await expectRefusal(.unknownProduct, stage) {
            try await acts.record(purchase("2", "cat", at: stage.now), order())
        }
        var silent = order()
        silent.reason = ""
        try await expectRefusal(.invalid, stage) { try await acts.record(purchase("2", at: stage.now), silent) }
        // A renewal of bob's line under a name of its own.
        let month = Sale.month("21", of: "20", at: stage.now)
        #expect(try await stage.send([month], as: stage.bob).results == ["2"])
        try await expectRefusal(.ownedByAnother, stage) {
            try await acts.record(purchase("21", "month", at: stage.now), order())
        }
        _ = try await acts.record(purchase("3", at: stage.now), order())
        try await expectRefusal(.contradiction, stage) {
            try await acts.record(purchase("3", "month", at: stage.now), order())
        }
        #expect(await AccountOwner(stage.service, "bob").erase(token: stage.bob.token).status == 204)
        try await expectRefusal(.erasedAccount, stage) {
            try await acts.record(purchase("4", at: stage.now), order("bob"))
        }
    }

    @Test("A refund of a line without an owner leaves the line to the account that proves it")
    func wrongAccount() async throws {
        let stage = try await EvidenceStage(.verified)
        _ = try await acts(stage).record(revocation("1", at: stage.now), order())
        #expect(try await stage.send([Sale("1", at: stage.now)], as: stage.bob).results == ["2"])
        #expect(await stage.rights(of: stage.bob) == ["owl"])
    }

    @Test("The audit entry exists before anything else is written, and a failure is entered too")
    func entryFirst() async throws {
        let stage = try await EvidenceStage(.verified)
        let keys = Mutex<[String]>([])
        stage.store.before { (key, _) async throws(BackendError) in
            keys.withLock { $0.append(key.text) }
        }
        _ = try await acts(stage).record(purchase("1", at: stage.now), order())
        let written = keys.withLock { $0 }
        #expect(written.first == "server/audit/000000000001", "\(written)")
        #expect(written.contains { $0.hasSuffix("decisions") }, "\(written)")
        stage.store.before { (key, _) async throws(BackendError) in
            guard key.text.hasSuffix("decisions") else { return }
            throw BackendError(.full, operation: .write, key: key, message: "the disk is full")
        }
        await #expect(throws: BackendError.self) {
            try await acts(stage).record(purchase("2", at: stage.now), order())
        }
        stage.store.before(nil)
        let entries = try await audit(stage)
        #expect(entries.map(\.act) == ["record", "record", "failed"])
        #expect(entries.last?.detail.hasPrefix("entry 2 was not carried out: ") == true, "\(entries)")
    }

    @Test("An act whose audit entry cannot be written changes nothing")
    func noEntry() async throws {
        let stage = try await EvidenceStage(.verified)
        stage.store.before { (key, _) async throws(BackendError) in
            guard key.text.hasPrefix("server/audit/") else { return }
            throw BackendError(.full, operation: .write, key: key, message: "the disk is full")
        }
        let keys = try await stage.store.keys()
        await #expect(throws: BackendError.self) {
            try await acts(stage).record(purchase("1", at: stage.now), order())
        }
        #expect(try await stage.store.keys() == keys)
    }

    @Test("Concurrent acts of two programs on one account all count, and all have an entry")
    func concurrent() async throws {
        let stage = try await EvidenceStage(.verified)
        let (left, right) = (try acts(stage), try acts(stage))
        let now = stage.now
        try await withThrowingTaskGroup(of: Void.self) { group in
            for index in 0..<10 {
                group.addTask {
                    _ = try await (index.isMultiple(of: 2) ? left : right).record(
                        purchase("\(index)", at: now), order())
                }
            }
            try await group.waitForAll()
        }
        #expect(try await stage.serverLedger(of: stage.alice).facts.count { $0.purchase != nil } == 10)
        #expect(try await audit(stage).map(\.number) == Array(1...10))
    }

    @Test("Two accounts that support gives one purchase at the same time: one has it")
    func race() async throws {
        let stage = try await EvidenceStage(.verified)
        let (acts, now) = (try acts(stage), stage.now)
        let won = await withTaskGroup(of: Bool.self) { group in
            for name in ["alice", "bob"] {
                group.addTask {
                    do {
                        _ = try await acts.record(purchase("1", at: now), order(name))
                        return true
                    } catch {
                        return false
                    }
                }
            }
            return await group.reduce(into: 0) { $0 += $1 ? 1 : 0 }
        }
        #expect(won == 1)
        #expect(await stage.rights(of: stage.alice).union(stage.rights(of: stage.bob)) == ["owl"])
        #expect(await stage.rights(of: stage.alice).isDisjoint(with: await stage.rights(of: stage.bob)))
    }

    @Test("A refund of a purchase that the account does not have is reported as such")
    func unknownRefund() async throws {
        let stage = try await EvidenceStage(.verified)
        let acts = try acts(stage)
        let refund = revocation("1", at: stage.now)
        #expect(try await acts.record(refund, order()).unknown == [Sale("1", at: stage.now).reference])
        #expect(try await acts.record(purchase("1", at: stage.now), order()).unknown == [])
        #expect(try await acts.record(refund, order()).unknown == [])
        #expect(try await acts.record(revocation("2", at: nil), order()).unknown == [])
    }

    @Test("A clock that was set back is refused, because older statements would prevail")
    func clock() async throws {
        let stage = try await EvidenceStage(.verified)
        let acts = try acts(stage)
        stage.clock.advance(seconds: -3_600)
        try await expectRefusal(.clockIsBehind, stage) {
            try await acts.record(purchase("1", at: stage.now), order())
        }
        stage.clock.advance(seconds: 3_540)
        #expect(try await acts.record(purchase("1", at: stage.now), order()).entry?.number == 1)
    }

    @Test("A transaction that Apple signs later without a revocation reinstates what support has refunded")
    func laterSignature() async throws {
        let stage = try await EvidenceStage(.verified)
        let acts = try acts(stage)
        let sale = Sale("1", at: stage.now)
        #expect(try await stage.send([sale], as: stage.alice).results == ["2"])
        stage.clock.advance(seconds: 60)
        _ = try await acts.record(revocation("1", at: stage.now), order())
        #expect(try await stage.send([sale], as: stage.alice).results == ["2"])
        #expect(await stage.rights(of: stage.alice) == [])
        stage.clock.advance(seconds: 60)
        #expect(try await stage.send([sale.signed(at: stage.now)], as: stage.alice).results == ["2"])
        #expect(await stage.rights(of: stage.alice) == ["owl"])
    }

    @Test("Facts that wait for an owner are applied when support names it")
    func parked() async throws {
        let stage = try await EvidenceStage(.verified)
        let date = stage.now - EvidenceStage.day
        #expect(try await stage.notify(Sale("1", at: date).refunded(at: stage.now)).status == 200)
        _ = try await acts(stage).record(purchase("1", at: date), order())
        #expect(await stage.rights(of: stage.alice) == [])
        #expect(try await stage.store.keys().contains { $0.hasPrefix("server/parked/") } == false)
    }

    @Test("Paid time is granted once, and not if it is covered")
    func grant() async throws {
        let stage = try await EvidenceStage(.verified)
        let reference = Assertion.Reference(
            group: "nights", source: "promotion", until: Timestamp(milliseconds: stage.now + 30 * EvidenceStage.day))
        let acts = try acts(stage)
        let outcome = try await acts.grant(reference, assertedAt: nil, order("alice", "grant"))
        #expect(outcome.entry?.number == 1)
        #expect(await stage.rights(of: stage.alice) == ["nights"])
        #expect(try await acts.grant(reference, assertedAt: nil, order("alice", "grant")).entry == nil)
        #expect(try await audit(stage).count == 1)
    }

    @Test("Unsigned imports do not replace what a store has signed")
    func unsigned() async throws {
        let stage = try await EvidenceStage(.verified)
        #expect(try await stage.send([Sale("1", at: stage.now)], as: stage.alice).results == ["2"])
        let evidence = VerifiedEvidence(
            kind: .verifyReceipt,
            facts: [purchase("1", "month", at: stage.now), purchase("2", "owl", at: stage.now)], signedDate: nil)
        _ = try await acts(stage).record(evidence, order())
        let purchases = try await stage.serverLedger(of: stage.alice).facts.compactMap(\.purchase)
        #expect(purchases.map(\.product) == ["owl", "owl"])
        #expect(purchases.map(\.stamp.signedDate) == [Timestamp(milliseconds: stage.now), nil])
    }

    @Test("An act for an account whose ledger is full is refused before its audit entry")
    func fullLedger() async throws {
        let stage = try await EvidenceStage(.verified)
        let acts = try acts(stage)
        _ = try await acts.record(purchase("1", at: stage.now), order())
        try await stage.fill(stage.alice)
        try await expectRefusal(.ledgerFull, stage) {
            try await acts.record(purchase("2", at: stage.now), order())
        }
        // Revocations and decisions need no room.
        #expect(try await acts.record(revocation("1", at: stage.now), order()).entry?.number == 2)
        #expect(await stage.rights(of: stage.alice) == [])
    }

    @Test("An act that fails says why, also if the failure cannot be entered into the audit list")
    func silentFailure() async throws {
        let stage = try await EvidenceStage(.verified)
        stage.store.before { (key, _) async throws(BackendError) in
            if key.text.hasSuffix("decisions") {
                throw BackendError(.full, operation: .write, key: key, message: "the disk is full")
            }
            if key.text == "server/audit/000000000002" {
                throw BackendError(.unavailable, operation: .write, key: key, message: "the store is away")
            }
        }
        let error = await #expect(throws: BackendError.self) {
            try await acts(stage).record(purchase("1", at: stage.now), order())
        }
        stage.store.before(nil)
        #expect(error?.kind == .full)
        let message = error?.message ?? ""
        #expect(message.hasPrefix("the disk is full; ") && message.contains("the store is away"), "\(message)")
        #expect(try await audit(stage).map(\.act) == ["record"])
    }

    @Test("Acts follow the ownership rule of the server")
    func ownershipRule() async throws {
        let stage = try await EvidenceStage(.verified, .share)
        #expect(try await stage.send([Sale("1", at: stage.now)], as: stage.bob).results == ["2"])
        try await expectRefusal(.ownedByAnother, stage) {
            try await acts(stage).record(purchase("1", at: stage.now), order())
        }
        _ = try await acts(stage, .share).record(purchase("1", at: stage.now), order())
        #expect(await stage.rights(of: stage.alice) == ["owl"])
        #expect(await stage.rights(of: stage.bob) == ["owl"])
    }
}
