import Entitlements
import ServiceTestSupport
import StoreEvidence
import SyncCore
import Testing

@testable import SyncService

@Suite("Notifications of one-time products, and acknowledgements at Google Play")
struct PlayProductNotificationTests {
    private static let pending = ",\"acknowledgementState\":\"ACKNOWLEDGEMENT_STATE_PENDING\""

    @Test("A one-time product is looked up, counts for the account of its token, and is acknowledged")
    func bought() async throws {
        let play = try await PlayStage()
        play.desk.set(product: PlayStage.product("PENDING", members: Self.pending))
        #expect(await play.pushProduct() == 200)
        #expect(await play.stage.rights(of: play.stage.alice) == [])
        #expect(play.desk.acknowledged == [])
        play.desk.set(product: PlayStage.product(members: Self.pending))
        #expect(await play.pushProduct() == 200)
        #expect(await play.stage.rights(of: play.stage.alice) == ["owl"])
        #expect(play.desk.acknowledged == ["product owl token com.example.owl"])
        play.desk.set(product: PlayStage.product())
        #expect(await play.pushProduct() == 200)
        #expect(play.desk.acknowledged.count == 1)
    }

    @Test("A subscription is acknowledged too, also while it waits for an owner")
    func subscription() async throws {
        let play = try await PlayStage()
        let answer = PlayStage.subscription(order: "GPA.1-2", until: 30, members: Self.pending)
        play.desk.set(subscription: answer.replacing(PlayStage.token, with: "unknown"))
        #expect(await play.pushSubscription(4) == 200)
        #expect(play.stage.notes.all.map(\.outcome) == [.parked])
        #expect(play.desk.acknowledged == ["subscription month token com.example.owl"])
    }

    @Test("An acknowledgement that fails is repeated with the notification, and loses nothing")
    func failure() async throws {
        let play = try await PlayStage()
        play.desk.set(product: PlayStage.product(members: Self.pending))
        play.desk.refuse(true)
        #expect(await play.pushProduct() == 503)
        #expect(await play.stage.rights(of: play.stage.alice) == ["owl"])
        let ledger = try await play.stage.serverLedger(of: play.stage.alice)
        play.desk.refuse(false)
        #expect(await play.pushProduct() == 200)
        #expect(play.desk.acknowledged == ["product owl token com.example.owl"])
        #expect(try await play.stage.serverLedger(of: play.stage.alice) == ledger)
    }

    @Test("A refund of a part leaves the rest, and a refund of all of it leaves nothing")
    func partialRefund() async throws {
        let play = try await PlayStage()
        play.desk.set(product: PlayStage.product(quantity: 3, left: 3))
        #expect(await play.pushProduct() == 200)
        #expect(try await play.purchases()["GPA.1-2/owl"]?.quantity == 3)
        play.wait(until: 1)
        play.desk.set(product: PlayStage.product(quantity: 3, left: 1))
        #expect(await play.pushRefund("GPA.1-2", type: 2) == 200)
        #expect(try await play.purchases()["GPA.1-2/owl"]?.quantity == 1)
        #expect(await play.stage.rights(of: play.stage.alice) == ["owl"])
        play.wait(until: 2)
        play.desk.set(product: PlayStage.product(quantity: 3, left: 0))
        #expect(await play.pushRefund("GPA.1-2", type: 2) == 200)
        #expect(await play.stage.rights(of: play.stage.alice) == [])
    }

    @Test(
        "A purchase of a licence tester counts in the environment test only, also if a device sends it",
        arguments: [true, false])
    func tester(_ isSentFirst: Bool) async throws {
        let play = try await PlayStage()
        play.desk.set(product: PlayStage.product(members: ",\"testPurchaseContext\":{\"fopType\":\"TEST\"}"))
        let sent = Purchase(
            transaction: TransactionReference(store: .googlePlay, id: "GPA.1-2/owl"), product: "owl", terms: nil,
            date: PlayStage.date(0), stamp: .signed(at: PlayStage.date(0)))
        let evidence = VerifiedEvidence(
            kind: .googlePlay, facts: [.purchase(sent)], signedDate: PlayStage.date(0), accountToken: PlayStage.token,
            aliases: [TransactionReference(store: .googlePlay, id: "token"): [sent.transaction]])
        for isSent in [isSentFirst, !isSentFirst] {
            play.stage.clock.advance(seconds: 1)
            if isSent {
                _ = try await play.stage.service.recorder.record(evidence, from: nil, isRestore: false)
            } else {
                #expect(await play.pushProduct() == 200)
            }
        }
        #expect(await play.stage.rights(of: play.stage.alice) == [])
        #expect(await play.stage.rights(of: play.stage.alice, environment: "test") == ["owl"])
    }

    @Test("Catching up looks up both kinds of tokens and acknowledges them, and a second run changes nothing")
    func catchUp() async throws {
        let play = try await PlayStage()
        play.desk.set(product: PlayStage.product("CANCELLED", members: Self.pending), for: "cancelled")
        play.desk.set(product: PlayStage.product(members: Self.pending).replacing("GPA.1-2", with: "GPA.5-6"))
        let intake = try await NotificationIntake(
            play.stage.store, play.stage.service.configuration, host: play.stage.clock.host,
            onError: { _ in })
        func lookUp() async throws {
            for token in ["token", "cancelled"] {
                #expect(try await intake.lookUp(packageName: "com.example.owl", purchaseToken: token) == .recorded)
            }
        }
        try await lookUp()
        #expect(play.desk.acknowledged == ["product owl token com.example.owl"])
        #expect(await play.stage.rights(of: play.stage.alice) == ["owl"])
        let ledger = try await play.stage.serverLedger(of: play.stage.alice)
        play.wait(until: 1)
        try await lookUp()
        #expect(try await play.stage.serverLedger(of: play.stage.alice) == ledger)
        play.desk.refuse(true)
        let failure = await #expect(throws: AcknowledgementFailure.self) {
            try await intake.lookUp(packageName: "com.example.owl", purchaseToken: "token")
        }
        #expect(failure?.outcome == .recorded)
        #expect(try await play.stage.serverLedger(of: play.stage.alice) == ledger)
    }

    @Test("A token is unknown if both look-ups say so, and any other failure of the second one is told")
    func failedLookUp() async throws {
        let play = try await PlayStage()
        let intake = try await NotificationIntake(
            play.stage.store, play.stage.service.configuration, host: play.stage.clock.host,
            onError: { _ in })
        func failure() async -> PlayDesk.Failure? {
            await #expect(throws: PlayDesk.Failure.self) {
                try await intake.lookUp(packageName: "com.example.owl", purchaseToken: "gone")
            }
        }
        #expect(await failure()?.isNotFound == true)
        play.desk.failProducts(PlayDesk.Failure())
        #expect(await failure()?.isNotFound == false)
        play.desk.failProducts(PlayDesk.Failure(isRejected: true))
        #expect(await failure()?.isRejected == true)
        play.desk.failProducts(nil)
        #expect(await failure()?.isNotFound == true)
    }
}
