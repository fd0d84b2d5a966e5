import Entitlements
import EvidenceTestSupport
import Foundation
import HTTPTypes
import ServiceTestSupport
import StoreEvidence
import SyncCore
import Synchronization
import Testing

@testable import SyncService

@Suite("An account at Stripe with products of several apps")
struct StripeAccountTests {
    private static let hour: Int64 = 3_600
    private static let secret = StripeSecret()
    private let stage: EvidenceStage

    init() async throws {
        stage = try await EvidenceStage(.verified) {
            $0.stripe = StripeVerifier(
                secrets: [Self.secret.text], productsByPrice: ["price_month": "month", "price_extra": "extra"])
        }
    }

    private var seconds: Int64 { stage.now / 1_000 }
    private static var start: Int64 { EvidenceStage.start / 1_000 }

    private func fields(of body: String, secret: StripeSecret = secret) throws -> HTTPFields {
        var fields: HTTPFields = [.contentType: "application/json"]
        fields[try #require(HTTPField.Name("Stripe-Signature"))] = secret.signature(of: body, at: seconds)
        return fields
    }

    private func send(
        body: String, secret: StripeSecret = secret, to service: EntitlementService? = nil
    ) async throws -> Int {
        let fields = try self.fields(of: body, secret: secret)
        let service = service ?? stage.service
        return await service.ask(.post, "/v1/notifications/stripe", fields, body: Array(body.utf8)).status
    }

    private func event(_ type: String, _ object: String, at date: Int64? = nil) -> String {
        "{\"id\":\"evt_1\",\"object\":\"event\",\"type\":\"\(type)\",\"created\":\(date ?? seconds),"
            + "\"livemode\":true,\"data\":{\"object\":\(object)}}"
    }

    private func send(
        _ type: String, _ object: String, at date: Int64? = nil, to service: EntitlementService? = nil
    ) async throws -> Int {
        try await send(body: event(type, object, at: date), to: service)
    }

    /// An invoice of the prices, paid at the start of the stage for 30 hours.
    private func invoice(_ prices: String..., token: String = "") -> String {
        let lines = prices.map { price in
            "{\"amount\":500,\"pricing\":{\"price_details\":{\"price\":\"\(price)\"}},"
                + "\"period\":{\"start\":\(Self.start),"
                + "\"end\":\(Self.start + 30 * Self.hour)}}"
        }
        return "{\"id\":\"in_1\",\"parent\":{\"subscription_details\":{\"subscription\":\"sub_1\",\"metadata\":"
            + "{\"entitlementsync_account\":\"\(token)\"}}},\"lines\":{\"data\":[\(lines.joined(separator: ","))]}}"
    }

    private func purchases() async throws -> [Purchase] {
        try await stage.serverLedger(of: stage.alice).facts.compactMap(\.purchase)
            .sorted { $0.transaction < $1.transaction }
    }

    private func revoked() async throws -> [TransactionID] {
        let revoked = try await stage.serverLedger(of: stage.alice).facts.compactMap { fact in
            if case .revocation(let fact) = fact { fact.transaction.id } else { nil }
        }
        return revoked.sorted()
    }

    @Test("A subscription that ends at once ends its paid period, in every order of arrival", arguments: [true, false])
    func endedAtOnce(_ isPaidFirst: Bool) async throws {
        let paid = invoice("price_month", token: try #require(await stage.token(of: stage.alice)))
        stage.clock.advance(seconds: 10 * Self.hour)
        let end = seconds
        let deleted =
            "{\"id\":\"sub_1\",\"status\":\"canceled\",\"ended_at\":\(end),"
            + "\"items\":{\"data\":[{\"price\":{\"id\":\"price_month\"}}]}}"
        for isPaid in [isPaidFirst, !isPaidFirst, true, false] {
            if isPaid {
                #expect(try await send("invoice.paid", paid, at: Self.start) == 200)
            } else {
                #expect(try await send("customer.subscription.deleted", deleted, at: end) == 200)
            }
            if isPaidFirst, isPaid, try await purchases().first?.storeExpiry?.milliseconds != end * 1_000 {
                #expect(await stage.rights(of: stage.alice) == ["owls"])
            }
        }
        #expect(await stage.rights(of: stage.alice) == [])
        #expect(try await purchases().map(\.storeExpiry?.milliseconds) == [end * 1_000])
    }

    @Test("A subscription whose end becomes known while its invoice is recorded ends the period of the invoice")
    func endedMeanwhile() async throws {
        let paid = invoice("price_month", token: try #require(await stage.token(of: stage.alice)))
        stage.clock.advance(seconds: 10 * Self.hour)
        let end = seconds
        let deleted = event(
            "customer.subscription.deleted", "{\"id\":\"sub_1\",\"status\":\"canceled\",\"ended_at\":\(end)}")
        let (fields, body) = (try self.fields(of: deleted), Array(deleted.utf8))
        let (service, store) = (stage.service, stage.store)
        let statuses = Mutex<[Int]>([])
        let name = TransactionReference(store: .stripe, id: "in_1").path
        store.before { key, _ throws(BackendError) in
            // The first write after the end was looked for.
            guard key.text.hasSuffix(name) else { return }
            store.before(nil)
            let reply = await service.ask(.post, "/v1/notifications/stripe", fields, body: body)
            statuses.withLock { $0.append(reply.status) }
        }
        #expect(try await send("invoice.paid", paid, at: Self.start) == 200)
        #expect(statuses.withLock { $0 } == [200])
        for _ in 0..<2 {
            #expect(try await purchases().map(\.storeExpiry?.milliseconds) == [end * 1_000])
            #expect(await stage.rights(of: stage.alice) == [])
            #expect(try await send("invoice.paid", paid, at: Self.start) == 200)
        }
    }

    @Test("A subscription that ends with its period keeps the period as the invoice states it")
    func endedWithPeriod() async throws {
        let paid = invoice("price_month", token: try #require(await stage.token(of: stage.alice)))
        #expect(try await send("invoice.paid", paid) == 200)
        stage.clock.advance(seconds: 31 * Self.hour)
        let before = try await purchases()
        let deleted = "{\"id\":\"sub_1\",\"status\":\"canceled\",\"ended_at\":\(Self.start + 30 * Self.hour)}"
        #expect(try await send("customer.subscription.deleted", deleted) == 200)
        #expect(try await purchases() == before)
    }

    @Test(
        "Events about products of other apps and thin events are answered, logged with the remedy, and change nothing")
    func otherProducts() async throws {
        let before = try await stage.store.keys()
        let checkout =
            "{\"id\":\"cs_1\",\"mode\":\"payment\",\"payment_status\":\"paid\",\"payment_intent\":\"pi_1\","
            + "\"metadata\":{}}"
        let subscription =
            "{\"id\":\"sub_2\",\"status\":\"active\",\"items\":{\"data\":[{\"price\":{\"id\":\"price_other\"}}]}}"
        #expect(try await send("invoice.paid", invoice("price_other")) == 200)
        #expect(try await send("checkout.session.completed", checkout) == 200)
        #expect(try await send("customer.subscription.updated", subscription) == 200)
        let thin =
            "{\"id\":\"evt_2\",\"object\":\"v2.core.event\",\"type\":\"v1.billing.meter.no_meter_found\","
            + "\"livemode\":true,\"created\":\"2027-01-15T08:00:00.000Z\"}"
        #expect(try await send(body: thin) == 200)
        #expect(stage.notes.all.map(\.outcome) == Array(repeating: .unknownProduct, count: 4))
        let unnamed =
            "{\"id\":\"cs_2\",\"mode\":\"subscription\",\"subscription\":\"sub_3\",\"payment_status\":\"paid\"}"
        #expect(try await send("checkout.session.completed", unnamed) == 200)
        #expect(stage.notes.all.last?.outcome == .ignored)
        #expect(try await stage.store.keys() == before)
        let lines = stage.notes.all.map(\.description)
        #expect(
            lines[0].hasSuffix(
                ": the product of price_other is unknown; set metadata entitlementsync_product of the price, or map "
                    + "the price to a product (syncd serve --stripe-price price_other=PRODUCT), and send the event "
                    + "again: stripe events resend evt_1; ignore this if another app sells the product"))
        #expect(lines[1].contains("metadata entitlementsync_product of the session"))
        #expect(lines[1].contains("syncd record purchase PRODUCT --as-server"))
        #expect(lines[3].contains("set the payload style of the event destination to snapshot"))
        #expect(stage.notes.all.filter(\.isNotable).count == 4)
        #expect(try await send(body: thin, secret: StripeSecret("whsec_other")) == 400)
    }

    @Test("The end of a known subscription counts, also if its price is no longer mapped")
    func unmappedPrice() async throws {
        let paid = invoice("price_month", token: try #require(await stage.token(of: stage.alice)))
        #expect(try await send("invoice.paid", paid) == 200)
        stage.clock.advance(seconds: Self.hour)
        let deleted =
            "{\"id\":\"sub_1\",\"status\":\"canceled\",\"ended_at\":\(seconds),"
            + "\"items\":{\"data\":[{\"price\":{\"id\":\"price_retired\"}}]}}"
        #expect(try await send("customer.subscription.deleted", deleted) == 200)
        #expect(await stage.rights(of: stage.alice) == [])
    }

    @Test(
        "A purchase of an invoice keeps its name when prices are mapped later, or are no longer mapped",
        arguments: [true, false])
    func changedMap(_ isMappedLater: Bool) async throws {
        let paid = invoice("price_month", "price_extra", token: try #require(await stage.token(of: stage.alice)))
        let other = try await EvidenceStage.open(stage.store, stage.clock, .verified, .keepWithFirst) {
            $0.stripe = StripeVerifier(secrets: [Self.secret.text], productsByPrice: ["price_month": "month"])
        }
        for service in isMappedLater ? [other, stage.service, other] : [stage.service, other, stage.service] {
            #expect(try await send("invoice.paid", paid, to: service) == 200)
        }
        let names: [TransactionID] = isMappedLater ? ["in_1", "in_1/extra"] : ["in_1/extra", "in_1/month"]
        #expect(try await purchases().map(\.transaction.id) == names)
        stage.clock.advance(seconds: 1)
        let alias = "{\"id\":\"inpay_1\",\"invoice\":\"in_1\",\"payment\":{\"payment_intent\":\"pi_2\"}}"
        #expect(try await send("invoice_payment.paid", alias) == 200)
        let refund = "{\"id\":\"ch_1\",\"refunded\":true,\"payment_intent\":\"pi_2\"}"
        #expect(try await send("charge.refunded", refund) == 200)
        #expect(try await revoked() == names)
        #expect(await stage.rights(of: stage.alice) == [])
    }

    @Test("Both products of a subscription count, and a refund of the payment reaches both in every order of arrival")
    func twoProducts() async throws {
        let alias = "{\"id\":\"inpay_1\",\"invoice\":\"in_1\",\"payment\":{\"payment_intent\":\"pi_2\"}}"
        let refund = "{\"id\":\"ch_1\",\"refunded\":true,\"payment_intent\":\"pi_2\"}"
        for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
            let test = try await StripeAccountTests()
            let token = try #require(await test.stage.token(of: test.stage.alice))
            let events = [
                ("invoice.paid", test.invoice("price_month", "price_extra", token: token)),
                ("invoice_payment.paid", alias), ("charge.refunded", refund),
            ]
            for index in order {
                test.stage.clock.advance(seconds: 1)
                #expect(try await test.send(events[index].0, events[index].1) == 200)
                if index == 0, order[0] == 0 {
                    #expect(await test.stage.rights(of: test.stage.alice) == ["owls"])
                }
            }
            #expect(try await test.purchases().map(\.transaction.id) == ["in_1/extra", "in_1/month"])
            #expect(try await test.revoked() == ["in_1/extra", "in_1/month"], "\(order)")
            #expect(await test.stage.rights(of: test.stage.alice) == [], "\(order)")
        }
    }
}
