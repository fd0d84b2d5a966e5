import Entitlements
import Foundation
import HTTPTypes
import ServiceTestSupport
import StoreEvidence
import SyncCore
import SyncProtocol
import Testing

@testable import SyncService

@Suite("Evidence that devices send")
struct EvidenceRouteTests {
    @Test("The same evidence twice gives the same answer and the same server ledger")
    func idempotent() async throws {
        let stage = try await EvidenceStage(.verified)
        let sales = [Sale("1", at: stage.now), Sale.month("2", of: "2", at: stage.now)]
        let first = try await stage.send(sales, as: stage.alice)
        #expect(first.status == 200 && first.results == ["2", "2"])
        let ledger = try await stage.serverLedger(of: stage.alice)
        let second = try await stage.send(sales, as: stage.alice)
        #expect(second.body == first.body)
        #expect(try await stage.serverLedger(of: stage.alice) == ledger)
    }

    @Test("Evidence that a device sends for another account than that of its token is refused, and nothing is recorded")
    func anotherAccount() async throws {
        let stage = try await EvidenceStage(.verified)
        let items = [["kind": "app-store-transaction", "jws": try StoreMint.jws(Sale("1", at: stage.now))]]
        for (account, status) in [
            (["name": "bob", "incarnation": "initial"], 409), (["name": "alice", "incarnation": "former"], 409),
            (["name": "alice"], 400),
        ] {
            let reply = await stage.alice.service.ask(
                .post, "/v1/transactions", token: stage.alice.token, json: ["evidence": items, "account": account])
            #expect(reply.status == status, "\(account)")
        }
        #expect(await stage.rights(of: stage.alice).isEmpty)
    }

    @Test("The refusal of another account's purchase advises a restore only if one can succeed")
    func ownershipAdvice() async throws {
        let first = "because this server keeps a purchase with its first account"
        let cases: [(ServiceConfiguration.Ownership, isRestore: Bool, advice: String)] = [
            (.keepWithFirst, false, first), (.keepWithFirst, true, first),
            (.transfer, false, "or restore purchases"), (.transfer, true, "signed within the last hour"),
        ]
        for (ownership, isRestore, advice) in cases {
            let stage = try await EvidenceStage(.verified, ownership)
            let sale = Sale("1", at: stage.now)
            #expect(try await stage.send([sale], as: stage.alice).results == ["2"])
            // Signed before the claim, so that no restore may move it.
            let reply = try await stage.send([sale], as: stage.bob, isRestore: isRestore)
            let results = try #require(reply.members["results"] as? [[String: Any]])
            let problem = try #require(results.first?["problem"] as? [String: Any])
            #expect(problem["code"] as? String == "owned-by-another")
            let detail = try #require(problem["detail"] as? String)
            #expect(detail.contains("log in to that account") && detail.contains(advice), "\(ownership): \(detail)")
            #expect(detail.contains("restore") == (ownership == .transfer))
        }
    }

    @Test("An answer states each fact with its transaction, product and dates")
    func facts() async throws {
        let stage = try await EvidenceStage(.verified)
        let sale = Sale.month("2", of: "1", at: stage.now)
        let reply = try await stage.send([sale.refunded(at: stage.now + 1_000)], as: stage.alice)
        let results = try #require(reply.members["results"] as? [[String: Any]])
        let facts = try #require(results.first?["facts"] as? [[String: Any]])
        let purchase = try #require(facts.first { $0["kind"] as? String == "purchase" })
        #expect(purchase["transactionID"] as? String == "2" && purchase["originalTransactionID"] as? String == "1")
        #expect(purchase["productID"] as? String == "month")
        let end = Timestamp(milliseconds: stage.now + 30 * EvidenceStage.day)
        #expect(purchase["expiresDate"] as? String == "\(end)")
        let revocation = try #require(facts.first { $0["kind"] as? String == "revocation" })
        #expect(revocation["revokedAt"] as? String == "\(Timestamp(milliseconds: stage.now + 1_000))")
    }

