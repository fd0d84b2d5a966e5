import Entitlements
import EvidenceTestSupport
import Testing

@testable import StoreEvidence

@Suite("Restored copies in what the App Store signs")
struct RestoredCopyTests {
    /// The fields of a signed transaction that depend on the product.
    private static func fields(_ product: String) -> SignedFields {
        product == "com.example.owl"
            ? [
                "productId": "com.example.owl", "type": "Non-Consumable", "expiresDate": nil,
                "environment": "Production",
            ] : ["webOrderLineItemId": "7000000000000001", "environment": "Production"]
    }

    private static func catalog() throws -> Catalog {
        try Catalog(
            products: [
                Product(
                    id: "com.example.monthly",
                    kind: .autoRenewable(
                        group: "main", level: 1, duration: CalendarDuration(months: 1), introductory: nil)),
                Product(
                    id: "com.example.yearly",
                    kind: .autoRenewable(
                        group: "main", level: 1, duration: CalendarDuration(months: 12), introductory: nil)),
                Product(id: "com.example.owl", kind: .nonConsumable),
            ],
            entitlements: [
                Entitlement(id: "all", grantedBy: [.group("main"), .product("com.example.owl")])
            ])
    }

    /// A statement in minute `minute`, 5 minutes after which it is verified.
    private static func transaction(_ fields: SignedFields, minute: Int64) throws -> [Fact] {
        let jws = try AppStoreFoundry.valid.get().transaction(fields.replacing(with: ["signedDate": .minute(minute)]))
        return try AppStoreStage.transaction(jws, now: Timestamp.minute(minute + 5).milliseconds).facts
    }

    /// A receipt of the same purchase as transaction 177, created a minute after the purchase.
    private static func receipt(_ product: String) throws -> [Fact] {
        let expiry = product == "com.example.owl" ? "" : "2025-07-01T12:00:00Z"
        let purchase = MintedPurchase("177", product, at: "2025-06-01T12:00:00Z", original: "100", expiry: expiry) {
            $0.extra = [
                (1707, DERBytes.integer(expiry == "" ? 0 : 3)),
                (1711, DERBytes.integer(expiry == "" ? 0 : 7_000_000_000_000_001)),
            ]
        }
        return try ReceiptStage.verify(MintedReceipt([purchase]) { $0.created = "2025-06-01T12:01:00Z" }).facts
    }

    /// The access an hour after the purchase, on the server and on a device that has verified the facts itself.
    private static func access(_ facts: [Fact], at minute: Int64 = 60) throws -> [Access?] {
        let catalog = try catalog()
        var server = ServerLedger()
        for fact in facts { _ = server.add([fact], catalog: catalog, at: .minute(minute)) }
        return [
            Facts(account: Ledger(), server: server.ledger), Facts(account: Ledger(facts.map(\.record))),
        ].map { Replay($0, catalog: catalog).access(to: "all", at: .minute(minute)) }
    }

