import EntitlementSync
import Entitlements
import HTTPTypes
import ServiceTestSupport
import StoreEvidence
import SyncCore
import Testing

@testable import SyncService

@Suite("Refunds of purchases that clients report without evidence")
struct ReportedRefundTests {
    private func report(_ sale: Sale) -> Fact {
        .purchase(
            Purchase(
                transaction: sale.reference, product: ProductID(sale.product), terms: nil,
                date: Timestamp(milliseconds: sale.purchased), originalID: sale.original.map { TransactionID($0) },
                storeExpiry: sale.expires.map { Timestamp(milliseconds: $0) },
                stamp: Stamp(logicalTime: LogicalTime(rawValue: 1))))
    }

    private func refunds(_ stage: EvidenceStage, _ account: LedgerAccount) async throws -> [String] {
        try await stage.serverLedger(of: account).facts.compactMap { fact in
            guard case .revocation(let refund) = fact else { return nil }
            return "\(refund.transaction.id) \(refund.revokedAt == nil ? "reversed" : "refunded")"
        }.sorted()
    }

    @Test(
        "A refund and its reversal reach a purchase that is reported before, between or after them",
        arguments: ServiceConfiguration.Ownership.allCases, 0...2)
    func order(_ ownership: ServiceConfiguration.Ownership, _ reportedAfter: Int) async throws {
        let stage = try await EvidenceStage(.trusted, ownership)
        let sale = Sale("1", at: stage.now)
        stage.clock.advance(seconds: 60)
        let refunded = sale.refunded(at: stage.now)
        stage.clock.advance(seconds: 60)
        for (index, statement) in [sale, refunded, sale.signed(at: stage.now)].enumerated() {
            if index == reportedAfter {
                #expect(await stage.alice.put([report(sale)]).status == 200)
                #expect(await stage.rights(of: stage.alice) == (index == 2 ? [] : ["owl"]))
            }
            #expect(try await stage.notify(statement).status == 200)
            #expect(stage.notes.all.last?.outcome == .parked)
            guard index >= reportedAfter else { continue }
            #expect(await stage.rights(of: stage.alice) == (index == 1 ? [] : ["owl"]))
        }
        // Repeated and late statements change nothing, and a report is no proof.
        for statement in [refunded, sale] { #expect(try await stage.notify(statement).status == 200) }
        #expect(await stage.rights(of: stage.alice) == ["owl"])
        #expect(try await refunds(stage, stage.alice) == ["1 reversed"])
        #expect(try await stage.service.recorder.parked.items().map(\.line) == [sale.line])
    }

    @Test("Of a subscription, the refunded period ends, and the others go on")
    func period() async throws {
        let stage = try await EvidenceStage(.trusted)
        let first = Sale.month("1", of: "1", at: stage.now - 30 * EvidenceStage.day)
        let second = Sale.month("2", of: "1", at: stage.now)
        #expect(try await stage.notify(first).status == 200)
        #expect(try await stage.notify(second.refunded(at: stage.now)).status == 200)
        #expect(await stage.alice.put([report(first)]).status == 200)
        #expect(try await refunds(stage, stage.alice).isEmpty)
        #expect(await stage.alice.put([report(first), report(second)], [.ifMatch: "*"]).status == 200)
        #expect(try await refunds(stage, stage.alice) == ["2 refunded"])
        #expect(await stage.rights(of: stage.alice).isEmpty)
    }

    @Test("Only the account that has the transaction gets the refund, and evidence takes both to its account")
    func anotherAccount() async throws {
        let stage = try await EvidenceStage(.trusted)
        let sale = Sale("1", at: stage.now)
        #expect(await stage.alice.put([report(sale)]).status == 200)
        #expect(await stage.bob.put([report(sale)]).status == 200)
        stage.clock.advance(seconds: 60)
        let refunded = sale.refunded(at: stage.now)
        #expect(try await stage.notify(refunded).status == 200)
        #expect(try await refunds(stage, stage.alice) == ["1 refunded"])
        #expect(try await refunds(stage, stage.bob).isEmpty)
        #expect(await stage.rights(of: stage.bob).isEmpty)
        #expect(try await stage.send([sale], as: stage.bob).results == ["2"])
        #expect(try await refunds(stage, stage.bob) == ["1 refunded"])
        #expect(await stage.rights(of: stage.bob).isEmpty)
        stage.clock.advance(seconds: 60)
        #expect(try await stage.notify(sale.signed(at: stage.now)).status == 200)
        #expect(await stage.rights(of: stage.bob) == ["owl"])
        #expect(await stage.rights(of: stage.alice).isEmpty)
    }

    @Test("A refund reaches all accounts that share a purchase, also those that have only reported it")
    func shared() async throws {
        let stage = try await EvidenceStage(.trusted, .share)
        let sale = Sale("1", at: stage.now)
        let (carol, dave) = (
            await LedgerAccount(stage.service, "carol"), await LedgerAccount(stage.service, "dave")
        )
        #expect(await stage.alice.put([report(sale)]).status == 200)
        #expect(try await stage.send([sale], as: stage.bob).results == ["2"])
        #expect(await carol.put([report(sale)]).status == 200)
        stage.clock.advance(seconds: 60)
        #expect(try await stage.notify(sale.refunded(at: stage.now)).status == 200)
        #expect(await dave.put([report(sale)]).status == 200)
        for account in [stage.alice, stage.bob, carol, dave] {
            #expect(await stage.rights(of: account).isEmpty, "\(account.name)")
        }
        stage.clock.advance(seconds: 60)
        #expect(try await stage.notify(sale.signed(at: stage.now)).status == 200)
        for account in [stage.alice, stage.bob, carol, dave] {
            #expect(await stage.rights(of: account) == ["owl"], "\(account.name)")
        }
    }

    @Test("A damaged ledger of one account does not keep a refund from the others, nor their reports from being stored")
    func damaged() async throws {
        let stage = try await EvidenceStage(.trusted, .share)
        let sale = Sale("1", at: stage.now)
        #expect(await stage.alice.put([report(sale)]).status == 200)
        #expect(await stage.bob.put([report(sale)]).status == 200)
        let key = try EntryKey(stage.alice.ledger.text.replacing("/ledger", with: "/decisions"))
        _ = try await stage.store.write([1, 2, 3], to: key, if: .any)
        stage.clock.advance(seconds: 60)
        #expect(try await stage.notify(sale.refunded(at: stage.now)).status == 200)
        #expect(await stage.rights(of: stage.bob).isEmpty)
        // Now the account with the damaged ledger has proved another purchase.
        let (owned, proved) = try await EvidenceStage.owned(.trusted, .share)
        let other = try EntryKey(owned.alice.ledger.text.replacing("/ledger", with: "/decisions"))
        _ = try await owned.store.write([1, 2, 3], to: other, if: .any)
        #expect(await owned.bob.put([report(proved)]).status == 200)
        #expect(await owned.rights(of: owned.bob) == ["owl"])
    }

    @Test("An erased account is no longer known to have reported a shared purchase")
    func erasedReporter() async throws {
        let stage = try await EvidenceStage(.trusted, .share)
        let sale = Sale("1", at: stage.now)
        #expect(await stage.alice.put([report(sale)]).status == 200)
        #expect(try await stage.store.claimCount() == 1)
        #expect(await AccountOwner(stage.service, "alice").erase(token: stage.alice.token).status == 204)
        #expect(try await stage.store.claimCount() == 0)
        #expect(try await stage.notify(sale.refunded(at: stage.now)).status == 200)
    }

    @Test("At most 64 accounts are known to have reported a shared purchase, each once")
    func reporterCapacity() throws {
        var record = Ownership()
        for number in 0..<100 {
            let account = try Account("user\(number)", incarnation: "1")
            let reporter = Ownership.Owner(account: AccountIdentity(account), since: Int64(number))
            record = record.report(by: reporter).report(by: reporter)
        }
        #expect(record.reporters?.map(\.since) == Array(0..<64))
    }
}