    @Test("One forged item spoils no other, and is named with the failed check")
    func mixed() async throws {
        let stage = try await EvidenceStage(.verified)
        let good = try StoreMint.jws(Sale("1", at: stage.now))
        let reply = await stage.send(
            [
                ["kind": "app-store-transaction", "jws": "a.b.c"], ["kind": "app-store-transaction", "jws": good],
                ["kind": "stripe", "data": "x"], ["kind": "google-play", "data": "x", "signature": "y"],
                ["kind": "app-store-receipt", "data": "***"], ["kind": "app-store-transaction"],
            ], as: stage.alice)
        #expect(
            reply.results == [
                "evidence-refused", "2", "evidence-refused", "not-configured", "evidence-refused", "evidence-refused",
            ])
        let problems = (reply.members["results"] as? [[String: Any]] ?? []).map { $0["problem"] as? [String: Any] }
        #expect(problems.map { $0?["check"] as? String }[2...] == ["kind", nil, "format", "format"])
        #expect(!String(decoding: reply.body, as: UTF8.self).contains("a.b.c"))
        #expect(stage.notes.all.count == 6 && stage.notes.all.filter(\.isNotable).count == 5)
        #expect(stage.notes.all.allSatisfy { $0.account == "alice" })
    }

    @Test("If an item fails only because of the clocks, nothing is recorded and the device tries again")
    func clockSkew() async throws {
        let stage = try await EvidenceStage(.verified)
        let sales = [Sale("1", at: stage.now), Sale("2", at: stage.now, signed: stage.now + 301_000)]
        let reply = try await stage.send(sales, as: stage.alice)
        #expect(reply.status == 503 && reply.fields[.retryAfter] != nil)
        #expect(reply.problem?.error == "clock-skew")
        #expect(await stage.rights(of: stage.alice).isEmpty)
        stage.clock.advance(seconds: 2)
        #expect(try await stage.send(sales, as: stage.alice).results == ["2", "2"])
    }

    @Test("A renewal info needs a line that the account owns already, or a transaction beside it")
    func renewal() async throws {
        let stage = try await EvidenceStage(.verified)
        let renewal = [
            "kind": "app-store-renewal", "jws": try StoreMint.renewal(of: "1", at: stage.now),
        ]
        #expect(await stage.send([renewal], as: stage.alice).results == ["evidence-refused"])
        #expect(stage.service.recorder.parked.byteCount == 0, "a renewal info may be of any app")
        let sale = Sale.month("1", of: "1", at: stage.now)
        let transaction = ["kind": "app-store-transaction", "jws": try StoreMint.jws(sale)]
        #expect(await stage.send([renewal, transaction], as: stage.alice).results == ["1", "2"])
        #expect(await stage.send([renewal], as: stage.bob).results == ["owned-by-another"])
    }

    @Test("Evidence with the token of another account goes to that account")
    func otherToken() async throws {
        let stage = try await EvidenceStage(.verified)
        let token = try #require(await stage.token(of: stage.alice))
        let sale = Sale("1", at: stage.now, token: token)
        #expect(try await stage.send([sale], as: stage.bob).results == ["owned-by-another"])
        #expect(await stage.rights(of: stage.alice) == ["owl"])
        #expect(await stage.rights(of: stage.bob).isEmpty)
    }

    @Test("A purchase in the sandbox counts there only")
    func environment() async throws {
        let stage = try await EvidenceStage(.verified)
        var sale = Sale("1", at: stage.now)
        sale.environment = "Sandbox"
        #expect(try await stage.send([sale], as: stage.alice).results == ["2"])
        #expect(await stage.rights(of: stage.alice).isEmpty)
        #expect(await stage.rights(of: stage.alice, environment: "sandbox") == ["owl"])
        #expect(await stage.rights(of: stage.alice).isEmpty)
        let bad = await stage.service.ask(.get, "/v1/entitlements?environment=", token: stage.alice.token)
        #expect(bad.status == 400)
    }

    @Test("A verified purchase of an unknown product is kept")
    func unknownProduct() async throws {
        let stage = try await EvidenceStage(.verified)
        var sale = Sale("1", at: stage.now)
        sale.product = "later"
        #expect(try await stage.send([sale], as: stage.alice).results == ["2"])
        #expect(try await stage.serverLedger(of: stage.alice).transactions(ofLine: sale.line) == [sale.reference])
    }

    @Test(
        "Malformed requests are refused as a whole",
        arguments: [
            (#"{"evidence":[]}"#, 400), (#"{"evidence":{}}"#, 400), ("[]", 400), ("{", 400), ("", 400),
            (#"{"evidence":[{"kind":"a"}],"restore":1}"#, 400), (#"{"evidence":[],"evidence":[]}"#, 400),
        ])
    func malformed(body: String, status: Int) async throws {
        let stage = try await EvidenceStage(.verified)
        let reply = await stage.service.ask(
            .post, "/v1/transactions", token: stage.alice.token, [.contentType: "application/json"],
            body: Array(body.utf8))
        #expect(reply.status == status)
    }

    @Test("Too many items, long bodies, other content types and missing tokens are refused")
    func limits() async throws {
        let stage = try await EvidenceStage(.verified)
        let item = ["kind": "app-store-transaction", "jws": "a.b.c"]
        #expect(await stage.send(Array(repeating: item, count: 100), as: stage.alice).status == 200)
        #expect(await stage.send(Array(repeating: item, count: 101), as: stage.alice).status == 400)
        let long = await stage.service.ask(
            .post, "/v1/transactions", token: stage.alice.token, [.contentType: "application/json"],
            body: [UInt8](repeating: 0x20, count: 2 << 20 + 1))
        #expect(long.status == 413)
        let form = await stage.service.ask(
            .post, "/v1/transactions", token: stage.alice.token,
            [.contentType: "application/x-www-form-urlencoded"], body: Array("evidence=1".utf8))
        #expect(form.status == 415)
        #expect(await stage.service.ask(.post, "/v1/transactions", json: ["evidence": [item]]).status == 401)
        let byOperator = await stage.service.ask(
            .post, "/v1/transactions", token: .operatorToken, json: ["evidence": [item]])
        #expect(byOperator.status == 401 || byOperator.status == 403)
    }

    @Test("Failed evidence costs an account more than its requests")
    func cost() async throws {
        let stage = try await EvidenceStage(.verified)
        let item = ["kind": "app-store-transaction", "jws": "a.b.c"]
        var count = 0
        while count < 100, await stage.send(Array(repeating: item, count: 32), as: stage.alice).status == 200 {
            count += 1
        }
        #expect(count < 10)
        #expect(try await stage.send([Sale("1", at: stage.now)], as: stage.bob).status == 200)
    }
}
