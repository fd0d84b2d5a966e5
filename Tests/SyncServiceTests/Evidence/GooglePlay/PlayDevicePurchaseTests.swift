import Entitlements
import HTTPTypes
import ServiceTestSupport
import SyncCore
import SyncProtocol
import Testing

@testable import SyncService

@Suite("Purchases of Google Play that only a device sends")
struct PlayDevicePurchaseTests {
    private static let pending = ",\"acknowledgementState\":\"ACKNOWLEDGEMENT_STATE_PENDING\""

    @Test("Such a purchase is looked up and acknowledged, and not again once Google Play says so")
    func acknowledged() async throws {
        let play = try await PlayStage()
        play.desk.set(product: PlayStage.product(members: Self.pending))
        #expect(try await play.send(as: play.stage.alice).results == ["1"])
        #expect(await play.stage.rights(of: play.stage.alice) == ["owl"])
        #expect(play.desk.acknowledged == ["product owl token com.example.owl"])
        let ledger = try await play.stage.serverLedger(of: play.stage.alice)
        play.stage.clock.advance(seconds: 60)
        // A look-up would fail now.
        play.desk.failProducts(PlayDesk.Failure())
        #expect(try await play.send(as: play.stage.alice, members: ",\"acknowledged\":true").results == ["1"])
        #expect(try await play.stage.serverLedger(of: play.stage.alice) == ledger)
        #expect(play.desk.acknowledged.count == 1)
    }

    @Test("The state of a subscription is recorded with the purchase, and so is that of a refunded one")
    func state() async throws {
        let play = try await PlayStage()
        play.desk.set(
            subscription: PlayStage.subscription(order: "GPA.1-2", until: 30, members: Self.pending)
                .replacing("\"month\"", with: "\"owl\""))
        // Later than the purchase, so that the answer is the later statement.
        play.stage.clock.advance(seconds: 60)
        #expect(try await play.send(as: play.stage.alice).results == ["1"])
        #expect(try await play.purchases()["GPA.1-2/owl"]?.storeExpiry == PlayStage.date(30))
        #expect(play.desk.acknowledged == ["subscription owl token com.example.owl"])
        let other = try await PlayStage()
        other.desk.set(product: PlayStage.product(quantity: 1, left: 0))
        other.stage.clock.advance(seconds: 60)
        #expect(try await other.send(as: other.stage.alice).results == ["1"])
        #expect(await other.stage.rights(of: other.stage.alice) == [])
        #expect(other.desk.acknowledged == [])
    }

    @Test("A purchase of a licence tester counts in the environment test only, from the start")
    func tester() async throws {
        let play = try await PlayStage()
        let tested = ",\"testPurchaseContext\":{\"fopType\":\"TEST\"}"
        // Without the token of an account, so that the state alone has no owner.
        let answer = PlayStage.product(members: tested + Self.pending).replacing(PlayStage.token, with: "unknown")
        play.desk.set(product: answer)
        #expect(try await play.send(as: play.stage.alice).results == ["1"])
        let purchases = try await play.stage.serverLedger(of: play.stage.alice).facts.compactMap(\.purchase)
        #expect(purchases.map(\.transaction.environment) == [.test])
        #expect(await play.stage.rights(of: play.stage.alice) == [])
        #expect(await play.stage.rights(of: play.stage.alice, environment: "test") == ["owl"])
        #expect(play.desk.acknowledged == ["product owl token com.example.owl"])
    }

    @Test("If Google Play fails, the purchase is recorded, and the client sends it again")
    func failure() async throws {
        let play = try await PlayStage()
        play.desk.failProducts(PlayDesk.Failure())
        let failed = try await play.send(as: play.stage.alice)
        #expect(failed.status == 503 && failed.problem?.detail.contains("send it again") == true)
        #expect(failed.fields[.retryAfter] == "60")
        #expect(await play.stage.rights(of: play.stage.alice) == ["owl"])
        play.desk.failProducts(nil)
        play.desk.set(product: PlayStage.product(members: Self.pending))
        play.desk.refuse(true)
        #expect(try await play.send(as: play.stage.alice).status == 503)
        play.desk.refuse(false)
        #expect(play.desk.acknowledged == [])
        #expect(try await play.send(as: play.stage.alice).results == ["1"])
        #expect(play.desk.acknowledged == ["product owl token com.example.owl"])
    }

    @Test("After a failure nothing more is looked up in the request, and all its purchases are recorded")
    func oneLookUp() async throws {
        let play = try await PlayStage()
        play.desk.failProducts(PlayDesk.Failure())
        let items = try (1...3).map { try play.evidence(order: "GPA.\($0)") }
        #expect(await play.stage.send(items, as: play.stage.alice).status == 503)
        #expect(play.desk.productLookUpCount == 1)
        #expect(try await Set(play.purchases().keys) == ["GPA.1/owl", "GPA.2/owl", "GPA.3/owl"])
    }

    @Test("An acknowledgement that Google Play rejects does not make the device send the purchase again")
    func rejectedAcknowledgement() async throws {
        let play = try await PlayStage()
        play.desk.set(product: PlayStage.product(members: Self.pending))
        play.desk.refuse(true, PlayDesk.Failure(isRejected: true))
        #expect(try await play.send(as: play.stage.alice).results == ["1"])
        #expect(await play.stage.rights(of: play.stage.alice) == ["owl"])
        #expect(play.desk.acknowledged == [])
    }

    @Test("A purchase that Google Play does not know, or rejects, counts by its signature", arguments: [true, false])
    func unknown(_ isRejected: Bool) async throws {
        let play = try await PlayStage()
        if isRejected { play.desk.failProducts(PlayDesk.Failure(isRejected: true)) }
        #expect(try await play.send(as: play.stage.alice).results == ["1"])
        #expect(await play.stage.rights(of: play.stage.alice) == ["owl"])
    }

    @Test("A purchase of another account is not acknowledged for the one that sends it")
    func another() async throws {
        let play = try await PlayStage()
        #expect(try await play.send(as: play.stage.alice).results == ["1"])
        play.desk.set(product: PlayStage.product(members: Self.pending))
        #expect(try await play.send(as: play.stage.bob).results == ["owned-by-another"])
        #expect(play.desk.acknowledged == [])
    }
}
