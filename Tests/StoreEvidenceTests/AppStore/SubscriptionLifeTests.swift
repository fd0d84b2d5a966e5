import Entitlements
import EvidenceTestSupport
import Testing

@testable import StoreEvidence

@Suite("The life of a subscription in the sandbox")
struct SubscriptionLifeTests {
    @Test("Access follows every notification, and its order does not matter")
    func life() throws {
        let catalog = try SubscriptionLife.catalog()
        var server = ServerLedger()
        var earlier: [[Fact]] = []
        for step in try SubscriptionLife.steps() {
            let payload = try AppStoreFoundry.valid.get().notification(
                step.type, step.subtype, transaction: step.transaction, renewal: step.renewal,
                fields: ["signedDate": .minute(step.minute)])
            let now = Timestamp.minute(step.minute)
            let facts = try AppStoreStage.notification(payload, now: now.milliseconds).facts
            #expect(server.add(facts, catalog: catalog, at: now).count > 0, "\(step.minute)")
            earlier.append(facts)
            let replay = Replay(
                Facts(account: Ledger(), server: server.ledger), catalog: catalog, environment: .sandbox)
            for check in step.checks {
                let access = replay.access(to: "premium", at: .minute(check.minute))
                #expect(access == check.access, "minute \(check.minute) after the step at \(step.minute)")
            }
            let state = replay.snapshot(at: now)[group: "main"]
            #expect(state?.product == step.product, "\(step.minute)")
            #expect(state?.level == step.level, "\(step.minute)")
            #expect(state?.renewal.map { SubscriptionLife.Renewal($0) } == step.state, "\(step.minute)")
            var reversed = ServerLedger()
            for facts in earlier.reversed() { _ = reversed.add(facts, catalog: catalog, at: now) }
            #expect(reversed == server, "\(step.minute)")
            // The sandbox gives nothing in production.
            let production = Replay(Facts(account: Ledger(), server: server.ledger), catalog: catalog)
            #expect(production.access(to: "premium", at: now) == .denied(.notPurchased))
        }
    }
}

/// A trial, a renewal, an upgrade, a failed payment with grace, a recovery, a refund, its reversal and the end.
///
/// One month lasts 5 minutes in the sandbox, one year 60.
enum SubscriptionLife {
    static func catalog() throws -> Catalog {
        try Catalog(
            products: [
                Product(
                    id: "com.example.monthly",
                    kind: .autoRenewable(
                        group: "main", level: 2, duration: CalendarDuration(months: 1),
                        introductory: IntroductoryOffer(mode: .free, duration: CalendarDuration(days: 7)))),
                Product(
                    id: "com.example.yearly",
                    kind: .autoRenewable(
                        group: "main", level: 1, duration: CalendarDuration(months: 12), introductory: nil)),
                Product(id: "com.example.coins", kind: .consumable(units: 10)),
            ], entitlements: [Entitlement(id: "premium", grantedBy: [.group("main")])])
    }

    /// Access at an instant, as known after a step.
    struct Check {
        let minute: Int64
        let access: Access

        static func granted(_ minute: Int64, until: Int64) -> Check {
            Check(minute: minute, access: .granted(Access.Grant(until: .minute(until), source: .group("main"))))
        }

        static func expired(_ minute: Int64, at end: Int64) -> Check {
            Check(minute: minute, access: .denied(.expired(.minute(end))))
        }

        static func revoked(_ minute: Int64, at date: Int64) -> Check {
            Check(minute: minute, access: .denied(.revoked(.minute(date))))
        }
    }

    /// A notification, and the state that it must lead to.
    struct Step {
        let minute: Int64
        let type: String
        let subtype: String?
        var transaction: SignedFields?
        var renewal: SignedFields?
        let product: ProductID
        let level: Int64?
        let checks: [Check]

        init(
            _ minute: Int64, _ type: String, _ subtype: String? = nil, transaction: SignedFields? = nil,
            renewal: SignedFields? = nil, _ product: ProductID, level: Int64?, _ checks: Check...
        ) {
            self.minute = minute
            self.type = type
            self.subtype = subtype
            self.transaction = transaction?.replacing(with: ["signedDate": .minute(minute)])
            self.renewal = renewal?.replacing(with: ["signedDate": .minute(minute)])
            self.product = product
            self.level = level
            self.checks = checks
        }

        /// The renewal state that is known after this step.
        var state = Renewal()
    }

