import Entitlements
import EvidenceTestSupport
import Testing

@testable import StoreEvidence

/// A type of notification, with an example and the facts that it must give.
struct NotificationCase: Sendable, CustomTestStringConvertible {
    let type: String
    let subtype: String?
    var transaction: SignedFields?
    var renewal: SignedFields?
    /// The facts in words: `purchase`, `reinstated`, `revoked`, `renewal` and its state.
    let facts: [String]

    init(
        _ type: String, _ subtype: String? = nil, transaction: SignedFields? = nil, renewal: SignedFields? = nil,
        _ facts: String...
    ) {
        self.type = type
        self.subtype = subtype
        self.transaction = transaction
        self.renewal = renewal
        self.facts = facts
    }

    var testDescription: String { event }
    var event: String { subtype.map { "\(type)/\($0)" } ?? type }

    func payload() throws -> String {
        try AppStoreFoundry.valid.get().notification(type, subtype, transaction: transaction, renewal: renewal)
    }

    /// Notifications about one subscription, signed minute by minute in this order.
    static let all: [NotificationCase] = [
        NotificationCase(
            "SUBSCRIBED", "INITIAL_BUY", transaction: [:], renewal: [:], "purchase", "reinstated", "renews"),
        NotificationCase(
            "SUBSCRIBED", "RESUBSCRIBE", transaction: [:], renewal: [:], "purchase", "reinstated", "renews"),
        NotificationCase("OFFER_REDEEMED", transaction: [:], renewal: [:], "purchase", "reinstated", "renews"),
        NotificationCase("DID_RENEW", transaction: [:], renewal: [:], "purchase", "reinstated", "renews"),
        NotificationCase(
            "DID_RENEW", "BILLING_RECOVERY", transaction: [:], renewal: [:], "purchase", "reinstated", "renews"),
        NotificationCase("ONE_TIME_CHARGE", transaction: oneTime, "purchase", "reinstated"),
        NotificationCase(
            "DID_CHANGE_RENEWAL_PREF", "UPGRADE", transaction: ["productId": "com.example.yearly"],
            renewal: ["productId": "com.example.yearly", "autoRenewProductId": "com.example.yearly"], "purchase",
            "reinstated", "renews"),
        NotificationCase(
            "DID_CHANGE_RENEWAL_PREF", "DOWNGRADE", transaction: [:],
            renewal: ["autoRenewProductId": "com.example.weekly"], "purchase", "reinstated",
            "renews com.example.weekly"),
        NotificationCase(
            "DID_CHANGE_RENEWAL_PREF", transaction: [:], renewal: [:], "purchase", "reinstated", "renews"),
        NotificationCase(
            "DID_CHANGE_RENEWAL_STATUS", "AUTO_RENEW_DISABLED", transaction: [:], renewal: ["autoRenewStatus": 0],
            "purchase", "reinstated", "ends"),
        NotificationCase(
            "DID_CHANGE_RENEWAL_STATUS", "AUTO_RENEW_ENABLED", transaction: [:], renewal: [:], "purchase", "reinstated",
            "renews"),
        NotificationCase(
            "DID_FAIL_TO_RENEW", renewal: ["isInBillingRetryPeriod": true], "renews retry"),
        NotificationCase(
            "DID_FAIL_TO_RENEW", "GRACE_PERIOD",
            renewal: ["isInBillingRetryPeriod": true, "gracePeriodExpiresDate": .minute(90)], "renews retry grace"),
        NotificationCase("GRACE_PERIOD_EXPIRED", renewal: ["isInBillingRetryPeriod": true], "renews retry"),
        NotificationCase("EXPIRED", "VOLUNTARY", renewal: ["autoRenewStatus": 0, "expirationIntent": 1], "ends"),
        NotificationCase("EXPIRED", "BILLING_RETRY", renewal: ["autoRenewStatus": 0, "expirationIntent": 2], "ends"),
        NotificationCase("EXPIRED", "PRICE_INCREASE", renewal: ["autoRenewStatus": 0, "expirationIntent": 3], "ends"),
        NotificationCase("EXPIRED", "PRODUCT_NOT_FOR_SALE", renewal: ["autoRenewStatus": 0], "ends"),
        NotificationCase("PRICE_INCREASE", "PENDING", renewal: ["priceIncreaseStatus": 0], "renews"),
        NotificationCase("PRICE_INCREASE", "ACCEPTED", renewal: ["priceIncreaseStatus": 1], "renews"),
        NotificationCase("RENEWAL_EXTENDED", transaction: ["expiresDate": .minute(80_000)], "purchase", "reinstated"),
        NotificationCase("REFUND", transaction: refunded, "purchase", "revoked"),
        NotificationCase("REFUND_REVERSED", transaction: [:], "purchase", "reinstated"),
        NotificationCase("REVOKE", transaction: revoked, "purchase", "revoked"),
        NotificationCase("REFUND_DECLINED", transaction: [:], "purchase", "reinstated"),
        NotificationCase("CONSUMPTION_REQUEST", transaction: [:], "purchase", "reinstated"),
        NotificationCase("RENEWAL_EXTENSION", "FAILURE", transaction: [:], "purchase", "reinstated"),
        NotificationCase("SOMETHING_NEW", "LATER", transaction: [:], renewal: [:], "purchase", "reinstated", "renews"),
    ]

