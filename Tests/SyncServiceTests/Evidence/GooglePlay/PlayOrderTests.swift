import Entitlements
import ServiceTestSupport
import StoreEvidence
import SyncCore
import Testing

@testable import SyncService

@Suite("Earlier orders of a subscription at Google Play")
struct PlayOrderTests {
    @Test("After a recovery, a refund of its order ends the access, also if an earlier order had a grace")
    func recovery() async throws {
        let play = try await PlayStage()
        play.desk.set(subscription: PlayStage.subscription(order: "GPA.1-2", until: 30))
        #expect(await play.pushSubscription(4) == 200)
        play.wait(until: 30)
        play.desk.set(subscription: PlayStage.subscription("IN_GRACE_PERIOD", order: "GPA.1-2", until: 40))
        #expect(await play.pushSubscription(6) == 200)
        #expect(await play.stage.rights(of: play.stage.alice) == ["owls"])
        play.wait(until: 31)
        play.desk.set(subscription: PlayStage.subscription(order: "GPA.1-2..0", until: 61))
        #expect(await play.pushSubscription(1) == 200)
        #expect(await play.stage.rights(of: play.stage.alice) == ["owls"])
        play.wait(until: 32)
        #expect(await play.pushRefund("GPA.1-2..0") == 200)
        #expect(await play.stage.rights(of: play.stage.alice) == [])
        #expect(try await play.purchases()["GPA.1-2/month"]?.storeExpiry == PlayStage.date(31))
        // The recovery may be sent again.
        #expect(await play.pushSubscription(1) == 200)
        #expect(await play.stage.rights(of: play.stage.alice) == [])
    }

    @Test(
        "A revoked subscription ends when Google says, whichever order the answer names", arguments: [nil, "GPA.1-2"])
    func revoked(_ order: String?) async throws {
        let play = try await PlayStage()
        play.desk.set(subscription: PlayStage.subscription(order: "GPA.1-2", until: 30))
        #expect(await play.pushSubscription(4) == 200)
        play.wait(until: 29)
        play.desk.set(subscription: PlayStage.subscription(order: "GPA.1-2..0", until: 60))
        #expect(await play.pushSubscription(2) == 200)
        play.wait(until: 33)
        #expect(await play.stage.rights(of: play.stage.alice) == ["owls"])
        play.desk.set(subscription: PlayStage.subscription("EXPIRED", order: order, until: 32.5))
        #expect(await play.pushSubscription(12) == 200)
        #expect(await play.stage.rights(of: play.stage.alice) == [])
        let ends = try await play.purchases().values.compactMap(\.storeExpiry)
        #expect(ends.max() == PlayStage.date(32.5))
        #expect(try await play.purchases()["GPA.1-2..0/month"]?.storeExpiry == PlayStage.date(32.5))
    }

    @Test("An early renewal leaves the access as it is, and a second look-up changes nothing")
    func renewal() async throws {
        let play = try await PlayStage()
        let intake = try await NotificationIntake(
            play.stage.store, play.stage.service.configuration, host: play.stage.clock.host,
            onError: { _ in })
        for (hour, order, end) in [(0, "GPA.1-2", 30), (29, "GPA.1-2..0", 60), (59, "GPA.1-2..1", 90)]
            as [(Double, String, Double)]
        {
            play.wait(until: hour)
            play.desk.set(subscription: PlayStage.subscription(order: order, until: end))
            #expect(try await intake.lookUp(packageName: "com.example.owl", purchaseToken: "token") == .recorded)
            #expect(await play.stage.rights(of: play.stage.alice) == ["owls"])
            let before = try await play.stage.serverLedger(of: play.stage.alice)
            play.stage.clock.advance(seconds: 60)
            #expect(try await intake.lookUp(packageName: "com.example.owl", purchaseToken: "token") == .recorded)
            #expect(try await play.stage.serverLedger(of: play.stage.alice) == before)
        }
        #expect(try await play.purchases().count == 3)
    }

    @Test("An order that a device sends after the subscription has ended grants nothing")
    func lateOrder() async throws {
        let play = try await PlayStage()
        play.wait(until: 3)
        play.desk.set(subscription: PlayStage.subscription("EXPIRED", order: "GPA.1-2..0", until: 2))
        #expect(await play.pushSubscription(12) == 200)
        let sent = Purchase(
            transaction: TransactionReference(store: .googlePlay, id: "GPA.1-2/month"), product: "month", terms: nil,
            date: PlayStage.date(0), stamp: .signed(at: PlayStage.date(0)))
        var evidence = VerifiedEvidence(
            kind: .googlePlay, facts: [.purchase(sent)], signedDate: PlayStage.date(0), accountToken: PlayStage.token,
            aliases: [TransactionReference(store: .googlePlay, id: "token"): [sent.transaction]])
        evidence.subscription = TransactionReference(store: .googlePlay, id: "token")
        for _ in 0..<2 {
            _ = try await play.stage.service.recorder.record(evidence, from: nil, isRestore: false)
            #expect(await play.stage.rights(of: play.stage.alice) == [])
        }
        #expect(try await play.purchases()["GPA.1-2/month"]?.storeExpiry == PlayStage.date(3))
    }
}
