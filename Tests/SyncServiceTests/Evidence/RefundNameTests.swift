import Entitlements
import Foundation
import HTTPTypes
import ServiceTestSupport
import StoreEvidence
import SyncCore
import Testing

@testable import SyncService

@Suite("Refunds that name an order or a payment")
struct RefundNameTests {
    private struct AnyPush: PushAuthentication {
        func verify(_ token: String, now: Int64) async throws(TokenRefusal) {}
    }

    /// A valid key for a verifier that reads notifications and look-ups only.
    private static let key =
        "MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEAx1SXJZ9TefUlMkLzlulfyTgUq9W5vUODXaPct1R3ygWHw/8elZSLYfodsdu9"
        + "c5seVlrGhHBR9vvnvPX26GpWyQgSLdZYcGlUkjrLnF0rn+vVhN4x7k+7cNYWrhZmEKdwlfrhF9RWzKEbr6XK7j4/N6lkibAV1NDtuqPF4z"
        + "SbA+kxdielZiAD22phInNvjAXpBlRkvnTbC3D6iDXx4eaFWuOs2sKJ15+opj5ppQIjn1dBJiVJODDslTr5D+2wbq46I+lPRt3QjpnYtY1b"
        + "iKl6TiiiOQ3frfNkCb0qDV3WlCZx7w27LdojktomnLeWPp03kAUXiSH6CCz6G7OGBFssgQIDAQAB"

    private static func subscription(members: String) -> String {
        func item(_ product: String) -> String {
            "{\"productId\":\"\(product)\",\"expiryTime\":\"2027-06-01T00:00:00Z\","
                + "\"latestSuccessfulOrderId\":\"GPA.1-2..3\"}"
        }
        return "{\"subscriptionState\":\"SUBSCRIPTION_STATE_ACTIVE\",\"startTime\":\"2027-01-01T00:00:00Z\","
            + "\"lineItems\":[\(item("month")),\(item("extra"))]\(members)}"
    }

    private func playStage(_ members: String, _ policy: TrustPolicy = .verified) async throws -> EvidenceStage {
        let verifier = try GooglePlayVerifier(packageNames: ["com.example.owl"], publicKey: Self.key)
        return try await EvidenceStage(policy) {
            ($0.googlePlay, $0.push) = (verifier, AnyPush())
            $0.lookup = PlayDesk(subscriptions: ["token": Self.subscription(members: members)])
        }
    }

    /// Sends a developer notification of Google Play.
    private func push(_ stage: EvidenceStage, _ details: String) async -> Int {
        let text = "{\"packageName\":\"com.example.owl\",\"eventTimeMillis\":\(stage.now),\(details)}"
        let body = "{\"message\":{\"data\":\"\(Data(text.utf8).base64EncodedString())\"}}"
        return await stage.service.ask(
            .post, "/v1/notifications/google-play", token: "google", [.contentType: "application/json"],
            body: Array(body.utf8)
        ).status
    }

    private func bought(_ stage: EvidenceStage) async -> Int {
        await push(stage, "\"subscriptionNotification\":{\"notificationType\":4,\"purchaseToken\":\"token\"}")
    }

    private func refunded(_ stage: EvidenceStage) async -> Int {
        await push(
            stage,
            "\"voidedPurchaseNotification\":{\"purchaseToken\":\"token\",\"orderId\":\"GPA.1-2..3\","
                + "\"refundType\":1}")
    }

    private func revoked(_ stage: EvidenceStage) async throws -> Set<String> {
        let ledger = try await stage.serverLedger(of: stage.alice).ledger
        return Set(
            ledger.records.compactMap { record in
                guard case .revocation(let fact) = Fact(record), fact.revokedAt != nil else { return nil }
                return "\(fact.transaction.environment) \(fact.transaction.id)"
            })
    }

    private func parkedKeys(_ stage: EvidenceStage) async throws -> [String] {
        try await stage.store.keys().filter { $0.hasPrefix("server/parked/") }
    }