    private static let oneTime: SignedFields = [
        "type": "Consumable", "productId": "com.example.coins", "transactionId": "2000000000000009",
        "expiresDate": nil, "quantity": 3,
    ]
    private static let refunded: SignedFields = ["revocationDate": .minute(20), "revocationReason": 1]
    private static let revoked: SignedFields = [
        "revocationDate": .minute(22), "revocationType": "FAMILY_REVOKE", "inAppOwnershipType": "FAMILY_SHARED",
    ]

    /// The cases with inner signatures that are one minute apart.
    static let dated: [NotificationCase] = all.enumerated().map { index, example in
        var example = example
        let date: SignedFields = ["signedDate": .minute(Int64(index))]
        example.transaction = example.transaction?.replacing(with: date)
        example.renewal = example.renewal?.replacing(with: date)
        return example
    }

    /// A word for each fact.
    static func words(_ facts: [Fact]) -> [String] {
        facts.map { fact in
            switch fact {
            case .purchase: "purchase"
            case .revocation(let status): status.revokedAt == nil ? "reinstated" : "revoked"
            case .renewalState(let state):
                [
                    state.willRenew ? "renews" : "ends", state.isInBillingRetry ? "retry" : nil,
                    state.graceEnd == nil ? nil : "grace", state.pendingProduct?.rawValue,
                ].compactMap(\.self).joined(separator: " ")
            default: "something else"
            }
        }
    }
}

@Suite("Server notifications of the App Store")
struct NotificationTests {
    private let foundry: AppStoreFoundry
    private let now = Timestamp.minute(60)

    init() throws { foundry = try AppStoreFoundry.valid.get() }

    private func verify(_ payload: String) throws -> VerifiedEvidence {
        try AppStoreStage.notification(payload, now: now.milliseconds)
    }

    @Test("Each type gives its facts, with the dates of the inner signatures", arguments: NotificationCase.dated)
    func types(_ example: NotificationCase) throws {
        let evidence = try verify(example.payload())
        #expect(evidence.kind == .appStoreNotification)
        #expect(evidence.event == example.event)
        #expect(NotificationCase.words(evidence.facts) == example.facts)
        #expect(evidence.signedDate == .minute(0))
        let dates = [example.transaction, example.renewal].compactMap { $0?["signedDate"] }
        for fact in evidence.facts {
            let stamp: Stamp? =
                switch fact {
                case .purchase(let purchase): purchase.stamp
                case .revocation(let status): status.stamp
                case .renewalState(let state): state.stamp
                default: nil
                }
            let date = try #require(stamp?.signedDate)
            #expect(dates.contains(.date(date)))
            #expect(stamp == .signed(at: date))
        }
        let line = example.type == "ONE_TIME_CHARGE" ? "2000000000000009" : "2000000000000001"
        #expect(evidence.line == TransactionReference(store: .appStore, environment: .sandbox, id: .init(line)))
    }

