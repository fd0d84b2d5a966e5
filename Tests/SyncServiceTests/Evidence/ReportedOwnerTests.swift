import Entitlements
import HTTPTypes
import ServiceTestSupport
import SyncCore
import Synchronization
import Testing

@testable import SyncService

@Suite("Owners of purchases that clients report as JSON")
struct ReportedOwnerTests {
    private let owl = ReportingStage.bought("owl", "1")

    @Test("A purchase that another account recorded first is named, each time, and counts for the first account only")
    func keepWithFirst() async throws {
        for ownership in [ServiceConfiguration.Ownership.keepWithFirst, .transfer] {
            let stage = try await ReportingStage(.trusted, ownership)
            #expect(await stage.report(owl) == ["purchase, recording"])
            for _ in 0..<2 {
                let reply = await stage.send([ReportingStage.bought("three", "2"), owl], as: stage.bob)
                #expect(reply.reported.last == "owned-by-another")
                #expect(reply.details.last?.contains("log in to that account") == true)
                #expect(!String(decoding: reply.body, as: UTF8.self).contains("alice"))
            }
            #expect(await stage.stage.rights(of: stage.alice) == ["owl"])
            #expect(await stage.stage.rights(of: stage.bob) == ["nights", "coin"])
        }
    }

    @Test("Accounts share a reported purchase under the rule share")
    func share() async throws {
        let stage = try await ReportingStage(.trusted, .share)
        #expect(await stage.report(owl) == ["purchase, recording"])
        #expect(await stage.report(owl, as: stage.bob) == ["purchase, recording"])
        #expect(await stage.stage.rights(of: stage.alice) == ["owl"])
        #expect(await stage.stage.rights(of: stage.bob) == ["owl"])
    }

    @Test("A refused purchase counts at the next report after its first owner was erased")
    func erasedOwner() async throws {
        let stage = try await ReportingStage()
        #expect(await stage.report(owl) == ["purchase, recording"])
        #expect(await stage.report(owl, as: stage.bob) == ["owned-by-another"])
        #expect(await AccountOwner(stage.stage.service).erase(token: stage.alice.token).status == 204)
        stage.stage.clock.advance(seconds: 61)
        #expect(await stage.report(owl, as: stage.bob) == [""])
        #expect(await stage.stage.rights(of: stage.bob) == ["owl"])
    }

    @Test(
        "A purchase that a ledger of a client holds is the account's own, and a store's evidence ends another's report")
    func ledgersAndEvidence() async throws {
        let stage = try await ReportingStage()
        let fact = LedgerAccount.purchase("1", at: stage.stage.now)
        #expect(await stage.alice.put([fact]).status == 200)
        #expect(await stage.report(owl) == ["recording"])
        #expect(await stage.report(owl, as: stage.bob) == ["owned-by-another"])
        let stolen: [String: any Sendable] = [
            "kind": "reported", "product": "owl", "transaction": "7", "store": "app-store",
        ]
        #expect(await stage.report(stolen, as: stage.bob) == ["purchase, recording"])
        #expect(try await stage.stage.send([Sale("7", at: stage.stage.now)], as: stage.alice).results == ["2"])
        #expect(await stage.stage.rights(of: stage.bob).isEmpty)
        #expect(await stage.report(stolen, as: stage.bob) == ["owned-by-another"])
    }

    @Test("Of two accounts that report one transaction at the same time, exactly one has it")
    func race() async throws {
        for _ in 0..<20 {
            let stage = try await ReportingStage()
            async let first = stage.report(owl)
            async let second = stage.report(owl, as: stage.bob)
            #expect(await [first, second].flatMap(\.self).sorted() == ["owned-by-another", "purchase, recording"])
            let rights = await (stage.stage.rights(of: stage.alice), stage.stage.rights(of: stage.bob))
            #expect(rights.0.count + rights.1.count == 1)
        }
    }