    @Test(
        "A refund reaches the copies that another device restored, in whatever order all arrive",
        arguments: ["com.example.monthly", "com.example.owl"], [true, false])
    func refund(product: String, isReceipt: Bool) throws {
        let fields = Self.fields(product)
        let phone = fields.replacing(with: ["transactionId": "100", "originalTransactionId": "100"])
        let tablet = fields.replacing(with: ["transactionId": "177", "originalTransactionId": "100"])
        let bought = try Self.transaction(phone, minute: 0)
        let copy = try isReceipt ? Self.receipt(product) : Self.transaction(tablet, minute: 1)
        for access in try Self.access(bought + copy) { #expect(access?.isGranted == true) }
        let refund = try Self.transaction(phone.replacing(with: ["revocationDate": .minute(10)]), minute: 11)
        for order in [bought + copy + refund, refund + copy + bought, copy + refund, refund + copy] {
            for access in try Self.access(order) { #expect(access == .denied(.revoked(.minute(10)))) }
        }
        let reversal = try Self.transaction(tablet, minute: 20)
        for access in try Self.access(bought + refund + reversal + copy) { #expect(access?.isGranted == true) }
        let facts = Facts(account: Ledger((bought + copy + refund + reversal).map(\.record)))
        #expect(facts.purchases.count == 1)
    }

    @Test("A receipt states line items and non-consumables, and 0 stands for no line item")
    func receiptFields() throws {
        let monthly = try #require(Self.receipt("com.example.monthly").compactMap(\.purchase).first)
        #expect(monthly.lineItemID == "7000000000000001")
        #expect(!monthly.isNonConsumable)
        let owl = try #require(Self.receipt("com.example.owl").compactMap(\.purchase).first)
        #expect(owl.lineItemID == nil)
        #expect(owl.isNonConsumable)
    }

    @Test("A receipt whose undocumented attribute 1707 is no number is read, and states no non-consumable")
    func otherType() throws {
        let purchase = MintedPurchase("177", "com.example.owl", at: "2025-06-01T12:00:00Z", original: "100", expiry: "")
        {
            $0.extra = [(1707, DERBytes.utf8("Non-Consumable"))]
        }
        let facts = try ReceiptStage.verify(MintedReceipt([purchase]) { $0.created = "2025-06-01T12:01:00Z" }).facts
        #expect(facts.compactMap(\.purchase).map(\.isNonConsumable) == [false])
        #expect(facts.compactMap(\.purchase).map(\.product) == ["com.example.owl"])
    }

    @Test("A transaction states its line item and type, and 0 stands for no line item")
    func transactionFields() throws {
        func purchase(_ fields: SignedFields) throws -> Purchase {
            try #require(try Self.transaction(fields, minute: 0).compactMap(\.purchase).first)
        }
        #expect(try purchase(["webOrderLineItemId": "7"]).lineItemID == "7")
        #expect(try purchase(["webOrderLineItemId": "0"]).lineItemID == nil)
        #expect(try purchase([:]).lineItemID == nil)
        #expect(try !purchase([:]).isNonConsumable)
        #expect(try purchase(Self.fields("com.example.owl")).isNonConsumable)
        let unit = try purchase(["type": "Consumable", "productId": "coins", "expiresDate": nil])
        #expect(unit.originalID == nil && !unit.isNonConsumable)
        try AppStoreStage.expectRefusal(
            .content, "webOrderLineItemId", fields: ["webOrderLineItemId": .text(String(repeating: "7", count: 256))]
        ) { _ in }
    }

    @Test("An upgraded period ends when Apple states it, or where its successor starts")
    func upgrade() throws {
        let monthly: SignedFields = [
            "transactionId": "100", "originalTransactionId": "100", "environment": "Production",
        ]
        let bought = try Self.transaction(monthly, minute: 0)
        let month = Timestamp.minute(30 * 1_440)
        let source = Entitlement.Source.group("main")
        for access in try Self.access(bought) {
            #expect(access == .granted(Access.Grant(until: month, source: source)))
        }
        let upgraded = try Self.transaction(monthly.replacing(with: ["isUpgraded": true]), minute: 10)
        for access in try Self.access(bought + upgraded) { #expect(access == .denied(.expired(.minute(10)))) }
        for access in try Self.access(upgraded + bought) { #expect(access == .denied(.expired(.minute(10)))) }
        let successor = try Self.transaction(
            monthly.replacing(with: [
                "transactionId": "101", "productId": "com.example.yearly", "purchaseDate": .minute(8),
                "expiresDate": .minute(500),
            ]), minute: 8)
        let facts = Facts(account: Ledger((bought + upgraded + successor).map(\.record)))
        let replay = Replay(facts, catalog: try Self.catalog())
        #expect(replay.timelines["main"]?.periods.map(\.end) == [.minute(8), .minute(500)])
        #expect(facts.revocation(of: try #require(facts.purchases.first)) == nil)
    }
}

extension Fact {
    fileprivate var purchase: Purchase? { if case .purchase(let purchase) = self { purchase } else { nil } }
}
