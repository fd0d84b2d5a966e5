import Entitlements
import EvidenceTestSupport
import HTTPTypes
import ServiceTestSupport
import StoreEvidence
import SyncCore
import Testing

@testable import SyncService

@Suite("Payments of other apps of an account at Stripe")
struct StripeForgottenTests {
    private static let day: Int64 = 86_400
    private static let secret = StripeSecret()
    private static let refund = "{\"id\":\"ch_1\",\"refunded\":true,\"payment_intent\":\"pi_1\"}"
    private static let payment =
        "{\"id\":\"inpay_1\",\"invoice\":\"in_1\",\"payment\":{\"payment_intent\":\"pi_1\"}}"

    private func stage(parkedByteLimit: Int = 64 << 20) async throws -> EvidenceStage {
        try await EvidenceStage(.verified, parkedByteLimit: parkedByteLimit) {
            $0.stripe = StripeVerifier(secrets: [Self.secret.text], productsByPrice: ["price_month": "month"])
        }
    }

    private func send(_ type: String, _ object: String, to stage: EvidenceStage) async throws -> Int {
        let seconds = stage.now / 1_000
        let body =
            "{\"id\":\"evt_7\",\"object\":\"event\",\"type\":\"\(type)\",\"created\":\(seconds),"
            + "\"livemode\":true,\"data\":{\"object\":\(object)}}"
        var fields: HTTPFields = [.contentType: "application/json"]
        fields[try #require(HTTPField.Name("Stripe-Signature"))] = Self.secret.signature(of: body, at: seconds)
        return await stage.service.ask(.post, "/v1/notifications/stripe", fields, body: Array(body.utf8)).status
    }

    /// An invoice of a known product for a year.
    private func invoice(_ id: String, of subscription: String, token: String = "") -> String {
        let start = EvidenceStage.start / 1_000
        return
            "{\"id\":\"\(id)\",\"parent\":{\"subscription_details\":{\"subscription\":\"\(subscription)\",\"metadata\":"
            + "{\"entitlementsync_account\":\"\(token)\"}}},\"lines\":{\"data\":[{\"amount\":500,"
            + "\"pricing\":{\"price_details\":{\"price\":\"price_month\"}},"
            + "\"period\":{\"start\":\(start),\"end\":\(start + 365 * Self.day)}}]}}"
    }

    /// Sends refunds, disputes, payments and a Checkout of another app.
    private func sendOthers(to stage: EvidenceStage) async throws {
        let others = [
            ("charge.refunded", Self.refund), ("invoice_payment.paid", Self.payment),
            (
                "charge.dispute.created",
                "{\"id\":\"dp_1\",\"status\":\"needs_response\",\"payment_intent\":\"pi_2\"}"
            ),
            (
                "checkout.session.completed",
                "{\"id\":\"cs_1\",\"mode\":\"subscription\",\"subscription\":\"sub_1\",\"payment_status\":\"paid\","
                    + "\"client_reference_id\":\"0f8fad5b-d9cb-469f-a165-70867728950e\"}"
            ),
        ]
        for (type, object) in others { #expect(try await send(type, object, to: stage) == 200) }
    }

    private func isRefunded(_ id: TransactionID, in stage: EvidenceStage) async throws -> Bool {
        // The access token of the stage has expired.
        let alice = await stage.alice.at(stage.service)
        return try await stage.serverLedger(of: alice).facts.contains { fact in
            guard case .revocation(let refund) = fact else { return false }
            return refund.transaction.id == id && refund.revokedAt != nil
        }
    }

    @Test("What they state is dropped after five weeks, and what belongs to a known product stays")
    func dropped() async throws {
        let stage = try await stage()
        // A purchase without an owner, one with an owner, and a payment of each.
        let token = try #require(await stage.token(of: stage.alice))
        #expect(try await send("invoice.paid", invoice("in_8", of: "sub_8"), to: stage) == 200)
        #expect(try await send("invoice.paid", invoice("in_9", of: "sub_9", token: token), to: stage) == 200)
        for number in [8, 9] {
            let payment = Self.payment.replacing("_1\"", with: "_\(number)\"")
            #expect(try await send("invoice_payment.paid", payment, to: stage) == 200)
        }
        let (before, size) = (try await stage.store.keys(), stage.service.recorder.parked.byteCount)
        try await sendOthers(to: stage)
        let after = try await stage.store.keys()
        let new = after.filter { !before.contains($0) }
        #expect(Set(new.map { $0.split(separator: "/")[1] }) == ["names", "parked", "waiting"], "\(new)")
        for days in [0, 34] as [Int64] {
            stage.clock.advance(seconds: days * Self.day)
            await stage.service.evidenceSweeper.sweep()
            #expect(try await stage.store.keys() == after)
        }
        stage.clock.advance(seconds: Self.day)
        await stage.service.evidenceSweeper.sweep()
        #expect(try await stage.store.keys() == before)
        #expect(stage.service.recorder.parked.byteCount == size)
        let refund = Self.refund.replacing("pi_1", with: "pi_9")
        #expect(try await send("charge.refunded", refund, to: stage) == 200)
        #expect(try await isRefunded("in_9", in: stage))
    }

    @Test("A refund that waits for its purchase counts when the purchase arrives within that time")
    func late() async throws {
        let stage = try await stage()
        let token = try #require(await stage.token(of: stage.alice))
        #expect(try await send("charge.refunded", Self.refund, to: stage) == 200)
        await stage.service.evidenceSweeper.sweep()
        stage.clock.advance(seconds: 34 * Self.day)
        #expect(try await send("invoice_payment.paid", Self.payment, to: stage) == 200)
        await stage.service.evidenceSweeper.sweep()
        #expect(try await send("invoice.paid", invoice("in_1", of: "sub_1", token: token), to: stage) == 200)
        #expect(try await isRefunded("in_1", in: stage))
        #expect(try await !stage.store.keys().contains { $0.hasPrefix("server/parked/") })
    }

    @Test("An event without a purchase for which there is no room is answered and logged with the remedy; others wait")
    func full() async throws {
        let stage = try await stage(parkedByteLimit: 400)
        for number in 1...10 {
            let refund = Self.refund.replacing("pi_1", with: "pi_\(number)")
            #expect(try await send("charge.refunded", refund, to: stage) == 200)
        }
        let note = try #require(stage.notes.all.last)
        #expect(note.outcome == .full && note.isNotable)
        #expect(
            note.reason.hasPrefix("the room for facts without an owner is full (400 bytes); see syncd notifications"))
        #expect(note.reason.contains("is dropped after 35 days"))
        #expect(note.reason.hasSuffix("send it again when there is room: stripe events resend evt_7"))
        #expect(try await stage.notify(Sale("1", at: stage.now)).status == 503)
        #expect(try await send("invoice.paid", invoice("in_1", of: "sub_1"), to: stage) == 503)
        // The time from which facts wait needs no room.
        await stage.service.evidenceSweeper.sweep()
        stage.clock.advance(seconds: 35 * Self.day)
        await stage.service.evidenceSweeper.sweep()
        #expect(stage.service.recorder.parked.byteCount == 0)
        #expect(try await stage.notify(Sale("1", at: stage.now)).status == 200)
    }

    @Test("A Checkout that does not say how many units were bought is logged, unless one unit is all there is")
    func units() async throws {
        let stage = try await stage()
        func sell(_ id: String, _ metadata: String, _ members: String = "") async throws -> EvidenceNote? {
            let checkout =
                "{\"id\":\"cs_\(id)\",\"mode\":\"payment\",\"payment_status\":\"paid\",\"payment_intent\":\"pi_\(id)\","
                + "\"metadata\":{\"entitlementsync_product\":\(metadata)}\(members)}"
            #expect(try await send("checkout.session.completed", checkout, to: stage) == 200)
            return stage.notes.all.last
        }
        let quantity = "\"three\",\"entitlementsync_quantity\":\"20\""
        let unknown = try #require(try await sell("1", quantity))
        #expect(unknown.outcome == .parked && unknown.isNotable)
        #expect(
            unknown.description.contains(", of the quantity 20; if the buyer can adjust the quantity, set metadata"))
        #expect(unknown.description.contains("entitlementsync_unit_amount of the session"))
        let price = ",\"entitlementsync_unit_amount\":\"499\""
        let stated = try await sell("2", quantity + price, ",\"amount_subtotal\":998")
        #expect(stated?.isNotable == false && stated?.reason == "")
        let owned = try await sell("3", "\"owl\"")
        #expect(owned?.isNotable == false && owned?.reason == "")
    }
}
