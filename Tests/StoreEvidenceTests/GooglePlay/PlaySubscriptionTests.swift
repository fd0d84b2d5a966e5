import Entitlements
@testable import StoreEvidence
import Testing

@Suite("Subscriptions of Google Play")
struct PlaySubscriptionTests {
    private static let start = Result { try Timestamp("2026-05-01T00:00:00Z") }
    private static let end = Result { try Timestamp("2026-07-01T00:00:00.5Z") }

    @Test("An active subscription gives a purchase of its latest order and renews")
    func active() throws {
        let members = ",\"externalAccountIdentifiers\":{\"obfuscatedExternalAccountId\":\"ABC\"}"
        let evidence = try PlayStage.read(PlayStage.subscription("ACTIVE", PlayStage.item(), members: members))
        #expect(evidence.kind == .googlePlaySubscription && evidence.event == "SUBSCRIPTION_STATE_ACTIVE")
        #expect(evidence.accountToken == "abc" && evidence.signedDate == PlayStage.now)
        let stamp = Stamp.signed(at: PlayStage.now)
        #expect(
            evidence.facts == [
                .purchase(
                    Purchase(
                        transaction: PlayStage.reference("GPA.1-2..3/month"), product: "month", terms: nil,
                        date: try Self.start.get(), originalID: "GPA.1-2/month", storeExpiry: try Self.end.get(),
                        stamp: stamp)),
                .renewalState(
                    RenewalState(line: PlayStage.reference("GPA.1-2/month"), willRenew: true, stamp: stamp)),
            ])
        #expect(
            evidence.aliases == [
                PlayStage.reference("GPA.1-2..3"): [PlayStage.reference("GPA.1-2..3/month")],
                PlayStage.reference("token"): [
                    PlayStage.reference("GPA.1-2/month"), PlayStage.reference("GPA.1-2..3/month"),
                ],
            ])
        #expect(evidence.replaced == nil)
    }

    @Test("A subscription with a linked token replaces the one with that token, at its own start")
    func replaced() throws {
        let linked = ",\"linkedPurchaseToken\":\"old\""
        func replaced(_ state: String = "ACTIVE", _ items: String...) throws -> ReplacedSubscription? {
            let json = PlayStage.subscription(state, items.joined(separator: ","), members: linked)
            return try PlayStage.read(json).replaced
        }
        let old = PlayStage.reference("old")
        let start = try Self.start.get()
        #expect(try replaced("ACTIVE", PlayStage.item()) == ReplacedSubscription(name: old, endedAt: start))
        #expect(try replaced("EXPIRED", PlayStage.item())?.endedAt == start)
        #expect(try replaced("PENDING", PlayStage.item()) == nil)
        let leaving = PlayStage.item(members: ",\"deferredItemReplacement\":{\"productId\":\"year\"}")
        let waiting = ReplacedSubscription(name: old, endedAt: nil)
        #expect(try replaced("ACTIVE", leaving) == waiting)
        #expect(try replaced("ACTIVE", PlayStage.item(), "{\"productId\":\"year\"}") == waiting)
    }

    @Test(
        "Each paid state gives its renewal state, and a grace ends at the stated expiry",
        arguments: [
            ("ACTIVE", true, false, false), ("IN_GRACE_PERIOD", true, true, true), ("ON_HOLD", true, true, false),
            ("PAUSED", true, false, false), ("CANCELED", false, false, false), ("EXPIRED", false, false, false),
        ])
    func states(_ name: String, renews: Bool, retries: Bool, hasGrace: Bool) throws {
        let evidence = try PlayStage.read(PlayStage.subscription(name, PlayStage.item()))
        #expect(try evidence.purchase.storeExpiry == Self.end.get())
        let state = try #require(evidence.renewals.first)
        #expect(state.willRenew == renews && state.isInBillingRetry == retries)
        #expect(state.graceEnd == (hasGrace ? try Self.end.get() : nil))
    }

    @Test("A subscription that awaits its payment gives nothing", arguments: ["PENDING", "PENDING_PURCHASE_CANCELED"])
    func pending(_ name: String) throws {
        let evidence = try PlayStage.read("{\"subscriptionState\":\"SUBSCRIPTION_STATE_\(name)\"}")
        #expect(evidence.facts.isEmpty && evidence.line == nil && evidence.aliases.isEmpty)
        #expect(try PlayStage.read(PlayStage.subscription(name, PlayStage.item())).facts.isEmpty)
    }

    @Test("An unknown or missing state is refused")
    func unknownState() {
        for name in ["SOMETHING_NEW", "UNSPECIFIED"] {
            PlayStage.expectRefusal(.state, because: "SUBSCRIPTION_STATE_\(name)") {
                try PlayStage.read(PlayStage.subscription(name, PlayStage.item()))
            }
        }
        PlayStage.expectRefusal(.content, because: "subscriptionState") { try PlayStage.read("{}") }
    }

    @Test("A trial and an introductory price are introductory, and the base price is not")
    func trial() throws {
        for (phase, isIntroductory) in [("freeTrial", true), ("introductoryPrice", true), ("basePrice", false)] {
            let item = PlayStage.item(members: ",\"offerPhase\":{\"\(phase)\":{}}")
            let evidence = try PlayStage.read(PlayStage.subscription("ACTIVE", item))
            #expect(try evidence.purchase.isIntroductory == isIntroductory)
        }
    }

    @Test("Each item is a line of its own, whose name does not depend on the other items")
    func items() throws {
        let extra = PlayStage.item("extra", order: "GPA.7-8..0")
        let both = try PlayStage.read(PlayStage.subscription("ACTIVE", PlayStage.item(), extra))
        let one = try PlayStage.read(PlayStage.subscription("ACTIVE", PlayStage.item()))
        #expect(both.purchases.map(\.transaction.id) == ["GPA.1-2..3/month", "GPA.7-8..0/extra"])
        #expect(both.renewals.map(\.line.id) == ["GPA.1-2/month", "GPA.7-8/extra"])
        #expect(Array(both.facts.prefix(2)) == one.facts)
        #expect(
            both.aliases[PlayStage.reference("token")] == [
                PlayStage.reference("GPA.1-2/month"), PlayStage.reference("GPA.7-8/extra"),
                PlayStage.reference("GPA.1-2..3/month"), PlayStage.reference("GPA.7-8..0/extra"),
            ])
        let order = try PlayStage.read(
            PlayStage.subscription("ACTIVE", PlayStage.item(), PlayStage.item("extra")))
        #expect(order.aliases[PlayStage.reference("GPA.1-2..3")]?.count == 2)
    }

    @Test("An item without an order of its own has the latest one of the subscription")
    func latestOrder() throws {
        let item = PlayStage.item().replacing("\"latestSuccessfulOrderId\":\"GPA.1-2..3\",", with: "")
        let json = PlayStage.subscription("ACTIVE", item, members: ",\"latestOrderId\":\"GPA.5-6\"")
        #expect(try PlayStage.read(json).purchase.transaction.id == "GPA.5-6/month")
        #expect(try PlayStage.read(PlayStage.subscription("ACTIVE", item)).purchase.transaction.id == "token/month")
    }

    @Test("A deferred replacement is pending, and the new item begins with its expiry")
    func deferred() throws {
        let old = PlayStage.item(members: ",\"deferredItemReplacement\":{\"productId\":\"year\"}")
        let evidence = try PlayStage.read(PlayStage.subscription("ACTIVE", old, "{\"productId\":\"year\"}"))
        #expect(try evidence.purchase.product == "month")
        #expect(evidence.renewals.map(\.pendingProduct) == ["year"])
        for (state, item) in [
            ("CANCELED", old), ("ACTIVE", old.replacing("true", with: "false")),
            ("ACTIVE", old.replacing("year", with: "month")),
        ] {
            let ending = try PlayStage.read(PlayStage.subscription(state, item))
            #expect(ending.renewals.map(\.pendingProduct) == [nil], "\(item)")
        }
    }

    @Test("A deferred change of the base plan keeps the present item, and the coming one does not count yet")
    func deferredBasePlan() throws {
        let present = PlayStage.item(members: ",\"deferredItemReplacement\":{\"productId\":\"month\"}")
        let coming = "{\"productId\":\"month\",\"offerDetails\":{\"basePlanId\":\"yearly\"}}"
        for items in [[present, coming], [coming, present]] {
            let evidence = try PlayStage.read(PlayStage.subscription("ACTIVE", items.joined(separator: ",")))
            #expect(try evidence.purchase.transaction.id == "GPA.1-2..3/month")
            #expect(try evidence.purchase.storeExpiry == Self.end.get())
            #expect(evidence.renewals.map(\.willRenew) == [true] && evidence.renewals.map(\.pendingProduct) == [nil])
        }
        // After the change the former item may still be listed.
        let former = PlayStage.item().replacing("2026-07", with: "2026-06").replacing("true", with: "false")
        for items in [[former, PlayStage.item()], [PlayStage.item(), former]] {
            let evidence = try PlayStage.read(PlayStage.subscription("ACTIVE", items.joined(separator: ",")))
            #expect(try evidence.purchase.storeExpiry == Self.end.get())
            #expect(evidence.renewals.map(\.willRenew) == [true])
        }
    }

    @Test("An answer ends all orders that it does not name when it is stated")
    func ending() throws {
        let evidence = try PlayStage.read(PlayStage.subscription("ACTIVE", PlayStage.item()))
        let token = PlayStage.reference("token")
        #expect(evidence.subscription == token)
        #expect(
            evidence.ending
                == SubscriptionEnding(
                    current: [PlayStage.reference("GPA.1-2..3/month")], endedAt: PlayStage.now,
                    statedAt: PlayStage.now))
        #expect(try PlayStage.read(PlayStage.subscription("ACTIVE", PlayStage.item()), statedAt: nil).ending == nil)
        #expect(try PlayStage.read(PlayStage.subscription("ACTIVE", "{\"productId\":\"year\"}")).ending == nil)
    }

    @Test("A purchase that is not acknowledged is named, unless it has expired")
    func acknowledgement() throws {
        func unacknowledged(_ state: String, _ acknowledgement: String = "PENDING") throws -> UnacknowledgedPurchase? {
            let members = ",\"acknowledgementState\":\"ACKNOWLEDGEMENT_STATE_\(acknowledgement)\""
            return try PlayStage.read(PlayStage.subscription(state, PlayStage.item(), members: members)).unacknowledged
        }
        let purchase = UnacknowledgedPurchase(isSubscription: true, product: "month", purchaseToken: "token")
        #expect(try unacknowledged("ACTIVE") == purchase && unacknowledged("CANCELED") == purchase)
        #expect(try unacknowledged("EXPIRED") == nil && unacknowledged("PENDING") == nil)
        #expect(try unacknowledged("ACTIVE", "ACKNOWLEDGED") == nil)
    }

    @Test("An item that is to be removed does not renew")
    func removal() throws {
        let item = PlayStage.item(members: ",\"deferredItemRemoval\":{}")
        #expect(try PlayStage.read(PlayStage.subscription("ACTIVE", item)).renewals.map(\.willRenew) == [false])
    }

    @Test("An item whose renewal is off, or that is prepaid, does not renew")
    func notRenewing() throws {
        let off = PlayStage.item().replacing("true", with: "false")
        let prepaid = PlayStage.item().replacing("autoRenewingPlan", with: "prepaidPlan")
        for item in [off, prepaid] {
            let evidence = try PlayStage.read(PlayStage.subscription("ACTIVE", item))
            #expect(evidence.renewals.map(\.willRenew) == [false])
        }
    }

    @Test("A test purchase is filed under the environment test, and refunds name it in production")
    func testPurchase() throws {
        let json = PlayStage.subscription("ACTIVE", PlayStage.item(), members: ",\"testPurchase\":{}")
        let evidence = try PlayStage.read(json)
        let transaction = PlayStage.reference("GPA.1-2..3/month", in: .test)
        #expect(try evidence.purchase.transaction == transaction)
        #expect(evidence.renewals.map(\.line) == [PlayStage.reference("GPA.1-2/month", in: .test)])
        #expect(evidence.aliases[PlayStage.reference("GPA.1-2..3")] == [transaction])
    }

    @Test("An answer of unknown origin gives unsigned facts")
    func unsigned() throws {
        let json = PlayStage.subscription("ACTIVE", PlayStage.item())
        let evidence = try PlayStage.read(json, statedAt: nil)
        #expect(evidence.signedDate == nil)
        #expect(try evidence.purchase.stamp == Stamp(logicalTime: .zero))
    }

    @Test("Missing, repeated and invalid members, and every oversize are refused")
    func malformed() {
        let item = PlayStage.item()
        for (check, json) in [
            (.content, PlayStage.subscription("ACTIVE")),
            (.content, PlayStage.subscription("ACTIVE", item).replacing("startTime", with: "began")),
            (.content, PlayStage.subscription("ACTIVE", item.replacing("2026-07", with: "2026-13"))),
            (.content, PlayStage.subscription("ACTIVE", item.replacing("\"month\"", with: "\"\""))),
            (.content, PlayStage.subscription("ACTIVE", item.replacing("true", with: "\"yes\""))),
            (.format, PlayStage.subscription("ACTIVE", PlayStage.item(members: ",\"productId\":\"year\""))),
            (.format, "[]"), (.format, ""),
            (.size, String(repeating: " ", count: EvidenceLimits.notification) + "{}"),
        ] as [(EvidenceError.Check, String)] {
            PlayStage.expectRefusal(check) { try PlayStage.read(json) }
        }
    }
}
