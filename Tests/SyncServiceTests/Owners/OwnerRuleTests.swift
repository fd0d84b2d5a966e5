import Entitlements
import ServiceTestSupport
import SyncCore
import Testing

@testable import SyncService

@Suite("Claims of clients and proofs in one record")
struct OwnerRuleTests {
    private func reported(_ sale: Sale) -> Fact {
        .purchase(
            Purchase(
                transaction: sale.reference, product: "owl", terms: nil, date: Timestamp(milliseconds: sale.purchased),
                stamp: Stamp(logicalTime: LogicalTime(rawValue: 1))))
    }

    private func decisions(_ account: LedgerAccount) -> @Sendable (EntryKey, Bool) -> Bool {
        let key = String(account.path.dropFirst("/v1/kv/".count)) + "decisions"
        return { other, _ in other.text == key }
    }

    @Test("The first transaction of a line belongs to the account that proves a renewal")
    func firstTransaction() async throws {
        let stage = try await EvidenceStage(.trusted, .keepWithFirst)
        let (first, next) = (Sale.month("1", of: "1", at: stage.now), Sale.month("2", of: "1", at: stage.now))
        #expect(await stage.bob.put([reported(first)]).status == 200)
        #expect(try await stage.send([next], as: stage.alice).results == ["2"])
        #expect(try await stage.bob.refusals() == ["1"])
        let carol = await LedgerAccount(stage.service, "carol")
        #expect(await carol.put([reported(first), reported(next)]).status == 200)
        #expect(try await carol.refusals() == ["1", "2"])
        #expect(await stage.alice.put([reported(first), reported(next)]).status == 200)
        #expect(try await stage.alice.refusals() == [])
    }

    @Test("A refusal that a crash prevented is written although the line has moved on")
    func interruptedRefusal() async throws {
        let stage = try await EvidenceStage(.trusted, .keepWithFirst)
        let sale = Sale("1", at: stage.now)
        #expect(await stage.bob.put([reported(sale)]).status == 200)
        stage.store.fail(where: decisions(stage.bob))
        #expect(try await stage.send([sale], as: stage.alice).status == 503)
        stage.store.before(nil)
        #expect(try await stage.bob.refusals() == [])
        stage.clock.advance(seconds: 61)
        let carol = await LedgerAccount(stage.service, "carol")
        #expect(try await stage.send([sale], as: carol).results == ["2"])
        #expect(try await stage.bob.refusals() == ["1"])
        #expect(await stage.rights(of: carol) == ["owl"])
    }

    @Test("A restore takes a line that was shared from all of its owners")
    func sharedBefore() async throws {
        let stage = try await EvidenceStage(.verified, .share)
        let sale = Sale("1", at: stage.now)
        for account in [stage.alice, stage.bob] { #expect(try await stage.send([sale], as: account).results == ["2"]) }
        let service = try await EvidenceStage.open(stage.store, stage.clock, .verified, .transfer)
        stage.clock.advance(seconds: 600)
        let carol = await LedgerAccount(service, "carol")
        #expect(try await stage.send([sale.signed(at: stage.now)], as: carol, isRestore: true).results == ["2"])
        #expect(await stage.rights(of: carol) == ["owl"])
        for account in [stage.alice, stage.bob] {
            let account = await account.at(service)
            #expect(await stage.rights(of: account) == [])
        }
        #expect(try await AuditLog(store: stage.store).entries().map(\.detail) == ["from alice, bob by a restore"])
    }

    @Test("An erasure of either account finishes a transfer that was interrupted", arguments: ["alice", "bob"])
    func erasedInTransfer(name: String) async throws {
        let (stage, sale) = try await EvidenceStage.owned(.verified, .transfer)
        stage.clock.advance(seconds: 600)
        stage.store.fail(where: decisions(stage.alice))
        #expect(try await stage.send([sale.signed(at: stage.now)], as: stage.bob, isRestore: true).status == 503)
        stage.store.before(nil)
        let (erased, other) = name == "alice" ? (stage.alice, stage.bob) : (stage.bob, stage.alice)
        #expect(await AccountOwner(stage.service, name).erase(token: erased.token).status == 204)
        #expect(await stage.rights(of: other) == (name == "alice" ? ["owl"] : []))
        #expect(try await stage.transfers() == [])
        for key in try await stage.store.keys() where key.hasPrefix("owners/") {
            let value = try await stage.store.read(try EntryKey(key)).outcome.entry?.value ?? []
            #expect(!String(decoding: value, as: UTF8.self).contains(name))
        }
    }

    @Test("A claim for a line that gets an owner at the same moment is refused")
    func provedMeanwhile() async throws {
        let stage = try await EvidenceStage(.trusted, .keepWithFirst)
        let (first, next) = (Sale.month("1", of: "1", at: stage.now), Sale.month("2", of: "1", at: stage.now))
        // As a crash leaves it: the transaction names a line without an owner.
        let key = try Owners.key(of: next.reference)
        let bytes = try RecordStore(backend: stage.store).bytes(of: Ownership(line: LineName(first.line)))
        _ = try await stage.store.write(bytes, to: key, if: .any)
        let gate = Gate()
        gate.close()
        let isFirst = Once()
        stage.store.before { other, _ in
            // The first write is the claim of an absent record, which fails.
            if other == key, !isFirst.happens() { await gate.pass() }
        }
        async let claimed = stage.bob.put([reported(next)])
        await gate.reached.wait()
        #expect(try await stage.send([first, next], as: stage.alice).results == ["2", "2"])
        gate.open()
        #expect(await claimed.status == 200)
        #expect(try await stage.bob.refusals() == ["2"])
    }
}
