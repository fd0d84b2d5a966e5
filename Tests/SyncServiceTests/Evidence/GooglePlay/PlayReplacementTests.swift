import Entitlements
import Foundation
import HTTPTypes
import ServiceTestSupport
import StoreEvidence
import SyncCore
import Testing

@testable import SyncService

@Suite("Subscriptions of Google Play that replace others")
struct PlayReplacementTests {
    private static let day: Int64 = 86_400_000

    private struct AnyPush: PushAuthentication {
        func verify(_ token: String, now: Int64) async throws(TokenRefusal) {}
    }

    /// An answer about a subscription that started some days after the stage, and runs for 300 days.
    private static func answer(
        _ product: String, order: String, after days: Int64, _ members: String = ""
    ) -> String {
        let start = Timestamp(milliseconds: EvidenceStage.start + days * day)
        return "{\"subscriptionState\":\"SUBSCRIPTION_STATE_ACTIVE\",\"startTime\":\"\(start)\",\"lineItems\":["
            + "{\"productId\":\"\(product)\",\"latestSuccessfulOrderId\":\"\(order)\",\"expiryTime\":\""
            + "\(Timestamp(milliseconds: start.milliseconds + 300 * day))\"}]\(members)}"
    }

    /// A stage that knows the subscriptions `old`, with a token of alice, and `new`, which replaces it after a day.
    private func stage(_ product: String, token: String) async throws -> EvidenceStage {
        let identifiers = ",\"externalAccountIdentifiers\":{\"obfuscatedExternalAccountId\":\"\(token)\"}"
        let stage = try await EvidenceStage(.verified) {
            ($0.googlePlay, $0.push) = (GooglePlayVerifier(packageNames: ["com.example.owl"]), AnyPush())
            $0.lookup = PlayDesk(subscriptions: [
                "old": Self.answer("month", order: "GPA.1-2..3", after: 0, identifiers),
                "new": Self.answer(product, order: "GPA.5-6", after: 1, ",\"linkedPurchaseToken\":\"old\""),
            ])
        }
        let registered = await stage.service.ask(
            .post, "/v1/accounts/self/token", token: stage.alice.token, json: ["token": token])
        #expect(registered.status == 204)
        return stage
    }

    private func push(_ stage: EvidenceStage, _ token: String) async -> Int {
        let text =
            "{\"packageName\":\"com.example.owl\",\"eventTimeMillis\":\(stage.now),\"subscriptionNotification\":"
            + "{\"notificationType\":4,\"purchaseToken\":\"\(token)\"}}"
        let body = "{\"message\":{\"data\":\"\(Data(text.utf8).base64EncodedString())\"}}"
        return await stage.service.ask(
            .post, "/v1/notifications/google-play", token: "google", [.contentType: "application/json"],
            body: Array(body.utf8)
        ).status
    }

    @Test(
        "The old subscription ends, and the new one belongs to its owner, in every order and repeated",
        arguments: [["old", "new"], ["new", "old", "new"], ["old", "new", "old", "new"]])
    func replacement(_ events: [String]) async throws {
        // The product that follows grants nothing, so that only the end of the old one counts.
        let stage = try await stage("other", token: "0f8fad5b-d9cb-469f-a165-70867728950e")
        stage.clock.advance(seconds: 2 * 86_400)
        for event in events { #expect(await push(stage, event) == 200) }
        let facts = try await stage.serverLedger(of: stage.alice).facts
        let purchases = facts.compactMap { if case .purchase(let fact) = $0 { fact.transaction.id } else { nil } }
        #expect(Set(purchases) == ["GPA.1-2..3/month", "GPA.5-6/other"])
        let ends = facts.compactMap { if case .revocation(let fact) = $0 { fact } else { nil } }
        let date = Timestamp(milliseconds: EvidenceStage.start + Self.day)
        #expect(ends.map(\.transaction.id) == ["GPA.1-2..3/month"])
        #expect(ends.map(\.revokedAt) == [date] && ends.map(\.stamp) == [.signed(at: date)])
        #expect(await stage.rights(of: stage.alice) == [])
        #expect(try await !stage.store.keys().contains { $0.hasPrefix("server/parked/") })
    }

    @Test("The old subscription ends also if it becomes known after the new one")
    func oldAfterNew() async throws {
        let stage = try await stage("other", token: "0f8fad5b-d9cb-469f-a165-70867728950e")
        stage.clock.advance(seconds: 2 * 86_400)
        for event in ["new", "old"] { #expect(await push(stage, event) == 200) }
        let facts = try await stage.serverLedger(of: stage.alice).facts
        let ends = facts.compactMap { if case .revocation(let fact) = $0 { fact.transaction.id } else { nil } }
        #expect(ends == ["GPA.1-2..3/month"])
        #expect(await stage.rights(of: stage.alice) == [])
    }

    @Test("The new subscription grants what the old one granted")
    func continuation() async throws {
        let stage = try await stage("month", token: "0f8fad5b-d9cb-469f-a165-70867728950e")
        stage.clock.advance(seconds: 2 * 86_400)
        for event in ["old", "new"] { #expect(await push(stage, event) == 200) }
        #expect(await stage.rights(of: stage.alice) == ["owls"])
    }
}