    @Test("Types without a transaction give no facts")
    func withoutFacts() throws {
        let app: SignedFields = ["bundleId": "com.example", "environment": "Sandbox", "appAppleId": 1234]
        let token: SignedFields = [
            "bundleId": "com.example", "appAppleId": 1234, "externalPurchaseId": "SANDBOX_1", "tokenCreationDate": 0,
        ]
        let payloads = [
            "TEST": try foundry.notification("TEST"),
            "RENEWAL_EXTENSION/SUMMARY": try foundry.notification(
                "RENEWAL_EXTENSION", "SUMMARY", fields: ["data": nil, "summary": .object(app)]),
            "EXTERNAL_PURCHASE_TOKEN/UNREPORTED": try foundry.notification(
                "EXTERNAL_PURCHASE_TOKEN", "UNREPORTED",
                fields: ["data": nil, "externalPurchaseToken": .object(token)]),
            "RESCIND_CONSENT": try foundry.notification(
                "RESCIND_CONSENT", fields: ["data": nil, "appData": .object(app)]),
        ]
        for (event, payload) in payloads {
            let evidence = try verify(payload)
            #expect(evidence.event == event)
            #expect(evidence.facts == [])
            #expect(evidence.line == nil)
        }
    }

    @Test("An unknown type without a known member gives no facts, and a known type without one is refused")
    func withoutContent() throws {
        let content: SignedFields = ["data": nil, "laterData": .object(["bundleId": "com.other"])]
        let evidence = try verify(try foundry.notification("SOMETHING_NEW", "LATER", fields: content))
        #expect(evidence.event == "SOMETHING_NEW/LATER" && evidence.kind == .appStoreNotification)
        #expect(evidence.facts == [] && evidence.line == nil && evidence.accountToken == nil)
        for type in ["REFUND", "TEST", "RENEWAL_EXTENSION", "EXPIRED"] {
            AppStoreStage.expectRefusal(.content, "data") {
                try verify(try foundry.notification(type, fields: content))
            }
        }
    }

    @Test("A token for external purchases without a prefix is of production")
    func externalToken() throws {
        let token: SignedFields = ["bundleId": "com.example", "appAppleId": 4321, "externalPurchaseId": "b2158121"]
        let payload = try foundry.notification(
            "EXTERNAL_PURCHASE_TOKEN", fields: ["data": nil, "externalPurchaseToken": .object(token)])
        AppStoreStage.expectRefusal(.app, "4321, not 1234") { try verify(payload) }
    }

