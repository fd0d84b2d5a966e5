import Entitlements
import HTTPTypes
import ServiceTestSupport
import SyncCore
import Synchronization
import Testing

@testable import SyncService

@Suite("Lines that move between accounts")
struct LineTransferTests {
    private func transferred(_ stage: EvidenceStage, _ account: LedgerAccount, _ sale: Sale) async throws -> Bool {
        let decision = try await stage.serverLedger(of: account).decision(about: sale.reference)
        return decision == .transferred(to: "")
    }

    private func audit(_ stage: EvidenceStage) -> AuditLog { AuditLog(store: stage.store) }

    @Test("A line stays with its first account when another account logs in on the same device")
    func loggingIn() async throws {
        let (stage, sale) = try await EvidenceStage.owned(.verified, .transfer)
        stage.clock.advance(seconds: 600)
        #expect(try await stage.send([sale.signed(at: stage.now)], as: stage.bob).results == ["owned-by-another"])
        #expect(await stage.rights(of: stage.alice) == ["owl"])
        #expect(await stage.rights(of: stage.bob).isEmpty)
    }

    @Test("An explicit restore moves a line once a day, both accounts see it, and neither learns a name")
    func restoring() async throws {
        let (stage, sale) = try await EvidenceStage.owned(.verified, .transfer, isMonthly: true)
        stage.clock.advance(seconds: 600)
        let restored = try await stage.send([sale.signed(at: stage.now)], as: stage.bob, isRestore: true)
        #expect(restored.results == ["2"])
        #expect(!String(decoding: restored.body, as: UTF8.self).contains("alice"))
        #expect(await stage.rights(of: stage.bob) == ["owls"])
        #expect(await stage.rights(of: stage.alice).isEmpty)
        #expect(try await transferred(stage, stage.alice, sale))
        // Back on the same day: refused.
        stage.clock.advance(seconds: 600)
        let (alice, bob) = (await stage.alice.at(stage.service), await stage.bob.at(stage.service))
        let early = try await stage.send([sale.signed(at: stage.now)], as: alice, isRestore: true)
        #expect(early.results == ["owned-by-another"])
        #expect(!String(decoding: early.body, as: UTF8.self).contains("bob"))
        stage.clock.advance(seconds: 86_400)
        let (aliceLater, bobLater) = (await alice.at(stage.service), await bob.at(stage.service))
        let late = try await stage.send([sale.signed(at: stage.now)], as: aliceLater, isRestore: true)
        #expect(late.results == ["2"])
        #expect(await stage.rights(of: aliceLater) == ["owls"])
        #expect(await stage.rights(of: bobLater).isEmpty)
        let entries = try await audit(stage).entries()
        #expect(entries.map(\.act) == ["transfer", "transfer"])
        #expect(entries.map(\.account) == ["bob", "alice"])
    }

    @Test("A renewal that the store notifies after a transfer goes to the new owner only")
    func renewalAfterTransfer() async throws {
        let stage = try await EvidenceStage(.verified, .transfer)
        let sale = Sale.month("1", of: "1", at: stage.now)
        #expect(try await stage.send([sale], as: stage.alice).status == 200)
        stage.clock.advance(seconds: 600)
        #expect(try await stage.send([sale.signed(at: stage.now)], as: stage.bob, isRestore: true).results == ["2"])
        let next = Sale.month("2", of: "1", at: stage.now)
        #expect(try await stage.notify(next).status == 200)
        #expect(try await stage.serverLedger(of: stage.bob).transactions(ofLine: sale.line).count == 2)
        #expect(try await stage.serverLedger(of: stage.alice).transactions(ofLine: sale.line).count == 1)
    }

    @Test(
        "Without a fresh signature, without a restore, and with a receipt, nothing moves",
        arguments: ["old", "before the claim", "receipt", "no restore"])
    func refused(reason: String) async throws {
        let (stage, sale) = try await EvidenceStage.owned(.verified, .transfer)
        stage.clock.advance(seconds: 3 * 3_600)
        let (alice, bob) = (await stage.alice.at(stage.service), await stage.bob.at(stage.service))
        let reply: Reply
        switch reason {
        case "old": reply = try await stage.send([sale.signed(at: stage.now - 3_600_001)], as: bob, isRestore: true)
        case "before the claim": reply = try await stage.send([sale], as: bob, isRestore: true)
        case "receipt":
            let data = try StoreMint.receipt(sale, at: stage.now)
            reply = await stage.send([["kind": "app-store-receipt", "data": data]], as: bob, isRestore: true)
        default: reply = try await stage.send([sale.signed(at: stage.now)], as: bob)
        }
        #expect(reply.results == ["owned-by-another"])
        #expect(await stage.rights(of: alice) == ["owl"])
    }

