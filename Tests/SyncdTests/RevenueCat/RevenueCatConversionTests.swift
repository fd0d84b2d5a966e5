import Entitlements
import Testing

@testable import syncd

@Suite("Conversion of RevenueCat's transactions")
struct RevenueCatConversionTests {
    private let conversion: RevenueCatConversion

    init() throws {
        let json = """
            {"products":[{"id":"pro","type":"autoRenewable","group":"pro","duration":"P1M","level":1},
              {"id":"pass","type":"nonRenewing","group":"pass","duration":"P1Y"},{"id":"life","type":"nonConsumable"},
              {"id":"coins","type":"consumable","units":10}],"entitlements":[]}
            """
        conversion = RevenueCatConversion(catalog: try Catalog(json: Array(json.utf8)), skipsSandbox: false)
    }

    private func row(
        _ product: String = "pro", store: String = "app_store", _ id: String? = "2", original: String? = nil
    ) throws -> RevenueCatTransaction {
        RevenueCatTransaction(
            ids: ["u1"], product: product, store: store, transaction: id, original: original,
            start: try Timestamp("2026-01-01T00:00:00Z"), end: try Timestamp("2026-02-01T00:00:00Z"),
            stated: try Timestamp("2026-01-02T00:00:00Z"))
    }

    private func purchase(_ row: RevenueCatTransaction) -> Purchase? {
        guard case .facts(let facts, _, _) = conversion.result(row) else { return nil }
        return facts.compactMap(\.purchase).first
    }

    private func reason(_ row: RevenueCatTransaction) -> String? {
        if case .leftOut(let reason) = conversion.result(row) { reason } else { nil }
    }

    @Test("A transaction has the name that this server gives it when the store states it")
    func names() throws {
        let apple = try #require(purchase(try row(original: "1")))
        #expect("\(apple.transaction)" == "app-store/production/2" && apple.line.id == "1")
        let play = try #require(purchase(try row("pro:monthly", store: "play_store", "GPA.1-2-3-4..5", original: "x")))
        #expect("\(play.transaction)" == "google-play/production/GPA.1-2-3-4..5/pro")
        #expect(play.line.id == "GPA.1-2-3-4/pro" && play.product == "pro")
        let first = try #require(purchase(try row("life", store: "play_store", "GPA.1-2-3-4")))
        #expect(first.originalID == nil && first.storeExpiry == nil)
        let stripe = try #require(purchase(try row(store: "stripe", "in_1", original: "sub_1")))
        #expect("\(stripe.transaction)" == "stripe/production/in_1" && stripe.line.id == "sub_1")
        var sandbox = try row()
        sandbox.isSandbox = true
        #expect(purchase(sandbox)?.transaction.environment == .sandbox)
        #expect(purchase(try row())?.stamp.signedDate == nil)
    }

    @Test("What cannot be carried over is named")
    func losses() throws {
        #expect(reason(try row("gold"))?.contains("no product \"gold\"") == true)
        #expect(reason(try row("coins"))?.contains("consumables") == true)
        #expect(reason(try row("pro", nil))?.contains("without the store's transaction id") == true)
        #expect(reason(try row(store: "promotional"))?.contains("promotional") == true)
        #expect(reason(try row(store: "amazon")) == "purchases of the store \"amazon\"")
        #expect(reason(try row(store: "stripe", "ch_1"))?.contains("neither an invoice") == true)
        #expect(reason(try row(store: "play_store", "token"))?.contains("invalid") == true)
        #expect(reason(try row(String(repeating: "x", count: 300)))?.contains("no product") == true)
        #expect(reason(try row("pro", "a\nb"))?.contains("invalid") == true)
        var wrong = try row()
        wrong.end = nil
        #expect(reason(wrong)?.contains("without an end") == true)
        wrong.end = try Timestamp("2025-12-31T00:00:00Z")
        #expect(reason(wrong)?.contains("end before they begin") == true)
        var shared = try row()
        shared.isFamilyShared = true
        #expect(reason(shared)?.contains("family") == true)
        var paused = try row()
        (paused.resumes, paused.hasRenewalState) = (paused.end, true)
        if case .facts(_, _, let losses) = conversion.result(paused) {
            #expect(losses.count == 2 && losses[0].hasPrefix("pauses"))
        } else {
            Issue.record("a paused subscription is a purchase")
        }
        var refunded = try row()
        refunded.refunded = refunded.end
        if case .facts(let facts, _, _) = conversion.result(refunded) { #expect(facts.count == 2) }
    }

    @Test("A row of the export is read whatever its version writes for dates, Booleans and nothing")
    func rows() throws {
        let columns = [
            "rc_original_app_user_id", "rc_last_seen_app_user_id_alias", "product_identifier", "start_time", "end_time",
            "store", "is_sandbox", "store_transaction_id", "refunded_at", "ownership_type", "updated_at",
        ]
        let table = try RevenueCatColumns(columns)
        let anonymous = "$RCAnonymousID:0123456789abcdef0123456789abcdef"
        let row = try table.transaction([
            anonymous, "u1", "pro", "2026-01-01 08:27:06", "2026-02-01T08:27:06Z", "app_store", "t", "2", "null",
            "FAMILY_SHARED", "2026-01-05 00:00:00.123456",
        ])
        #expect(row.ids == ["u1", anonymous] && row.isSandbox && row.isFamilyShared && row.refunded == nil)
        #expect("\(row.start)" == "2026-01-01T08:27:06.000Z" && "\(row.stated)" == "2026-01-05T00:00:00.123Z")
        let wrong = ["u1", "", "pro", "yesterday", "", "app_store", "false", "2", "", "", ""]
        #expect(throws: InputError.self) { try table.transaction(wrong) }
        let error = #expect(throws: InputError.self) { try RevenueCatColumns(["id", "store"]) }
        #expect(error?.reason.contains("no column rc_original_app_user_id, product_identifier, start_time or") == true)
    }

    @Test("An answer of the v1 API is read, with the id that was asked for beside it")
    func answers() throws {
        let json = """
            {"app_user_id":"u1","request_date":"2026-03-01T00:00:00Z","subscriber":{"original_app_user_id":
            "$RCAnonymousID:0123456789abcdef0123456789abcdef","first_seen":"2025-12-31T00:00:00Z","entitlements":{},
            "subscriptions":{"pro":{"purchase_date":"2026-02-01T00:00:00Z","expires_date":"2026-03-01T00:00:00Z",
            "store":"app_store","is_sandbox":false,"store_transaction_id":"2","period_type":"trial",
            "ownership_type":"PURCHASED","refunded_at":null,"auto_resume_date":null}},
            "non_subscriptions":{"life":[{"id":"0a1b","purchase_date":"2026-01-01T00:00:00Z","store":"play_store",
            "is_sandbox":true}]}}}
            """
        let all = try RevenueCatTransaction.all(in: try JSON(parsing: Array(json.utf8)))
        #expect(all.map(\.product) == ["pro", "life"] && all.allSatisfy { $0.ids[0] == "u1" })
        #expect(all[0].transaction == "2" && all[0].isIntroductory && !all[0].isSandbox)
        #expect(all[1].transaction == nil && all[1].isSandbox)
        #expect(throws: InputError.self) { try RevenueCatTransaction.all(in: try JSON(parsing: Array("{}".utf8))) }
    }
}
