import EntitlementSync
import Entitlements
import ServiceTestSupport
import SyncCore
import Testing

@testable import SyncService

extension EvidenceStage {
    /// Fills the server ledger of `account` to more than its limit, with records that count for nothing.
    func fill(_ account: LedgerAccount) async throws {
        let payload = [UInt8](repeating: 7, count: LedgerLimits.maximumPartByteCount)
        let records = (0..<4).map { Record(key: [0xA2, 0x01, 1, UInt8($0)], order: [], payload: payload) }
        let ledger = try await serverLedger(of: account).ledger.joined(with: Ledger(records))
        #expect(ledger.byteCount > LedgerLimits.standard.byteCount)
        let key = try EntryKey(String(account.path.dropFirst("/v1/kv/".count)) + "decisions")
        _ = try await store.write(LedgerDocument(ledger: ledger).encoded(), to: key, if: .any)
    }

    /// The keys of transfers that are not finished.
    func transfers() async throws -> [String] {
        try await store.keys().filter { $0.hasPrefix("server/transfers/") }
    }
}

@Suite("Server ledgers without room")
struct FullLedgerTests {
    private static func reported(_ sale: Sale, _ stage: EvidenceStage) -> Fact {
        .purchase(
            Purchase(
                transaction: sale.reference, product: "owl", terms: nil, date: Timestamp(milliseconds: stage.now),
                stamp: Stamp(logicalTime: LogicalTime(rawValue: 1))))
    }

    @Test("A line that an account cannot hold moves to the next account that proves it")
    func loser() async throws {
        let stage = try await EvidenceStage(.verified, .keepWithFirst)
        let sale = Sale("1", at: stage.now)
        try await stage.fill(stage.alice)
        #expect(try await stage.send([sale], as: stage.alice).results == ["ledger-full"])
        stage.clock.advance(seconds: 61)
        #expect(try await stage.send([sale], as: stage.bob).results == ["2"])
        #expect(await stage.rights(of: stage.bob) == ["owl"])
        #expect(try await stage.serverLedger(of: stage.alice).decision(about: sale.reference) == .transferred(to: ""))
        #expect(try await stage.transfers() == [])
        let restarted = try await EvidenceStage.open(stage.store, stage.clock, .verified, .keepWithFirst)
        #expect(await stage.rights(of: await stage.bob.at(restarted)) == ["owl"])
    }

    @Test("An account without room gets no line by a restore, and the owner keeps it")
    func winner() async throws {
        let (stage, sale) = try await EvidenceStage.owned(.verified, .transfer)
        try await stage.fill(stage.bob)
        stage.clock.advance(seconds: 600)
        let reply = try await stage.send([sale.signed(at: stage.now)], as: stage.bob, isRestore: true)
        #expect(reply.results == ["ledger-full"])
        #expect(await stage.rights(of: stage.alice) == ["owl"])
        #expect(try await stage.transfers() == [])
        #expect(try await stage.service.owners.accounts(of: sale.line).map(\.name) == ["alice"])
    }

    @Test("A transfer is finished although the new owner's ledger became full in the meantime")
    func winnerLater() async throws {
        let (stage, sale) = try await EvidenceStage.owned(.verified, .transfer)
        stage.clock.advance(seconds: 600)
        let decisions = String(stage.alice.path.dropFirst("/v1/kv/".count)) + "decisions"
        stage.store.fail { key, _ in key.text == decisions }
        #expect(try await stage.send([sale.signed(at: stage.now)], as: stage.bob, isRestore: true).status == 503)
        stage.store.before(nil)
        #expect(try await stage.transfers().count == 1)
        try await stage.fill(stage.bob)
        let restarted = try await EvidenceStage.open(stage.store, stage.clock, .verified, .transfer)
        #expect(await stage.rights(of: await stage.bob.at(restarted)) == ["owl"])
        #expect(await stage.rights(of: await stage.alice.at(restarted)) == [])
        #expect(try await stage.transfers() == [])
    }

    @Test("A transfer that is too large for the store does not keep the server from starting")
    func tooLarge() async throws {
        let (stage, sale) = try await EvidenceStage.owned(.verified, .transfer)
        stage.clock.advance(seconds: 600)
        let decisions = String(stage.bob.path.dropFirst("/v1/kv/".count)) + "decisions"
        stage.store.fail(.tooLarge) { key, _ in key.text == decisions }
        let reply = try await stage.send([sale.signed(at: stage.now)], as: stage.bob, isRestore: true)
        #expect(reply.status != 200)
        let restarted = try await EvidenceStage.open(stage.store, stage.clock, .verified, .transfer)
        #expect(try await stage.transfers().count == 1)
        stage.store.before(nil)
        let again = try await EvidenceStage.open(stage.store, stage.clock, .verified, .transfer)
        #expect(try await stage.transfers() == [])
        #expect(restarted.configuration.ownership == again.configuration.ownership)
        #expect(await stage.rights(of: await stage.bob.at(again)) == ["owl"])
    }

    @Test("A client that claimed a purchase loses it to the account that proves it, also without room for the refusal")
    func claimant() async throws {
        let stage = try await EvidenceStage(.trusted, .keepWithFirst)
        let sale = Sale("1", at: stage.now)
        #expect(await stage.bob.put([Self.reported(sale, stage)]).status == 200)
        #expect(await stage.rights(of: stage.bob) == ["owl"])
        try await stage.fill(stage.bob)
        #expect(try await stage.send([sale], as: stage.alice).results == ["2"])
        #expect(await stage.rights(of: stage.alice) == ["owl"])
        #expect(await stage.rights(of: stage.bob) == [])
    }

    @Test("A full ledger takes a refund of a purchase that it holds, and no other purchase")
    func refund() async throws {
        let (stage, sale) = try await EvidenceStage.owned(.verified)
        try await stage.fill(stage.alice)
        #expect(try await stage.send([Sale("2", at: stage.now)], as: stage.alice).results == ["ledger-full"])
        stage.clock.advance(seconds: 60)
        #expect(try await stage.notify(sale.refunded(at: stage.now)).status == 200)
        #expect(await stage.rights(of: stage.alice) == [])
    }
}