    /// A renewal state, for comparisons.
    struct Renewal: Equatable {
        var willRenew = true
        var graceEnd: Timestamp?
        var isInBillingRetry = false
        var pendingProduct: ProductID?

        init(_ change: (inout Renewal) -> Void = { _ in }) { change(&self) }

        init(_ state: Snapshot.Renewal) {
            willRenew = state.willRenew
            graceEnd = state.graceEnd
            isInBillingRetry = state.isInBillingRetry
            pendingProduct = state.pendingProduct
        }
    }

    private static func sale(
        _ id: SignedField, _ product: SignedField, from start: Int64, to end: Int64, _ more: SignedFields = [:]
    ) -> SignedFields {
        let fields: SignedFields = [
            "transactionId": id, "originalTransactionId": "2000000000000001", "productId": product,
            "purchaseDate": .minute(start), "expiresDate": .minute(end),
        ]
        return fields.replacing(with: more)
    }

    private static func renewal(_ product: SignedField, _ more: SignedFields = [:]) -> SignedFields {
        let fields: SignedFields = ["productId": product, "autoRenewProductId": product]
        return fields.replacing(with: more)
    }

    static func steps() throws -> [Step] {
        let (monthly, yearly): (SignedField, SignedField) = ("com.example.monthly", "com.example.yearly")
        let first: SignedField = "2000000000000001"
        let (second, third, fourth): (SignedField, SignedField, SignedField) = (
            "2000000000000002", "2000000000000003", "2000000000000004"
        )
        let (renews, ends) = (Renewal(), Renewal { $0.willRenew = false })
        let inGrace = Renewal { state in
            state.graceEnd = .minute(81)
            state.isInBillingRetry = true
        }
        var steps = [
            Step(
                0, "SUBSCRIBED", "INITIAL_BUY", transaction: sale(first, monthly, from: 0, to: 3, ["offerType": 1]),
                renewal: renewal(monthly), "com.example.monthly", level: 2, .granted(0, until: 3), .expired(3, at: 3)),
            Step(
                3, "DID_RENEW", transaction: sale(second, monthly, from: 3, to: 8), renewal: renewal(monthly),
                "com.example.monthly", level: 2, .granted(3, until: 8), .expired(8, at: 8)),
            Step(
                5, "DID_CHANGE_RENEWAL_PREF", "UPGRADE", transaction: sale(third, yearly, from: 5, to: 65),
                renewal: renewal(yearly), "com.example.yearly", level: 1, .granted(5, until: 65), .expired(65, at: 65)),
            Step(
                65, "DID_FAIL_TO_RENEW", "GRACE_PERIOD", transaction: sale(third, yearly, from: 5, to: 65),
                renewal: renewal(
                    yearly, ["isInBillingRetryPeriod": true, "gracePeriodExpiresDate": .minute(81)]),
                "com.example.yearly", level: 1, .granted(65, until: 81), .expired(81, at: 81)),
            Step(
                70, "DID_RENEW", "BILLING_RECOVERY", transaction: sale(fourth, yearly, from: 65, to: 125),
                renewal: renewal(yearly), "com.example.yearly", level: 1, .granted(70, until: 125),
                .expired(125, at: 125)),
            Step(
                90, "REFUND",
                transaction: sale(fourth, yearly, from: 65, to: 125, ["revocationDate": .minute(89)]),
                "com.example.yearly", level: nil, .revoked(90, at: 89), .granted(88, until: 89)),
            Step(
                95, "REFUND_REVERSED", transaction: sale(fourth, yearly, from: 65, to: 125), "com.example.yearly",
                level: 1, .granted(95, until: 125), .granted(90, until: 125)),
            Step(
                100, "DID_CHANGE_RENEWAL_STATUS", "AUTO_RENEW_DISABLED",
                transaction: sale(fourth, yearly, from: 65, to: 125),
                renewal: renewal(yearly, ["autoRenewStatus": 0]), "com.example.yearly", level: 1,
                .granted(100, until: 125)),
            Step(
                125, "EXPIRED", "VOLUNTARY", transaction: sale(fourth, yearly, from: 65, to: 125),
                renewal: renewal(yearly, ["autoRenewStatus": 0, "expirationIntent": 1]), "com.example.yearly",
                level: nil, .expired(125, at: 125)),
        ]
        let states = [renews, renews, renews, inGrace, renews, renews, renews, ends, ends]
        for index in steps.indices { steps[index].state = states[index] }
        return steps
    }
}