    @Test(
        "A refund of an order at Google Play reaches all its products in their environment, early, late and repeated",
        arguments: ["production", "test"],
        [["buy", "refund"], ["refund", "buy"], ["refund", "buy", "buy", "refund"]])
    func order(_ environment: String, _ events: [String]) async throws {
        let token = "0f8fad5b-d9cb-469f-a165-70867728950e"
        let stage = try await playStage(
            ",\"externalAccountIdentifiers\":{\"obfuscatedExternalAccountId\":\"\(token)\"}"
                + (environment == "test" ? ",\"testPurchase\":{}" : ""))
        let registered = await stage.service.ask(
            .post, "/v1/accounts/self/token", token: stage.alice.token, json: ["token": token])
        #expect(registered.status == 204)
        for event in events {
            stage.clock.advance(seconds: 1)
            #expect(await (event == "buy" ? bought(stage) : refunded(stage)) == 200)
        }
        #expect(
            try await revoked(stage) == ["\(environment) GPA.1-2..3/month", "\(environment) GPA.1-2..3/extra"])
        #expect(try await parkedKeys(stage) == [])
        #expect(await stage.rights(of: stage.alice, environment: environment) == [])
    }

    @Test(
        "A refund of an order at Google Play reaches the purchase that a client has reported",
        arguments: [["buy", "refund"], ["refund", "buy"]], 0...2)
    func reportedOrder(_ events: [String], _ reportedAfter: Int) async throws {
        let stage = try await playStage("", .trusted)
        let reported = Purchase(
            transaction: TransactionReference(store: .googlePlay, id: "GPA.1-2..3/month"), product: "month",
            terms: nil, date: Timestamp(milliseconds: stage.now),
            storeExpiry: Timestamp(milliseconds: stage.now + 30 * EvidenceStage.day),
            stamp: Stamp(logicalTime: LogicalTime(rawValue: 1)))
        for (index, event) in (events + ["end"]).enumerated() {
            if index == reportedAfter { #expect(await stage.alice.put([.purchase(reported)]).status == 200) }
            stage.clock.advance(seconds: 1)
            if event != "end" { #expect(await (event == "buy" ? bought(stage) : refunded(stage)) == 200) }
        }
        #expect(try await revoked(stage) == ["production GPA.1-2..3/month"])
        #expect(await stage.rights(of: stage.alice) == [])
        #expect(try await parkedKeys(stage).count == 2)
    }

    @Test("A refund of an order whose purchases wait for their owner waits with each of them")
    func unowned() async throws {
        let token = "0f8fad5b-d9cb-469f-a165-70867728950e"
        let stage = try await playStage(
            ",\"externalAccountIdentifiers\":{\"obfuscatedExternalAccountId\":\"\(token)\"}")
        #expect(await refunded(stage) == 200)
        #expect(await bought(stage) == 200)
        #expect(
            try await parkedKeys(stage) == [
                "server/parked/google-play/production/GPA.1-2%2Fextra",
                "server/parked/google-play/production/GPA.1-2%2Fmonth",
            ])
        let registered = await stage.service.ask(
            .post, "/v1/accounts/self/token", token: stage.alice.token, json: ["token": token])
        #expect(registered.status == 204)
        #expect(try await revoked(stage) == ["production GPA.1-2..3/month", "production GPA.1-2..3/extra"])
        #expect(try await parkedKeys(stage) == [])
    }

    @Test("A one-time payment at Stripe that also has an invoice is refunded in every order of arrival")
    func oneTimePayment() async throws {
        let events = ["sale", "alias", "refund"]
        for order in events.flatMap({ first in
            events.filter { $0 != first }.map { second in
                [first, second] + events.filter { $0 != first && $0 != second }
            }
        }) {
            let stage = try await EvidenceStage(.verified) { $0.stripe = PlainStoreVerifier() }
            let token = try #require(await stage.token(of: stage.alice))
            var sale = Sale("payment", at: stage.now, token: token)
            sale.store = "stripe"
            let bodies = [
                "sale": ["sale": try StoreMint.jws(sale)], "alias": ["intent": "payment", "invoice": "invoice"],
                "refund": ["refund": "payment"],
            ]
            for event in order {
                stage.clock.advance(seconds: 1)
                var fields: HTTPFields = [.contentType: "application/json"]
                fields[try #require(HTTPField.Name("Stripe-Signature"))] = "signed"
                let body = Array(try JSONEncoder().encode(bodies[event]))
                #expect(await stage.service.ask(.post, "/v1/notifications/stripe", fields, body: body).status == 200)
            }
            #expect(await stage.rights(of: stage.alice) == [], "\(order)")
            #expect(try await revoked(stage).contains("production payment"), "\(order)")
        }
    }
}