    @Test("Any three notifications give the same records in every order, and repeated")
    func orders() throws {
        let facts = try NotificationCase.dated.map { try verify($0.payload()).facts }
        let ledgers = facts.map { Ledger($0.map(\.record)) }
        let orders = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]]
        for (first, second, third) in Self.triples(of: ledgers.count) {
            let chosen = [first, second, third]
            let merged = ledgers[first].joined(with: ledgers[second]).joined(with: ledgers[third])
            for order in orders {
                let sequence = order.map { chosen[$0] }
                let ledger = (sequence + sequence).reduce(Ledger()) { $0.joined(with: ledgers[$1]) }
                try #require(ledger == merged, "\(sequence)")
            }
        }
    }

    @Test("The server's ledger is the same in every order, and repetitions are not new")
    func serverOrders() throws {
        let facts = try NotificationCase.dated.map { try verify($0.payload()).facts }
        let catalog = try SubscriptionLife.catalog()
        // Some triples: adding to a ledger reads all of it.
        for (index, triple) in Self.triples(of: facts.count).enumerated() where index.isMultiple(of: 9) {
            let chosen = [triple.0, triple.1, triple.2]
            var ledgers: Set<ServerLedger> = []
            for order in [chosen, chosen.reversed(), [chosen[1], chosen[2], chosen[0]]] {
                var server = ServerLedger()
                for index in order { _ = server.add(facts[index], catalog: catalog, at: now) }
                for index in order {
                    try #require(server.add(facts[index], catalog: catalog, at: now) == [], "\(order)")
                }
                ledgers.insert(server)
            }
            try #require(ledgers.count == 1, "\(chosen)")
        }
    }

    private static func triples(of count: Int) -> [(Int, Int, Int)] {
        (0..<count).flatMap { first in
            (first + 1..<count).flatMap { second in (second + 1..<count).map { (first, second, $0) } }
        }
    }

    @Test("A transaction that was signed before the refund revives nothing")
    func staleTransaction() throws {
        let refund = try verify(
            foundry.notification(
                "REFUND", transaction: ["revocationDate": .minute(10), "signedDate": .minute(11)]))
        let stale = try verify(foundry.notification("DID_RENEW", transaction: ["signedDate": .minute(10)]))
        for order in [[refund, stale], [stale, refund], [refund, stale, stale]] {
            let ledger = Self.ledger(order)
            #expect(try Self.status(in: ledger).revokedAt == .minute(10))
        }
    }

    @Test("A reversed refund restores the purchase in every order")
    func reversal() throws {
        let refund = try verify(
            foundry.notification(
                "REFUND", transaction: ["revocationDate": .minute(10), "signedDate": .minute(11)]))
        let reversal = try verify(foundry.notification("REFUND_REVERSED", transaction: ["signedDate": .minute(12)]))
        let second = try verify(
            foundry.notification(
                "REFUND", transaction: ["revocationDate": .minute(13), "signedDate": .minute(14)]))
        for order in [[refund, reversal], [reversal, refund], [reversal, refund, reversal, refund]] {
            #expect(try Self.status(in: Self.ledger(order)).revokedAt == nil)
        }
        for order in [[refund, reversal, second], [second, refund, reversal], [reversal, second, refund]] {
            #expect(try Self.status(in: Self.ledger(order)).revokedAt == .minute(13))
        }
    }

    @Test("An extended renewal restates the expiry and is no contradiction")
    func extendedRenewal() throws {
        let renewal = try verify(foundry.notification("DID_RENEW", transaction: ["expiresDate": .minute(30)]))
        let extended = try verify(
            foundry.notification(
                "RENEWAL_EXTENDED", transaction: ["expiresDate": .minute(50), "signedDate": .minute(1)]))
        for order in [[renewal, extended], [extended, renewal, renewal]] {
            var server = ServerLedger()
            for evidence in order { _ = server.add(evidence.facts, catalog: try SubscriptionLife.catalog(), at: now) }
            let facts = Facts(account: Ledger(), server: server.ledger)
            #expect(facts.contradictions == [])
            #expect(facts.purchases.map(\.storeExpiry) == [.minute(50)])
        }
    }

    @Test("The account token is read in lower case")
    func accountToken() throws {
        let token = "7E3FB204-2B8F-4D3C-9A1B-0123456789AB"
        let payload = try foundry.notification("SUBSCRIBED", transaction: ["appAccountToken": .text(token)])
        #expect(try verify(payload).accountToken == token.lowercased())
    }

    private static func ledger(_ evidence: [VerifiedEvidence]) -> Ledger {
        evidence.reduce(Ledger()) { $0.joined(with: Ledger($1.facts.map(\.record))) }
    }

    private static func status(in ledger: Ledger) throws -> Revocation {
        let line = TransactionReference(store: .appStore, environment: .sandbox, id: "2000000000000001")
        return try #require(Facts(account: ledger).revocations[line])
    }
}
