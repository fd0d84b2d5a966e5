import Entitlements
import ServiceTestSupport
import Testing

@testable import SyncService

@Suite("Refunds of purchases that were restored on other devices")
struct RestoredCopyTests {
    /// A yearly period or a non-consumable, as the phone bought it.
    private static func sale(_ product: String, at date: Int64, lineItem: String? = "7") -> Sale {
        var sale = product == "owl" ? Sale("100", at: date) : Sale.month("100", of: "100", at: date)
        if product != "owl" { sale.expires = date + 365 * EvidenceStage.day }
        sale.lineItem = product == "owl" ? nil : lineItem
        return sale
    }

    @Test(
        "A refund of the phone's transaction ends access that a tablet has proved with its own",
        arguments: ["owl", "month"], [TrustPolicy.trusted, .verified])
    func refund(product: String, policy: TrustPolicy) async throws {
        let stage = try await EvidenceStage(policy)
        let right = product == "owl" ? "owl" : "owls"
        let phone = Self.sale(product, at: stage.now)
        #expect(try await stage.send([phone], as: stage.alice).results == ["2"])
        stage.clock.advance(seconds: 60)
        #expect(try await stage.send([phone.restored(as: "177", at: stage.now)], as: stage.alice).results == ["2"])
        #expect(await stage.rights(of: stage.alice) == [right])
        stage.clock.advance(seconds: 60)
        #expect(try await stage.notify(phone.refunded(at: stage.now)).status == 200)
        #expect(await stage.rights(of: stage.alice) == [])
        // The device derives the same from both ledgers.
        let server = try await stage.serverLedger(of: stage.alice).ledger
        #expect(Facts(account: Ledger(), server: server).purchases.count == 1)
        stage.clock.advance(seconds: 60)
        #expect(try await stage.notify(phone.signed(at: stage.now)).status == 200)
        #expect(await stage.rights(of: stage.alice) == [right])
    }

    @Test("A refund that comes first reaches a receipt with an older copy", arguments: ["owl", "month"])
    func refundFirst(product: String) async throws {
        let stage = try await EvidenceStage(.verified)
        let phone = Self.sale(product, at: stage.now)
        let old = phone.restored(as: "177", at: stage.now)
        stage.clock.advance(seconds: 60)
        #expect(try await stage.send([phone.refunded(at: stage.now)], as: stage.alice).results == ["2"])
        stage.clock.advance(seconds: 60)
        let receipt = ["kind": "app-store-receipt", "data": try StoreMint.receipt(old, at: old.signed)]
        #expect(await stage.send([receipt], as: stage.alice).results == ["2"])
        #expect(try await stage.serverLedger(of: stage.alice).facts.contains { $0.purchase?.transaction.id == "177" })
        #expect(await stage.rights(of: stage.alice) == [])
    }

    @Test("A refund reaches copies that were recorded before the store's line items were kept")
    func withoutLineItem() async throws {
        let stage = try await EvidenceStage(.verified)
        let old = Self.sale("month", at: stage.now, lineItem: nil)
        #expect(try await stage.send([old.restored(as: "177", at: stage.now)], as: stage.alice).results == ["2"])
        #expect(await stage.rights(of: stage.alice) == ["owls"])
        stage.clock.advance(seconds: 60)
        #expect(try await stage.notify(Self.sale("month", at: old.purchased).refunded(at: stage.now)).status == 200)
        #expect(await stage.rights(of: stage.alice) == [])
    }

    @Test("After a transfer the copies that the former owner's clients reported grant nothing")
    func transfer() async throws {
        let stage = try await EvidenceStage(.trusted, .transfer)
        let phone = Sale("100", at: stage.now)
        #expect(try await stage.send([phone], as: stage.alice).results == ["2"])
        let copy = Purchase(
            transaction: TransactionReference(store: .appStore, id: "177"), product: "owl",
            terms: Terms(kind: .nonConsumable), date: Timestamp(milliseconds: stage.now), originalID: "100",
            stamp: Stamp(logicalTime: LogicalTime.zero.next(at: Timestamp(milliseconds: stage.now))))
        #expect(await stage.alice.put([.purchase(copy)]).status == 200)
        #expect(await stage.rights(of: stage.alice) == ["owl"])
        stage.clock.advance(seconds: 600)
        let restored = phone.signed(at: stage.now)
        #expect(try await stage.send([restored], as: stage.bob, isRestore: true).results == ["2"])
        #expect(await stage.rights(of: stage.bob) == ["owl"])
        #expect(await stage.rights(of: stage.alice) == [])
    }
}