    @Test("Concurrent requests of one account all succeed, and each purchase and spend counts once")
    func concurrent() async throws {
        let stage = try await ReportingStage()
        #expect(await stage.report(ReportingStage.bought("coins", "c")) == ["purchase, recording"])
        let statuses = await withTaskGroup(of: Int.self) { group in
            for number in 0..<12 {
                let items = [ReportingStage.bought("owl", "\(number % 6)"), ReportingStage.spend("\(number % 2)")]
                group.addTask { await stage.send(items).status }
            }
            return await group.reduce(into: []) { $0.append($1) }
        }
        #expect(Set(statuses) == [200])
        let ledger = try LedgerDocument(decoding: await stage.alice.get().body).ledger
        let facts = Facts(account: ledger)
        #expect(facts.purchases.count == 7 && facts.spends.count == 2)
        #expect(facts.recordings.values.allSatisfy { $0.count == 1 })
        #expect(await stage.report(ReportingStage.spend("0")) == ["1 left"])
    }

    @Test("A server at which other writers are always first answers 503, and nothing is recorded")
    func busy() async throws {
        let stage = try await ReportingStage()
        let (store, key) = (stage.stage.store, try stage.alice.ledger)
        let time = Mutex<UInt64>(0)
        store.before { written, _ throws(BackendError) in
            guard written == key else { return }
            let time = time.withLock { time in
                time += 1
                return time
            }
            let fact = LedgerAccount.purchase("other", "three", at: EvidenceStage.start, time: time)
            _ = try await store.base.write(LedgerDocumentBytes.of([fact]), to: key, if: .any)
        }
        let reply = await stage.send([owl])
        #expect(reply.status == 503 && reply.fields[.retryAfter] == "1")
        #expect(time.withLock { $0 } == 16)
        store.before(nil)
        #expect(await stage.stage.rights(of: stage.alice) == ["nights", "coin"])
        stage.stage.clock.advance(seconds: 61)
        #expect(await stage.report(owl, as: stage.bob) == ["purchase, recording"], "the claim ends")
    }

    @Test("After a write of unknown outcome the same request completes it")
    func unknownOutcome() async throws {
        for isWritten in [false, true] {
            let stage = try await ReportingStage()
            let (store, key) = (stage.stage.store, try stage.alice.ledger)
            store.before { written, _ throws(BackendError) in
                guard written == key else { return }
                if isWritten {
                    let facts = [LedgerAccount.purchase("1", at: stage.stage.now)]
                    _ = try await store.base.write(LedgerDocumentBytes.of(facts), to: key, if: .any)
                }
                throw BackendError(.unavailable, operation: .write, disposition: .outcomeUnknown, message: "cut")
            }
            #expect(await stage.send([owl]).status >= 500)
            store.before(nil)
            #expect(await stage.report(owl) == [isWritten ? "recording" : "purchase, recording"])
            #expect(await stage.report(owl) == [""])
            #expect(await stage.stage.rights(of: stage.alice) == ["owl"])
        }
    }

    @Test("An erased account records nothing, also if the erasure comes between the check and the write")
    func erased() async throws {
        let stage = try await ReportingStage()
        let owner = AccountOwner(stage.stage.service)
        let key = try stage.alice.ledger
        let gate = stage.stage.store.pause { $0 == key }
        async let reply = stage.send([owl])
        await gate.reached.wait()
        async let erasure = owner.erase(token: stage.alice.token)
        gate.open()
        #expect(await erasure.status == 204)
        #expect([200, 403].contains(await reply.status))
        stage.stage.store.before(nil)
        #expect(await stage.send([owl]).status == 403)
        #expect(await stage.report(owl, as: stage.bob) == ["purchase, recording"])
    }

    @Test("An account that sends too much waits, and others do not")
    func rates() async throws {
        let stage = try await ReportingStage()
        let items = (0..<100).map { ReportingStage.bought("owl", "\($0)") }
        var count = 0
        while count < 100, await stage.send(items).status == 200 { count += 1 }
        #expect((2..<30).contains(count))
        #expect(await stage.report(owl, as: stage.bob) == ["owned-by-another"])
    }
}
