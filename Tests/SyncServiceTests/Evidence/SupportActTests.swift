import EntitlementSync
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
    private func audit(_ stage: EvidenceStage) async throws -> [AuditLog.Entry] {
        try await AuditLog(store: stage.store).entries()
    }

    private func order(_ account: String = "alice", _ summary: String = "purchase") -> SupportActs.Order {
        SupportActs.Order(
            account: account, act: "record", summary: summary, operatorName: "olga", reason: "ticket 7")
    }

    private func purchase(_ id: String, _ product: ProductID = "owl", at date: Int64) -> Evidence {
        .reported(
            product, transaction: TransactionID(id), date: Timestamp(milliseconds: date), store: .appStore)
    }

    private func refund(_ id: String, at date: Int64) -> Evidence {
        .refunded(
            TransactionReference(store: .appStore, id: TransactionID(id)), at: Timestamp(milliseconds: date))
    }

    private func reinstatement(_ id: String) -> Evidence {
        .reinstated(TransactionReference(store: .appStore, id: TransactionID(id)))
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
        let acts = stage.supportActs()
        let first = try await acts.record(purchase("1", at: stage.now), order())
        #expect(first.entry?.number == 1)
        #expect(await stage.rights(of: stage.alice) == ["owl"])
        #expect(await stage.rights(of: stage.bob) == [])
        _ = try await acts.record(refund("1", at: stage.now), order("alice", "refund"))
        #expect(await stage.rights(of: stage.alice) == [])
        _ = try await acts.record(reinstatement("1"), order("alice", "reinstatement"))
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
        let acts = stage.supportActs()
        #expect(try await stage.send([Sale("1", at: stage.now)], as: stage.bob).results == ["2"])
        try await expectRefusal(.ownedByAnother, stage) {
            try await acts.record(purchase("1", at: stage.now), order())
        }
        try await expectRefusal(.ownedByAnother, stage) {
            try await acts.record(refund("1", at: stage.now), order())
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
        _ = try await stage.supportActs().record(refund("1", at: stage.now), order())
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
        _ = try await stage.supportActs().record(purchase("1", at: stage.now), order())
        let written = keys.withLock { $0 }
        #expect(written.first == "server/audit/000000000001", "\(written)")
        #expect(written.contains { $0.hasSuffix("decisions") }, "\(written)")
        stage.store.fail(.full) { key, _ in key.text.hasSuffix("decisions") }
        await #expect(throws: BackendError.self) {
            try await stage.supportActs().record(purchase("2", at: stage.now), order())
        }
        stage.store.before(nil)
        let entries = try await audit(stage)
        #expect(entries.map(\.act) == ["record", "record", "failed"])
        #expect(entries.last?.detail.hasPrefix("entry 2 was not completed: ") == true, "\(entries)")
    }

    @Test("An act whose audit entry cannot be written changes nothing")
    func noEntry() async throws {
        let stage = try await EvidenceStage(.verified)
        stage.store.fail(.full) { key, _ in key.text.hasPrefix("server/audit/") }
        let keys = try await stage.store.keys()
        await #expect(throws: BackendError.self) {
            try await stage.supportActs().record(purchase("1", at: stage.now), order())
        }
        #expect(try await stage.store.keys() == keys)
    }

    @Test("Concurrent acts of two programs on one account all count, and all have an entry")
    func concurrent() async throws {
        let stage = try await EvidenceStage(.verified)
        let (left, right) = (stage.supportActs(), stage.supportActs())
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
        let (acts, now) = (stage.supportActs(), stage.now)
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
        let acts = stage.supportActs()
        let refunded = refund("1", at: stage.now)
        #expect(try await acts.record(refunded, order()).unknown == [Sale("1", at: stage.now).reference])
        #expect(try await acts.record(purchase("1", at: stage.now), order()).unknown == [])
        #expect(try await acts.record(refunded, order()).unknown == [])
        #expect(try await acts.record(reinstatement("2"), order()).unknown == [])
    }

    @Test("A clock that was set back is refused, because older statements would prevail")
    func clock() async throws {
        let stage = try await EvidenceStage(.verified)
        let acts = stage.supportActs()
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
        let acts = stage.supportActs()
        let sale = Sale("1", at: stage.now)
        #expect(try await stage.send([sale], as: stage.alice).results == ["2"])
        stage.clock.advance(seconds: 60)
        _ = try await acts.record(refund("1", at: stage.now), order())
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
        _ = try await stage.supportActs().record(purchase("1", at: date), order())
        #expect(await stage.rights(of: stage.alice) == [])
        #expect(try await stage.store.keys().contains { $0.hasPrefix("server/parked/") } == false)
    }

    @Test("Paid time is credited once, and not if it is covered")
    func credit() async throws {
        let stage = try await EvidenceStage(.verified)
        let until = Timestamp(milliseconds: stage.now + 30 * EvidenceStage.day)
        let nights = Evidence.asserted("nights", until: until, source: "promotion")
        let acts = stage.supportActs()
        let outcome = try await acts.record(nights, order("alice", "credit"))
        #expect(outcome.entry?.number == 1)
        #expect(outcome.end == until)
        #expect(await stage.rights(of: stage.alice) == ["nights"])
        #expect(try await acts.record(nights, order()).entry == nil)
        #expect(try await audit(stage).count == 1)
    }

    private let month = CalendarDuration(months: 1)

    @Test("A credit for a duration adds it to what is paid, once for each transaction, and states the new end")
    func addedTime() async throws {
        let stage = try await EvidenceStage(.verified)
        let acts = stage.supportActs()
        _ = try await acts.record(purchase("1", "three", at: stage.now), order())
        let start = Timestamp(milliseconds: stage.now)
        for (id, months) in [("g1", 4), ("g2", 5), ("g1", 5)] as [(TransactionID, Int64)] {
            let outcome = try await acts.credit(month, to: "nights", from: "promotion", transaction: id, order())
            #expect(outcome.end == start.adding(CalendarDuration(months: months)))
            stage.clock.advance(seconds: 60)
        }
        // A refund of the purchase before it does not prolong the gift, and the gift can be taken back.
        _ = try await acts.record(refund("1", at: start.milliseconds), order())
        let rest = try await acts.credit(month, to: "nights", from: "promotion", transaction: "g1", order())
        #expect(rest.end == start.adding(CalendarDuration(months: 2)))
        for id in ["g1", "g2"] as [TransactionID] {
            let gift = TransactionReference(store: .support, id: id)
            _ = try await acts.record(.refunded(gift, at: start), order())
        }
        #expect(await stage.rights(of: stage.alice) == [])
        // After the end, the duration counts from the grant.
        let late = try await acts.credit(month, to: "nights", from: "promotion", transaction: "g3", order())
        #expect(late.end == Timestamp(milliseconds: stage.now).adding(month))
        await #expect(throws: SupportError.self) {
            try await acts.credit(
                CalendarDuration(months: 2), to: "nights", from: "promotion", transaction: "g3", order())
        }
    }

    @Test("A credit for a duration begins at the end of the period of a subscription that renews")
    func addedToSubscription() async throws {
        let (stage, sale) = try await EvidenceStage.owned(.verified, isMonthly: true)
        let outcome = try await stage.supportActs().credit(
            month, to: "owls", from: "promotion", transaction: "g", order())
        #expect(outcome.end == Timestamp(milliseconds: try #require(sale.expires)).adding(month))
    }

    @Test("A credit for a duration has the lowest level of its group, or the one that support names")
    func addedLevel() async throws {
        let stage = try await EvidenceStage(.verified, catalog: Self.levels)
        let acts = stage.supportActs()
        _ = try await acts.credit(month, to: "selfies", from: "promotion", transaction: "g1", order())
        #expect(await stage.rights(of: stage.alice) == ["one"])
        _ = try await acts.credit(
            month, to: "selfies", level: 1, from: "promotion", transaction: "g2", order("bob"))
        #expect(await stage.rights(of: stage.bob) == ["one", "all"])
        for (group, level) in [("selfies", 3), ("nights", 1)] as [(GroupID, Int64)] {
            try await expectRefusal(.invalid, stage) {
                try await acts.credit(
                    month, to: group, level: level, from: "promotion", transaction: "g3", order())
            }
        }
    }

    private static let levels = """
        {"products":[{"id":"all","type":"autoRenewable","group":"selfies","duration":"P7D","level":1},
          {"id":"one","type":"autoRenewable","group":"selfies","duration":"P7D","level":2},
          {"id":"three","type":"nonRenewing","group":"nights","duration":"P3M"}],
         "entitlements":[{"id":"one","grantedBy":["group:selfies@2"]},{"id":"all","grantedBy":["group:selfies@1"]}]}
        """

    @Test("Two credits for a duration at the same time add both")
    func concurrentCredits() async throws {
        let stage = try await EvidenceStage(.verified)
        let acts = stage.supportActs()
        let (start, order) = (Timestamp(milliseconds: stage.now), order())
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<4 {
                group.addTask {
                    let (week, id) = (CalendarDuration(days: 7), TransactionID("\(number)"))
                    _ = try await acts.credit(week, to: "nights", from: "promotion", transaction: id, order)
                }
            }
            try await group.waitForAll()
        }
        let ledger = try await stage.serverLedger(of: stage.alice).ledger
        let catalog = try #require(stage.service.configuration.catalog)
        let replay = Replay(Facts(account: Ledger(), server: ledger), catalog: catalog)
        #expect(replay.timelines["nights"]?.chains.last?.end == start.adding(CalendarDuration(days: 28)))
    }

    @Test("A transfer takes a verified purchase from its owner, and names the owner in the outcome and the audit list")
    func transfer() async throws {
        let stage = try await EvidenceStage(.verified)
        #expect(try await stage.send([Sale("1", at: stage.now)], as: stage.bob).results == ["2"])
        let acts = stage.supportActs()
        let error = await #expect(throws: SupportError.self) {
            try await acts.record(purchase("1", at: stage.now), order())
        }
        #expect(
            error?.description == "app-store/production/1 belongs to \"bob\"; nothing was changed; to move it to "
                + "\"alice\", repeat with --transfer")
        var transfer = order()
        transfer.isTransfer = true
        stage.clock.advance(seconds: 60)
        let outcome = try await acts.record(purchase("1", at: EvidenceStage.start), transfer)
        #expect(outcome.formerOwners.map(\.name) == ["bob"])
        #expect(await stage.rights(of: stage.alice) == ["owl"])
        #expect(await stage.rights(of: stage.bob) == [])
        let entries = try await audit(stage)
        #expect(entries.map(\.act) == ["record", "transfer"])
        #expect(entries.map(\.detail) == ["purchase, taken from \"bob\": ticket 7", "from bob by support"])
        #expect(entries.map(\.actor) == ["olga", "olga"])
        // Bob's device presents the purchase again.
        let again = Sale("1", at: EvidenceStage.start).signed(at: stage.now)
        #expect(try await stage.send([again], as: stage.bob).results == ["owned-by-another"])
        #expect(await stage.rights(of: stage.alice) == ["owl"])
    }

    @Test("A purchase that several accounts share, or on a server where accounts share, is not transferred")
    func sharedTransfer() async throws {
        let stage = try await EvidenceStage(.verified, .share)
        let carol = await LedgerAccount(stage.service, "carol")
        for owner in [stage.bob, carol] {
            #expect(try await stage.send([Sale("1", at: stage.now)], as: owner).results == ["2"])
        }
        var transfer = order()
        transfer.isTransfer = true
        for (rule, kind) in [(.keepWithFirst, .ownedByAnother), (.share, .invalid)]
            as [(ServiceConfiguration.Ownership, SupportError.Kind)]
        {
            try await expectRefusal(kind, stage) {
                try await stage.supportActs(rule).record(purchase("1", at: stage.now), transfer)
            }
        }
        #expect(await stage.rights(of: stage.bob) == ["owl"])
        #expect(await stage.rights(of: carol) == ["owl"])
    }

    @Test("Acts find an account by another spelling of its name, and an exact name first, also of an erased account")
    func spelling() async throws {
        let stage = try await EvidenceStage(.verified)
        let acts = stage.supportActs()
        _ = try await acts.record(purchase("1", at: stage.now), order("ALICE"))
        #expect(await stage.rights(of: stage.alice) == ["owl"])
        #expect(try await audit(stage).map(\.account) == ["alice"])
        #expect(await AccountOwner(stage.service, "bob").erase(token: stage.bob.token).status == 204)
        _ = await LedgerAccount(stage.service, "BOB")
        try await expectRefusal(.erasedAccount, stage) {
            try await acts.record(purchase("2", at: stage.now), order("bob"))
        }
    }

    @Test("A purchase that another account's client has reported is taken by a transfer only")
    func reportedTransfer() async throws {
        let stage = try await EvidenceStage(.trusted)
        let phone = try await stage.device(of: stage.bob)
        try await phone.record(
            .reported("owl", transaction: "1", date: Timestamp(milliseconds: stage.now), store: .appStore))
        try await phone.sync()
        #expect(await stage.rights(of: stage.bob) == ["owl"])
        let acts = stage.supportActs()
        try await expectRefusal(.ownedByAnother, stage) {
            try await acts.record(purchase("1", at: stage.now), order())
        }
        var transfer = order()
        transfer.isTransfer = true
        #expect(try await acts.record(purchase("1", at: stage.now), transfer).formerOwners.map(\.name) == ["bob"])
        #expect(await stage.rights(of: stage.alice) == ["owl"])
        #expect(await stage.rights(of: stage.bob) == [])
    }

    @Test("Unsigned imports do not replace what a store has signed")
    func unsigned() async throws {
        let stage = try await EvidenceStage(.verified)
        #expect(try await stage.send([Sale("1", at: stage.now)], as: stage.alice).results == ["2"])
        let evidence = VerifiedEvidence(
            kind: .verifyReceipt,
            facts: [("1", "month"), ("2", "owl")].map { (id: TransactionID, product: ProductID) in
                .purchase(
                    Purchase(
                        transaction: TransactionReference(store: .appStore, id: id), product: product, terms: nil,
                        date: Timestamp(milliseconds: stage.now), stamp: Stamp(logicalTime: .zero)))
            }, signedDate: nil)
        _ = try await stage.supportActs().record(evidence, order())
        let purchases = try await stage.serverLedger(of: stage.alice).facts.compactMap(\.purchase)
        #expect(purchases.map(\.product) == ["owl", "owl"])
        #expect(purchases.map(\.stamp.signedDate) == [Timestamp(milliseconds: stage.now), nil])
    }

    @Test("An act for an account whose ledger is full is refused before its audit entry")
    func fullLedger() async throws {
        let stage = try await EvidenceStage(.verified)
        let acts = stage.supportActs()
        _ = try await acts.record(purchase("1", at: stage.now), order())
        try await stage.fill(stage.alice)
        try await expectRefusal(.ledgerFull, stage) {
            try await acts.record(purchase("2", at: stage.now), order())
        }
        // Revocations and decisions need no room.
        #expect(try await acts.record(refund("1", at: stage.now), order()).entry?.number == 2)
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
            try await stage.supportActs().record(purchase("1", at: stage.now), order())
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
            try await stage.supportActs().record(purchase("1", at: stage.now), order())
        }
        _ = try await stage.supportActs(.share).record(purchase("1", at: stage.now), order())
        #expect(await stage.rights(of: stage.alice) == ["owl"])
        #expect(await stage.rights(of: stage.bob) == ["owl"])
    }
}
