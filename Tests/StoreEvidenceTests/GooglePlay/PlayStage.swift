import Entitlements
import EvidenceTestSupport
import Foundation
import StoreEvidence
import Testing

/// Signs purchases and writes messages as Google Play does, and verifies them.
enum PlayStage {
    static let now = Timestamp(milliseconds: 1_780_000_000_000)

    static func verifier() throws -> GooglePlayVerifier {
        try GooglePlayVerifier(packageNames: ["com.example.owl"], publicKey: PlayKey.shared.get().publicKey)
    }

    static func sign(_ data: String, by key: PlayKey? = nil) throws -> String {
        try (key ?? PlayKey.shared.get()).signature(of: data)
    }

    /// The data of a purchase.
    static func data(
        state: Int = 0, package: String = "com.example.owl", order: String? = "GPA.1-2..3",
        products: String = "\"productId\":\"owl\"", _ members: String = ""
    ) -> String {
        "{" + (order.map { "\"orderId\":\"\($0)\"," } ?? "") + "\"packageName\":\"\(package)\",\(products),"
            + "\"purchaseTime\":1779999000000,\"purchaseState\":\(state),\"purchaseToken\":\"token\","
            + "\"obfuscatedAccountId\":\"ABC\"\(members)}"
    }

    static func purchase(_ data: String, now: Timestamp = now) throws -> VerifiedEvidence {
        try verifier().purchase(data: data, signature: sign(data), now: now)
    }

    /// The body of a push request with a developer notification.
    static func push(
        _ details: String, package: String = "com.example.owl", after delay: Int64 = 0, date: String? = nil
    ) -> String {
        let date = date ?? "\"\(now.milliseconds + delay)\""
        return envelope(
            "{\"version\":\"1.0\",\"packageName\":\"\(package)\",\"eventTimeMillis\":\(date),\(details)}")
    }

    static func envelope(_ text: String) -> String {
        "{\"message\":{\"attributes\":{},\"data\":\"\(Data(text.utf8).base64EncodedString())\",\"messageId\":\"136\"},"
            + "\"subscription\":\"projects/owl/subscriptions/play\"}"
    }

    static func notification(_ body: String) throws -> PlayNotification {
        try verifier().notification(Array(body.utf8), now: now)
    }

    /// An answer of `purchases.subscriptionsv2`.
    static func subscription(_ state: String, _ items: String..., members: String = "") -> String {
        "{\"kind\":\"androidpublisher#subscriptionPurchaseV2\",\"startTime\":\"2026-05-01T00:00:00Z\","
            + "\"subscriptionState\":\"SUBSCRIPTION_STATE_\(state)\","
            + "\"lineItems\":[\(items.joined(separator: ","))]\(members)}"
    }

    /// A line item of such an answer.
    static func item(_ product: String = "month", order: String = "GPA.1-2..3", members: String = "") -> String {
        "{\"productId\":\"\(product)\",\"expiryTime\":\"2026-07-01T00:00:00.5Z\","
            + "\"latestSuccessfulOrderId\":\"\(order)\","
            + "\"autoRenewingPlan\":{\"autoRenewEnabled\":true}\(members)}"
    }

    static func read(_ json: String, statedAt: Timestamp? = now) throws -> VerifiedEvidence {
        try verifier().subscription(Array(json.utf8), purchaseToken: "token", statedAt: statedAt)
    }

    static func reference(_ id: TransactionID, in environment: EnvironmentID = .production) -> TransactionReference {
        TransactionReference(store: .googlePlay, environment: environment, id: id)
    }

    static func expectRefusal(
        _ check: EvidenceError.Check, because text: String = "", isTransient: Bool = false,
        sourceLocation: SourceLocation = #_sourceLocation, _ body: () throws -> VerifiedEvidence
    ) {
        ReceiptStage.expectRefusal(check, text, isTransient: isTransient, sourceLocation: sourceLocation, body)
    }
}
