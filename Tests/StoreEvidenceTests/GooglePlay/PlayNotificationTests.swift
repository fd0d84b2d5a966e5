import Entitlements
import StoreEvidence
import Testing

@Suite("Notifications of Google Play")
struct PlayNotificationTests {
    private static let subscription = """
        "subscriptionNotification":{"version":"1.0","notificationType":2,"purchaseToken":"token",
         "subscriptionId":"month"}
        """

    private static func voided(_ members: String) -> String {
        "\"voidedPurchaseNotification\":{\"purchaseToken\":\"token\",\(members)}"
    }

    private func expectRefusal(
        _ check: EvidenceError.Check, because text: String = "", isTransient: Bool = false, _ body: String,
        sourceLocation: SourceLocation = #_sourceLocation
    ) {
        PlayStage.expectRefusal(check, because: text, isTransient: isTransient, sourceLocation: sourceLocation) {
            try PlayStage.notification(body).evidence
        }
    }

    @Test(
        "Each type of subscription notification asks for a look-up and has its name",
        arguments: [
            (1, "RECOVERED"), (2, "RENEWED"), (3, "CANCELED"), (4, "PURCHASED"), (5, "ON_HOLD"),
            (6, "IN_GRACE_PERIOD"), (7, "RESTARTED"), (8, "PRICE_CHANGE_CONFIRMED"), (9, "DEFERRED"), (10, "PAUSED"),
            (11, "PAUSE_SCHEDULE_CHANGED"), (12, "REVOKED"), (13, "EXPIRED"), (17, "ITEMS_CHANGED"),
            (18, "CANCELLATION_SCHEDULED"), (19, "PRICE_CHANGE_UPDATED"), (20, "PENDING_PURCHASE_CANCELED"),
            (22, "PRICE_STEP_UP_CONSENT_UPDATED"), (99, "99"),
        ] as [(Int64, String)])
    func subscriptions(_ type: Int64, _ name: String) throws {
        let details = Self.subscription.replacing("\"notificationType\":2", with: "\"notificationType\":\(type)")
        let notification = try PlayStage.notification(PlayStage.push(details))
        #expect(notification.subject == .subscription && notification.type == type)
        #expect(notification.purchaseToken == "token" && notification.product == "month")
        #expect(notification.packageName == "com.example.owl" && notification.date == PlayStage.now)
        #expect(
            notification.evidence
                == VerifiedEvidence(
                    kind: .googlePlayNotification, facts: [], signedDate: PlayStage.now,
                    event: "SUBSCRIPTION_\(name)", eventID: "136"))
    }

    @Test("A notification about a one-time product states no facts", arguments: [(1, "PURCHASED"), (2, "CANCELED")])
    func oneTimeProducts(_ type: Int64, _ name: String) throws {
        let details =
            "\"oneTimeProductNotification\":{\"notificationType\":\(type),\"purchaseToken\":\"t\","
            + "\"sku\":\"owl\"}"
        let notification = try PlayStage.notification(PlayStage.push(details))
        #expect(notification.subject == .oneTimeProduct && notification.product == "owl")
        #expect(notification.lookup == .oneTimeProduct && notification.purchaseToken == "t")
        #expect(notification.evidence.facts.isEmpty && notification.evidence.event == "ONE_TIME_PRODUCT_\(name)")
    }

    @Test("A full refund revokes everything that the order sold, by the name of the order")
    func voided() throws {
        let body = PlayStage.push(
            Self.voided("\"orderId\":\"GPA.1-2..3\",\"productType\":1,\"refundType\":1"), after: -5_000)
        let notification = try PlayStage.notification(body)
        let date = Timestamp(milliseconds: PlayStage.now.milliseconds - 5_000)
        #expect(notification.subject == .voidedPurchase && notification.evidence.event == "VOIDED_PURCHASE")
        #expect(notification.lookup == nil)
        #expect(notification.evidence.line == nil)
        #expect(
            notification.evidence.revocations == [
                Revocation(
                    transaction: PlayStage.reference("GPA.1-2..3"), revokedAt: date, reason: "refund",
                    stamp: .signed(at: date))
            ])
        let items = PlayStage.subscription(
            "ACTIVE", PlayStage.item(), PlayStage.item("extra"), members: ",\"testPurchase\":{}")
        for purchases in [
            try PlayStage.read(items),
            try PlayStage.purchase(PlayStage.data(products: "\"productIds\":[\"month\",\"extra\"]")),
        ] {
            let reached = purchases.aliases[PlayStage.reference("GPA.1-2..3")]
            #expect(reached == Set(purchases.purchases.map(\.transaction)))
            #expect(reached?.count == 2)
        }
    }

    @Test("A refund without an order names the purchase token")
    func voidedToken() throws {
        let notification = try PlayStage.notification(PlayStage.push(Self.voided("\"refundType\":1")))
        #expect(notification.evidence.revocations.map(\.transaction) == [PlayStage.reference("token")])
    }

    @Test(
        "A refund of a part of the quantity, or of an unknown extent, states no facts", arguments: ["2", "3", "null"])
    func voidedInPart(_ type: String) throws {
        let body = PlayStage.push(Self.voided("\"orderId\":\"GPA.1-2\",\"refundType\":\(type)"))
        let notification = try PlayStage.notification(body)
        #expect(notification.subject == .voidedPurchase && notification.evidence.facts.isEmpty)
        #expect(notification.lookup == .oneTimeProduct)
        let other = PlayStage.push(Self.voided("\"productType\":1,\"refundType\":\(type)"))
        #expect(try PlayStage.notification(other).lookup == .subscription)
        #expect(notification.evidence.event == "VOIDED_PURCHASE_IN_PART")
    }

    @Test("Test messages and unknown subjects state nothing")
    func others() throws {
        let test = try PlayStage.notification(PlayStage.push("\"testNotification\":{\"version\":\"1.0\"}"))
        #expect(test.subject == .test && test.evidence.event == "TEST" && test.evidence.facts.isEmpty)
        let other = try PlayStage.notification(PlayStage.push("\"pendingRefundReviewNotification\":{\"x\":1}"))
        #expect(other.subject == .other && other.evidence.facts.isEmpty && other.purchaseToken == nil)
    }

    @Test("A message of another package is refused")
    func anotherPackage() {
        expectRefusal(
            .app, because: "com.example.other", PlayStage.push(Self.subscription, package: "com.example.other"))
    }

    @Test("A message of the future is refused for now, and accepted within 5 minutes")
    func future() throws {
        #expect(try PlayStage.notification(PlayStage.push(Self.subscription, after: 300_000)).type == 2)
        expectRefusal(
            .signedDate, because: "eventTimeMillis", isTransient: true,
            PlayStage.push(Self.subscription, after: 300_001))
        for date in ["-1", "\"x\"", "\"99999999999999999\"", "true"] {
            expectRefusal(.content, because: "eventTimeMillis", PlayStage.push(Self.subscription, date: date))
        }
        expectRefusal(.content, because: "eventTimeMillis", PlayStage.push(Self.subscription, date: "null"))
    }

    @Test("Data that is not base64 with padding is refused")
    func base64() {
        let body = PlayStage.push(Self.subscription)
        for text in ["*", "e30", "e30=\\n", "e31=", "e3-_"] {
            expectRefusal(.format, because: "message.data is not base64", "{\"message\":{\"data\":\"\(text)\"}}")
        }
        expectRefusal(.content, because: "data", "{\"message\":{}}")
        expectRefusal(.content, because: "message", "{}")
        expectRefusal(.format, String(body.dropLast()))
    }

    @Test("Repeated members are refused in the message and in its data")
    func repeated() {
        expectRefusal(.format, "{\"message\":{\"data\":\"e30=\",\"data\":\"e30=\"}}")
        expectRefusal(.format, PlayStage.push(Self.subscription + ",\"packageName\":\"com.example.owl\""))
        expectRefusal(
            .format, PlayStage.push(Self.voided("\"orderId\":\"GPA.1\",\"orderId\":\"GPA.2\",\"refundType\":1")))
    }

    @Test("Missing members and every oversize are refused")
    func malformed() {
        expectRefusal(
            .content, because: "purchaseToken", PlayStage.push("\"voidedPurchaseNotification\":{\"refundType\":1}"))
        expectRefusal(
            .content, because: "subscriptionId",
            PlayStage.push(Self.subscription.replacing("month", with: String(repeating: "m", count: 256))))
        expectRefusal(.content, because: "packageName", PlayStage.envelope("{}"))
        expectRefusal(.format, PlayStage.envelope("[]"))
        let long = String(repeating: " ", count: EvidenceLimits.notification)
        expectRefusal(.size, long + PlayStage.push(Self.subscription))
    }
}