    @Test("keepWithFirst refuses a restore, too")
    func keepWithFirst() async throws {
        let (stage, sale) = try await EvidenceStage.owned(.verified, .keepWithFirst)
        stage.clock.advance(seconds: 600)
        let reply = try await stage.send([sale.signed(at: stage.now)], as: stage.bob, isRestore: true)
        #expect(reply.results == ["owned-by-another"])
    }

    @Test("A shared line counts for each account that proves it, with what was known about it")
    func sharing() async throws {
        let stage = try await EvidenceStage(.verified, .share)
        let (first, second) = (Sale.month("1", of: "1", at: stage.now), Sale.month("2", of: "1", at: stage.now))
        #expect(try await stage.send([first, second], as: stage.alice).results == ["2", "2"])
        #expect(try await stage.send([first], as: stage.bob).results == ["2"])
        #expect(try await stage.serverLedger(of: stage.bob).transactions(ofLine: first.line).count == 2)
        stage.clock.advance(seconds: 60)
        #expect(try await stage.notify(second.refunded(at: stage.now)).status == 200)
        for account in [stage.alice, stage.bob] {
            let facts = try await stage.serverLedger(of: account).facts(ofLine: first.line)
            #expect(
                facts.contains { fact in
                    if case .revocation(let revocation) = fact { revocation.revokedAt != nil } else { false }
                })
        }
    }

    @Test("A line has at most eight owners")
    func manyOwners() async throws {
        let stage = try await EvidenceStage(.verified, .share)
        let sale = Sale("1", at: stage.now)
        for number in 1...8 {
            let account = await LedgerAccount(stage.service, "owner\(number)")
            #expect(try await stage.send([sale], as: account).results == ["2"])
        }
        #expect(try await stage.send([sale], as: stage.bob).results == ["owned-by-another"])
    }

    @Test("An account that is erased at another server while its evidence is recorded keeps no claim")
    func erasedMeanwhile() async throws {
        let stage = try await EvidenceStage(.verified, .keepWithFirst)
        let other = await stage.alice.at(
            try await EvidenceStage.open(stage.store, stage.clock, .verified, .keepWithFirst))
        let sale = Sale("1", at: stage.now)
        let gate = Gate()
        stage.store.before { key, _ in if key.text.hasPrefix("owners/") { await gate.pass() } }
        gate.close()
        try await withThrowingTaskGroup(of: Reply.self) { group in
            group.addTask { try await stage.send([sale], as: stage.alice) }
            await gate.reached.wait()
            #expect(await AccountOwner(other.service, "alice").erase(token: other.token).status == 204)
            gate.open()
            _ = try await group.next()
        }
        #expect(try await stage.store.keys().allSatisfy { !$0.hasPrefix("owners/") })
        #expect(try await stage.send([sale], as: stage.bob).results == ["2"])
    }

    @Test("The line of an erased account is free")
    func erasedOwner() async throws {
        let (stage, sale) = try await EvidenceStage.owned(.verified, .keepWithFirst)
        #expect(await AccountOwner(stage.service, "alice").erase(token: stage.alice.token).status == 204)
        let keys = try await stage.store.keys()
        #expect(
            keys.allSatisfy { !$0.hasPrefix("owners/") && !$0.hasPrefix("server/holdings/") })
        #expect(try await stage.send([sale], as: stage.bob).results == ["2"])
        #expect(await stage.rights(of: stage.bob) == ["owl"])
    }

    @Test("A claim whose ledger was not written is free after a minute, and its late write finds the line gone")
    func emptyClaim() async throws {
        let stage = try await EvidenceStage(.verified, .keepWithFirst)
        let sale = Sale("1", at: stage.now)
        let home = String(stage.alice.path.dropFirst("/v1/kv/".count))
        stage.store.fail { key, _ in key.text == home + "decisions" }
        #expect(try await stage.send([sale], as: stage.alice).status == 503)
        stage.store.before(nil)
        #expect(try await stage.send([sale], as: stage.bob).results == ["owned-by-another"])
        stage.clock.advance(seconds: 61)
        #expect(try await stage.send([sale], as: stage.bob).results == ["2"])
        #expect(await stage.rights(of: stage.bob) == ["owl"])
        #expect(try await stage.send([sale], as: stage.alice).results == ["owned-by-another"])
        #expect(await stage.rights(of: stage.alice).isEmpty)
    }

    @Test("A transfer that a crash interrupts at any step is finished at the next start")
    func interrupted() async throws {
        var finishedAfter: Int?
        for step in 0..<40 {
            let stage = try await EvidenceStage(.verified, .transfer)
            let sale = Sale.month("1", of: "1", at: stage.now)
            #expect(try await stage.send([sale], as: stage.alice).results == ["2"])
            stage.clock.advance(seconds: 600)
            stage.store.fail(after: step)
            let reply = try await stage.send([sale.signed(at: stage.now)], as: stage.bob, isRestore: true)
            stage.store.before(nil)
            let restarted = try await EvidenceStage.open(stage.store, stage.clock, .verified, .transfer)
            let (alice, bob) = (await stage.alice.at(restarted), await stage.bob.at(restarted))
            let rights = [await stage.rights(of: alice), await stage.rights(of: bob)]
            #expect(rights == [["owls"], []] || rights == [[], ["owls"]], "after \(step) writes: \(rights)")
            // A transfer whose swap did not happen is left to the sweeper.
            #expect(await restarted.sweeper.sweep(restarted.sweeper.sweep([:])).isEmpty, "after \(step) writes")
            #expect(
                try await !stage.store.keys().contains { $0.hasPrefix("server/transfers/") }, "after \(step) writes")
            guard reply.status == 200 else {
                // The device sends its evidence until it is answered.
                let again = try await stage.send([sale.signed(at: stage.now)], as: bob, isRestore: true)
                #expect(again.results == ["2"], "after \(step) writes")
                #expect(await stage.rights(of: bob) == ["owls"], "after \(step) writes")
                #expect(await stage.rights(of: alice).isEmpty, "after \(step) writes")
                continue
            }
            finishedAfter = step
            break
        }
        #expect(try #require(finishedAfter) > 5)
    }

    @Test("A damaged journal entry is reported and does not keep the server from starting")
    func damagedJournal() async throws {
        let stage = try await EvidenceStage(.verified, .transfer)
        _ = try await stage.store.write([1], to: try EntryKey("server/transfers/00"), if: .any)
        let restarted = try await EvidenceStage.open(stage.store, stage.clock, .verified, .transfer)
        let alice = await stage.alice.at(restarted)
        #expect(try await stage.send([Sale("1", at: stage.now)], as: alice).results == ["2"])
    }

    @Test("Of two accounts that restore a line at the same time, one gets it")
    func concurrentRestores() async throws {
        let (stage, sale) = try await EvidenceStage.owned(.verified, .transfer)
        let carol = await LedgerAccount(stage.service, "carol")
        stage.clock.advance(seconds: 600)
        let again = sale.signed(at: stage.now)
        let results = try await withThrowingTaskGroup(of: [String].self) { group in
            for account in [stage.bob, carol] {
                group.addTask { try await stage.send([again], as: account, isRestore: true).results }
            }
            return try await group.reduce(into: []) { $0 += $1 }
        }
        #expect(results.sorted() == ["2", "owned-by-another"])
        var owners: [String] = []
        for account in [stage.alice, stage.bob, carol] where await stage.rights(of: account) == ["owl"] {
            owners.append(account.name)
        }
        #expect(owners.count == 1 && owners != ["alice"])
    }

    @Test("A write for the former owner that a transfer overtakes is not stored")
    func slowWriter() async throws {
        let (stage, sale) = try await EvidenceStage.owned(.verified, .transfer, isMonthly: true)
        stage.clock.advance(seconds: 600)
        let decisions = String(stage.alice.path.dropFirst("/v1/kv/".count)) + "decisions"
        let gate = stage.store.pause { $0.text == decisions }
        let next = Sale.month("2", of: "1", at: stage.now)
        async let slow = stage.send([next], as: stage.alice)
        await gate.reached.wait()
        #expect(try await stage.send([sale.signed(at: stage.now)], as: stage.bob, isRestore: true).results == ["2"])
        gate.open()
        #expect(try await slow.results == ["owned-by-another"])
        #expect(try await stage.serverLedger(of: stage.alice).transactions(ofLine: sale.line) == [sale.reference])
        #expect(await stage.rights(of: stage.alice).isEmpty)
        #expect(await stage.rights(of: stage.bob) == ["owls"])
    }

    @Test("Under trusted, a transfer also ends what the former owner's devices have reported")
    func transferUnderTrusted() async throws {
        let stage = try await EvidenceStage(.trusted, .transfer)
        let sale = Sale("1", at: stage.now)
        let reported = Fact.purchase(
            Purchase(
                transaction: sale.reference, product: "owl", terms: nil, date: Timestamp(milliseconds: stage.now),
                stamp: Stamp(logicalTime: LogicalTime(rawValue: 1))))
        #expect(await stage.alice.put([reported]).status == 200)
        #expect(try await stage.send([sale], as: stage.alice).results == ["2"])
        // The other account's device sees the transaction, too.
        #expect(await stage.bob.put([reported]).status == 200)
        #expect(await stage.rights(of: stage.bob).isEmpty)
        stage.clock.advance(seconds: 600)
        #expect(try await stage.send([sale.signed(at: stage.now)], as: stage.bob, isRestore: true).results == ["2"])
        #expect(await stage.rights(of: stage.bob) == ["owl"])
        #expect(await stage.rights(of: stage.alice).isEmpty)
        stage.clock.advance(seconds: 120)
        #expect(await stage.alice.put([reported], [.ifMatch: "*"]).status == 200)
        #expect(await stage.rights(of: stage.alice).isEmpty)
        #expect(await stage.rights(of: stage.bob) == ["owl"])
    }

    @Test("Under trusted, a signed claim ends the claim of a client that reported the transaction first")
    func clientClaim() async throws {
        let stage = try await EvidenceStage(.trusted, .keepWithFirst)
        let sale = Sale("1", at: stage.now)
        let reported = Fact.purchase(
            Purchase(
                transaction: sale.reference, product: "owl", terms: nil, date: Timestamp(milliseconds: stage.now),
                stamp: Stamp(logicalTime: LogicalTime(rawValue: 1))))
        #expect(await stage.bob.put([reported]).status == 200)
        #expect(await stage.rights(of: stage.bob) == ["owl"])
        #expect(try await stage.send([sale], as: stage.alice).results == ["2"])
        #expect(await stage.rights(of: stage.alice) == ["owl"])
        #expect(await stage.rights(of: stage.bob).isEmpty)
        // Neither time nor another report gives it back.
        stage.clock.advance(seconds: 120)
        #expect(await stage.bob.get().status == 200)
        #expect(await stage.rights(of: stage.bob).isEmpty)
        let carol = await LedgerAccount(stage.service, "carol")
        #expect(await carol.put([reported]).status == 200)
        #expect(await stage.rights(of: carol).isEmpty)
        #expect(await stage.alice.put([reported]).status == 200)
        #expect(await stage.rights(of: stage.alice) == ["owl"])
    }

    @Test("A request that shares a line and was interrupted gets the known facts when it is repeated")
    func interruptedSharing() async throws {
        let stage = try await EvidenceStage(.verified, .share)
        let (first, second) = (Sale.month("1", of: "1", at: stage.now), Sale.month("2", of: "1", at: stage.now))
        #expect(try await stage.send([first, second], as: stage.alice).results == ["2", "2"])
        let decisions = String(stage.bob.path.dropFirst("/v1/kv/".count)) + "decisions"
        stage.store.fail { key, _ in key.text == decisions }
        #expect(try await stage.send([first], as: stage.bob).status == 503)
        stage.store.before(nil)
        #expect(try await stage.send([first], as: stage.bob).results == ["2"])
        let known = [first.reference, second.reference]
        #expect(try await stage.serverLedger(of: stage.bob).transactions(ofLine: first.line) == known)
    }

    @Test("A transfer that stalls takes nothing from an account that got the line back in the meantime")
    func stalledTransfer() async throws {
        let (stage, sale) = try await EvidenceStage.owned(.verified, .transfer, isMonthly: true)
        stage.clock.advance(seconds: 600)
        let decisions = String(stage.alice.path.dropFirst("/v1/kv/".count)) + "decisions"
        let gate = stage.store.pause { $0.text == decisions }
        async let stalled = stage.send([sale.signed(at: stage.now)], as: stage.bob, isRestore: true)
        await gate.reached.wait()
        stage.clock.advance(seconds: 90_000)
        // Finishes the other transfer first.
        let alice = await stage.alice.at(stage.service)
        let back = try await stage.send([sale.signed(at: stage.now)], as: alice, isRestore: true)
        #expect(back.results == ["2"])
        gate.open()
        #expect(try await stalled.results == ["owned-by-another"])
        #expect(await stage.rights(of: alice) == ["owls"])
        #expect(await stage.rights(of: await stage.bob.at(stage.service)) == [])
        #expect(try await stage.serverLedger(of: alice).decision(about: sale.reference) == .accepted)
    }
}
