import Entitlements
import HTTPTypes
import ServiceTestSupport
import SyncCore
import Testing

@testable import SyncService

@Suite("Clients under the policy verified")
struct VerifiedPolicyServiceTests {
    private let stage: EvidenceStage

    init() async throws { stage = try await EvidenceStage(.verified) }

    private let replica = ReplicaID(bytes: [UInt8](repeating: 7, count: 16))

    private func purchase(
        _ id: String, _ product: ProductID, store: StoreID = .appStore, signed: Timestamp? = nil, time: UInt64 = 1,
        at date: Int64 = EvidenceStage.start
    ) -> Fact {
        .purchase(
            Purchase(
                transaction: TransactionReference(store: store, id: TransactionID(id)), product: product, terms: nil,
                date: Timestamp(milliseconds: date),
                stamp: Stamp(signedDate: signed, logicalTime: LogicalTime(rawValue: time))))
    }

    @Test("A signature in the year 9999 in the client's ledger does not shadow what the store signed")
    func shadowing() async throws {
        let forged = Fact.revocation(
            Revocation(
                transaction: TransactionReference(store: .appStore, id: "1"), revokedAt: nil,
                stamp: Stamp(signedDate: .latest, logicalTime: LogicalTime(rawValue: .max))))
        #expect(await stage.bob.put([purchase("1", "three", signed: .latest, time: .max), forged]).status == 200)
        let sale = Sale("1", at: stage.now)
        #expect(try await stage.send([sale], as: stage.bob).results == ["2"])
        #expect(await stage.rights(of: stage.bob) == ["owl"])
        stage.clock.advance(seconds: 60)
        #expect(try await stage.notify(sale.refunded(at: stage.now)).status == 200)
        #expect(await stage.rights(of: stage.bob).isEmpty)
    }

    @Test("A client's purchases under any store name and date, marks, expiries and claims grant nothing")
    func unproven() async throws {
        let now = Timestamp(milliseconds: stage.now)
        let replica = try #require(replica)
        let last = LogicalTime(rawValue: .max)
        var facts: [Fact] = [
            purchase("9", "owl", signed: .latest, time: .max),
            .flag(Flag(product: "owl", isSet: true, date: now, replica: replica, logicalTime: last)),
            .assertion(
                Assertion(
                    Assertion.Reference(group: "nights", source: "parse", until: .latest), assertedAt: now,
                    recordedAt: now, replica: replica, logicalTime: last)),
            .claim(Claim(account: "bob", incarnation: "x", date: now, logicalTime: last)),
        ]
        for store: StoreID in ["app-store", "google-play", "reported"] {
            facts += [purchase("1", "owl", store: store), purchase("2", "three", store: store)]
        }
        #expect(await stage.bob.put(facts).status == 200)
        #expect(await stage.rights(of: stage.bob).isEmpty)
    }

    @Test("A client cannot reinstate what the store has refunded")
    func reinstatement() async throws {
        let sale = Sale("1", at: stage.now)
        #expect(try await stage.send([sale], as: stage.bob).results == ["2"])
        #expect(await stage.rights(of: stage.bob) == ["owl"])
        stage.clock.advance(seconds: 60)
        #expect(try await stage.notify(sale.refunded(at: stage.now)).status == 200)
        let forged = Revocation(
            transaction: sale.reference, revokedAt: nil,
            stamp: Stamp(signedDate: .latest, logicalTime: LogicalTime(rawValue: .max)))
        #expect(await stage.bob.put([.revocation(forged)]).status == 200)
        #expect(await stage.rights(of: stage.bob).isEmpty)
    }

    @Test("A client cannot give a verified purchase another date")
    func redating() async throws {
        var sale = Sale("1", at: stage.now - 80 * EvidenceStage.day)
        sale.product = "three"
        #expect(try await stage.send([sale], as: stage.bob).results == ["2"])
        #expect(await stage.rights(of: stage.bob) == ["nights"])
        let later = purchase("1", "three", signed: .latest, time: .max, at: stage.now + EvidenceStage.day)
        #expect(await stage.bob.put([later]).status == 200)
        stage.clock.advance(seconds: 20 * 86_400)
        let bob = await stage.bob.at(stage.service)
        #expect(await stage.rights(of: bob).isEmpty)
    }

