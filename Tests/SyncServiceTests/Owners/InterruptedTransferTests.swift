import Entitlements
import ServiceTestSupport
import SyncCore
import Testing

@testable import SyncService

@Suite("Transfers that are interrupted while servers run")
struct InterruptedTransferTests {
    /// Two rounds of the sweeper.
    private func sweep(_ stage: EvidenceStage) async {
        let seen = await stage.service.sweeper.sweep([:])
        #expect(await stage.service.sweeper.sweep(seen).isEmpty)
    }

    @Test("The second sweep finishes a transfer that was interrupted at any step, without a request or a start")
    func swept() async throws {
        var finishedAfter: Int?
        for step in 0..<40 {
            let stage = try await EvidenceStage(.verified, .transfer)
            let sale = Sale.month("1", of: "1", at: stage.now)
            #expect(try await stage.send([sale], as: stage.alice).results == ["2"])
            stage.clock.advance(seconds: 600)
            stage.store.fail(after: step)
            let reply = try await stage.send([sale.signed(at: stage.now)], as: stage.bob, isRestore: true)
            stage.store.before(nil)
            await sweep(stage)
            let rights = [await stage.rights(of: stage.alice), await stage.rights(of: stage.bob)]
            #expect(rights == [["owls"], []] || rights == [[], ["owls"]], "after \(step) writes: \(rights)")
            #expect(try await stage.transfers() == [], "after \(step) writes")
            guard reply.status == 200 else { continue }
            finishedAfter = step
            break
        }
        #expect(try #require(finishedAfter) > 5)
    }

    @Test("A transfer whose server is suspended before the swap is announced again, so that it is never lost")
    func suspended() async throws {
        let (stage, sale) = try await EvidenceStage.owned(.verified, .transfer)
        stage.clock.advance(seconds: 600)
        let restored = sale.signed(at: stage.now)
        let gate = stage.store.pause { $0.hasPrefix("owners/") }
        let reply = try await withThrowingTaskGroup(of: Reply.self) { group in
            group.addTask { try await stage.send([restored], as: stage.bob, isRestore: true) }
            await gate.reached.wait()
            // A start and the first sweep keep the announcement, because the swap may be about to happen.
            _ = try await EvidenceStage.open(stage.store, stage.clock, .verified, .transfer)
            let seen = await stage.service.sweeper.sweep([:])
            #expect(try await stage.transfers().count == 1)
            #expect(await stage.service.sweeper.sweep(seen).isEmpty)
            #expect(try await stage.transfers() == [])
            // The suspended swap fails. The process is killed right after the next one.
            stage.store.fail(after: 3)
            gate.open()
            return try await group.next()
        }
        #expect(reply?.status == 503)
        stage.store.before(nil)
        #expect(try await stage.transfers().count == 1)
        await sweep(stage)
        #expect(await stage.rights(of: stage.alice).isEmpty)
        #expect(await stage.rights(of: stage.bob) == ["owl"])
        #expect(try await stage.transfers() == [])
    }
}
