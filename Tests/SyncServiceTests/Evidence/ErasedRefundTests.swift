import Entitlements
import ServiceTestSupport
import SyncCore
import Testing

@testable import SyncService

@Suite("Refunds of erased accounts' purchases")
struct ErasedRefundTests {
    private func erase(_ stage: EvidenceStage, _ alice: LedgerAccount? = nil) async -> Int {
        await AccountOwner(stage.service, "alice").erase(token: (alice ?? stage.alice).token).status
    }

    @Test("A refunded purchase stays refunded for the account that presents it after the erasure of its owner")
    func refunded() async throws {
        let (stage, sale) = try await EvidenceStage.owned(.verified)
        stage.clock.advance(seconds: 60)
        #expect(try await stage.notify(sale.refunded(at: stage.now)).status == 200)
        #expect(await erase(stage) == 204)
        let kept = try await stage.service.recorder.parked.items()
        #expect(kept.map(\.line) == [sale.line] && kept.flatMap(\.facts).allSatisfy(\.isRevocation))
        // A statement from before the refund.
        #expect(try await stage.send([sale], as: stage.bob).results == ["2"])
        #expect(await stage.rights(of: stage.bob).isEmpty)
        #expect(try await stage.service.recorder.parked.items().isEmpty)
    }

    @Test("Refunds, their reversals and upgrades are kept, but no statement of the App Store that nothing is revoked")
    func kinds() async throws {
        let stage = try await EvidenceStage(.verified)
        let date = Timestamp(milliseconds: stage.now)
        func facts(_ store: StoreID, _ id: TransactionID, refund: Timestamp?, upgrade: Timestamp? = nil) -> [Fact] {
            let reference = TransactionReference(store: store, id: id)
            let stamp = Stamp.signed(at: date)
            return [
                .purchase(Purchase(transaction: reference, product: "owl", terms: nil, date: date, stamp: stamp)),
                .revocation(
                    Revocation(transaction: reference, revokedAt: refund, upgradedAt: upgrade, stamp: stamp)),
            ]
        }
        var all = facts(.appStore, "refunded", refund: date) + facts(.appStore, "upgraded", refund: nil, upgrade: date)
        all += facts(.appStore, "valid", refund: nil) + facts(.stripe, "reversed", refund: nil)
        // Without its purchase, a refund came from the place of its line.
        all += facts(.appStore, "reported", refund: date).suffix(1)
        let recorder = stage.service.recorder
        try await recorder.keepRevocations(in: Ledger(all.map(\.record))) { Issue.record($0) }
        #expect(try await Set(recorder.parked.items().map(\.line.id)) == ["refunded", "upgraded", "reversed"])
    }

    @Test("A refunded renewal stays refunded for the account that presents the line after the erasure of its owner")
    func renewal() async throws {
        let (stage, first) = try await EvidenceStage.owned(.verified, isMonthly: true)
        stage.clock.advance(seconds: 31 * 86_400)
        let (alice, bob) = (await stage.alice.at(stage.service), await stage.bob.at(stage.service))
        let second = Sale.month("2", of: "1", at: stage.now)
        #expect(try await stage.send([second], as: alice).results == ["2"])
        #expect(await stage.rights(of: alice) == ["owls"])
        stage.clock.advance(seconds: 60)
        #expect(try await stage.notify(second.refunded(at: stage.now)).status == 200)
        #expect(await erase(stage, alice) == 204)
        #expect(try await stage.send([first, second], as: bob).results == ["2", "2"])
        #expect(await stage.rights(of: bob).isEmpty)
    }

    @Test("A refund that is acknowledged while the owner is erased is not lost")
    func meanwhile() async throws {
        let stage = try await EvidenceStage(.verified)
        let sale = Sale.month("2", of: "1", at: stage.now)
        #expect(try await stage.send([sale], as: stage.alice).results == ["2"])
        stage.clock.advance(seconds: 60)
        let refund = sale.refunded(at: stage.now)
        let gate = stage.store.pause { $0.hasPrefix("owners/") }
        let erased = try await withThrowingTaskGroup(of: Int.self) { group in
            group.addTask { await erase(stage) }
            await gate.reached.wait()
            #expect(try await stage.notify(refund).status == 200)
            gate.open()
            return try await group.next()
        }
        #expect(erased == 204)
        #expect(try await stage.send([sale], as: stage.bob).results == ["2"])
        #expect(await stage.rights(of: stage.bob).isEmpty)
    }

    /// Simulated seed 34748: the slower write removed the ledger when it noticed the erasure, and the refund with it.
    @Test("A refund is not lost if a slower write to the same ledger notices the erasure first")
    func slowerWrite() async throws {
        let (stage, sale) = try await EvidenceStage.owned(.verified)
        stage.clock.advance(seconds: 60)
        let (isWritten, slow, marked) = (Once(), Gate(), Gate())
        for gate in [slow, marked] { gate.close() }
        let recorder = stage.service.recorder
        let account = try #require(try await recorder.writer.records.account("alice")?.value.activeAccount)
        stage.store.before { key, _ throws(BackendError) in
            if key.text.hasSuffix("/decisions") { _ = isWritten.happens() }
            if key.text.hasSuffix("/ledger") { await marked.pass() }
        }
        stage.store.beforeReading { key in
            if isWritten.hasHappened, key.text == "server/accounts/alice" { await slow.pass() }
        }
        let other = Purchase(
            transaction: TransactionReference(store: .appStore, id: "other"), product: "owl", terms: nil,
            date: Timestamp(milliseconds: stage.now), stamp: .signed(at: Timestamp(milliseconds: stage.now)))
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask {
                try await recorder.writer.update(account) { (ledger) async throws(BackendError) in
                    _ = ledger.add([.purchase(other)], catalog: nil, at: other.date)
                }
            }
            await slow.reached.wait()
            #expect(try await stage.notify(sale.refunded(at: stage.now)).status == 200)
            group.addTask { #expect(await erase(stage) == 204) }
            await marked.reached.wait()
            slow.open()
            try await group.next()
            marked.open()
            try await group.waitForAll()
        }
        #expect(try await stage.send([sale], as: stage.bob).results == ["2"])
        #expect(await stage.rights(of: stage.bob).isEmpty)
    }

    @Test("The other owners of a shared purchase keep its refund, and nothing waits")
    func shared() async throws {
        let (stage, sale) = try await EvidenceStage.owned(.verified, .share)
        #expect(try await stage.send([sale], as: stage.bob).results == ["2"])
        stage.clock.advance(seconds: 60)
        #expect(try await stage.notify(sale.refunded(at: stage.now)).status == 200)
        #expect(await erase(stage) == 204)
        #expect(try await stage.service.recorder.parked.items().isEmpty)
        #expect(await stage.rights(of: stage.bob).isEmpty)
    }
}