    @Test("A client that reports another account's transaction first blocks nothing")
    func claimingFirst() async throws {
        #expect(await stage.bob.put([purchase("1", "owl", signed: .latest)]).status == 200)
        #expect(await stage.alice.put([purchase("1", "owl")]).status == 200)
        #expect(try await stage.serverLedger(of: stage.alice).decision(about: Sale("1", at: 0).reference) == nil)
        #expect(try await stage.store.keys().allSatisfy { !$0.hasPrefix("owners/") })
        #expect(try await stage.send([Sale("1", at: stage.now)], as: stage.alice).results == ["2"])
        #expect(await stage.rights(of: stage.alice) == ["owl"])
        #expect(await stage.rights(of: stage.bob).isEmpty)
    }

    @Test("A client cannot write the policy or decisions")
    func serverRecords() async throws {
        let policy = PolicyStatement(.trusted, logicalTime: LogicalTime(rawValue: .max))
        #expect(await stage.bob.put([.policy(policy)]).status == 422)
        #expect(
            await stage.bob.service.ask(
                .put, stage.bob.path + "decisions", token: stage.bob.token, [.ifMatch: "*"], body: [1]
            ).status == 403)
    }

    @Test("Every account states the policy before its ledger is read, also on the synchronous path")
    func policyRecord() async throws {
        #expect(stage.alice.synchronousGet() == nil)
        #expect(await stage.alice.get().status == 404)
        #expect(try await stage.serverLedger(of: stage.alice).policy == .verified)
        #expect(await stage.bob.put([purchase("1", "owl")]).status == 200)
        #expect(try await stage.serverLedger(of: stage.bob).policy == .verified)
    }

    @Test("The policy follows the configuration when it changes back")
    func changedPolicy() async throws {
        #expect(await stage.bob.put([purchase("1", "owl")]).status == 200)
        #expect(await stage.rights(of: stage.bob).isEmpty)
        let trusting = try await EvidenceStage.open(stage.store, stage.clock, .trusted, .keepWithFirst)
        let bob = await stage.bob.at(trusting)
        #expect(await bob.get().status == 200)
        #expect(try await stage.serverLedger(of: bob).policy == .trusted)
        #expect(await stage.rights(of: bob) == ["owl"])
    }

    @Test(
        "A purchase that two clients stored under `verified` counts for the first that asks under `trusted`",
        arguments: [ServiceConfiguration.Ownership.keepWithFirst, .transfer], [true, false])
    func claimedOnChange(_ ownership: ServiceConfiguration.Ownership, _ readsLedger: Bool) async throws {
        #expect(await stage.bob.put([purchase("1", "owl"), purchase("2", "three")]).status == 200)
        #expect(await stage.alice.put([purchase("1", "owl")]).status == 200)
        let trusting = try await EvidenceStage.open(stage.store, stage.clock, .trusted, ownership)
        let (alice, bob) = (await stage.alice.at(trusting), await stage.bob.at(trusting))
        if readsLedger { #expect(await alice.get().status == 200) }
        #expect(await stage.rights(of: alice) == ["owl"])
        if readsLedger { #expect(await bob.get().status == 200) }
        #expect(await stage.rights(of: bob) == ["nights"])
        #expect(try await bob.refusals() == ["1"])
        // A third account that reports it now is refused as well.
        let carol = await LedgerAccount(trusting, "carol")
        #expect(await carol.put([purchase("2", "three")]).status == 200)
        #expect(try await carol.refusals() == ["2"])
    }

    @Test("While the purchases cannot be claimed, reads are answered under the former policy")
    func failedClaims() async throws {
        #expect(await stage.bob.put([purchase("1", "owl")]).status == 200)
        let trusting = try await EvidenceStage.open(stage.store, stage.clock, .trusted, .keepWithFirst)
        let bob = await stage.bob.at(trusting)
        stage.store.fail { key, _ in key.text.hasPrefix("owners/") }
        #expect(await bob.get().status == 200)
        #expect(await stage.rights(of: bob).isEmpty)
        #expect(try await stage.serverLedger(of: bob).policy == .verified)
        stage.store.before(nil)
        #expect(await stage.rights(of: bob) == ["owl"])
    }

    @Test("A reported item follows a changed policy, although the account has not read its ledger since")
    func reportAfterChange() async throws {
        #expect(await stage.bob.put([purchase("1", "owl")]).status == 200)
        let trusting = try await EvidenceStage.open(stage.store, stage.clock, .trusted, .keepWithFirst)
        let bob = await stage.bob.at(trusting)
        let item: [String: any Sendable] = ["kind": "flag", "product": "owl", "set": true]
        let reply = await trusting.ask(.post, "/v1/transactions", token: bob.token, json: ["evidence": [item]])
        #expect(reply.status == 200)
        #expect(try await stage.serverLedger(of: bob).policy == .trusted)
    }

    @Test("After the change to `trusted`, new evidence does not make unclaimed purchases count")
    func evidenceAfterChange() async throws {
        #expect(await stage.bob.put([purchase("1", "owl")]).status == 200)
        let trusting = try await EvidenceStage.open(stage.store, stage.clock, .trusted, .keepWithFirst)
        let (alice, bob) = (await stage.alice.at(trusting), await stage.bob.at(trusting))
        #expect(try await stage.send([Sale("2", at: stage.now)], as: bob).results == ["2"])
        #expect(await alice.put([purchase("1", "owl")]).status == 200)
        #expect(await bob.get().status == 200)
        #expect(try await bob.refusals() == ["1"])
        #expect(await stage.rights(of: alice) == ["owl"])
    }

    @Test("A server that still verifies takes back the statement of the policy if it stores a purchase meanwhile")
    func concurrentChange() async throws {
        let trusting = try await EvidenceStage.open(stage.store, stage.clock, .trusted, .keepWithFirst)
        let (alice, bob) = (await stage.alice.at(trusting), await stage.bob.at(trusting))
        let key = try stage.bob.ledger
        let gate = stage.store.pause { $0 == key }
        async let written = stage.bob.put([purchase("1", "owl")])
        await gate.reached.wait()
        #expect(await bob.get().status == 404)
        #expect(await alice.put([purchase("1", "owl")]).status == 200)
        gate.open()
        #expect(await written.status == 200)
        stage.store.before(nil)
        #expect(await stage.rights(of: bob).isEmpty)
        #expect(await stage.rights(of: alice) == ["owl"])
    }

    @Test("What takes away counts from clients, too")
    func ownRevocation() async throws {
        let sale = Sale("1", at: stage.now)
        #expect(try await stage.send([sale], as: stage.bob).results == ["2"])
        let cleared = Flag(
            product: "owl", isSet: false, date: Timestamp(milliseconds: stage.now),
            replica: try #require(replica),
            logicalTime: LogicalTime(rawValue: 1))
        #expect(await stage.bob.put([.flag(cleared)]).status == 200)
        #expect(await stage.rights(of: stage.bob) == ["owl"], "a cleared flag does not end a purchase")
    }

    @Test("A catalogue with consumables of one device does not fit the policy, and the error names the remedy")
    func deviceLocalConsumables() throws {
        var configuration = ServiceConfiguration(name: "https://sync.example.com")
        configuration.policy = .verified
        let products = #""products":[{"id":"coins","type":"consumable","units":5}]"#
        let remedy = #""policy": {"consumables": "shared"}"#
        configuration.catalog = try Catalog(json: Array("{\(products)}".utf8))
        let error = #expect(throws: ConfigurationError.self) { try configuration.check() }
        #expect(error?.description.contains("add \(remedy) to the catalogue") == true, "\(String(describing: error))")
        configuration.catalog = try Catalog(json: Array("{\(products),\(remedy)}".utf8))
        #expect(throws: Never.self) { try configuration.check() }
        configuration.catalog = try Catalog(json: Array("{\(products)}".utf8))
        configuration.policy = .trusted
        #expect(throws: Never.self) { try configuration.check() }
    }
}
