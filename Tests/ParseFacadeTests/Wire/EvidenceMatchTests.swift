import Entitlements
import EvidenceTestSupport
import Foundation
import HTTPTypes
import ServiceTestSupport
import StoreEvidence
import SyncService
import Testing

@Suite("Written dates and the evidence of a store")
struct EvidenceMatchTests {
    private let foundry: AppStoreFoundry
    private let stage: ParseStage
    private let user: ParseStage.User
    private let token: String?

    private static let (three, six) = (
        "com.back40.InsomniOwl.3monthsOfRandom", "com.back40.InsomniOwl.6monthsOfRandom"
    )

    init() async throws {
        let foundry = try AppStoreFoundry.valid.get()
        let verifier = AppStoreVerifier(bundleIDs: ["com.example"], roots: try EvidenceRoots(pem: foundry.roots))
        self.foundry = foundry
        stage = try await ParseStage(configure: {
            ($0.evidence.appStore, $0.accessTokenLifetime) = (verifier, 86_400)
        })
        user = await stage.signUp("owl", "secret password")
        let session = await stage.service.ask(
            .post, "/v1/sessions",
            json: ["grant_type": "password", "username": "owl", "password": "secret password"])
        token = session["access_token"]
    }

    /// The old app writes the end that it has computed.
    private func write(_ date: String, installation: String = "i1") async throws {
        let body = #"{"ExpirationDate":{"__type":"Date","iso":"\#(date)"}}"#
        let reply = await stage.ask("PUT", "/users/\(user.id)", body, token: user.token, installation: installation)
        try #require(reply.status == 200)
    }

    /// The new version sends what the App Store has signed about a purchase, `seconds` after the present time.
    private func send(_ id: String, _ product: String, seconds: Int64 = 0) async throws {
        let date = SignedField.number(stage.clock.now + seconds * 1_000)
        let jws = try foundry.transaction([
            "transactionId": .text(id), "productId": .text(product), "type": "Non-Renewing Subscription",
            "purchaseDate": date, "originalPurchaseDate": date, "signedDate": .number(stage.clock.now),
            "expiresDate": nil, "subscriptionGroupIdentifier": nil, "environment": "Production",
        ])
        let reply = await stage.service.ask(
            .post, "/v1/transactions", token: token,
            json: ["evidence": [["kind": "app-store-transaction", "jws": jws]]])
        let results = reply.members["results"] as? [[String: Any]]
        let isRecorded = reply.status == 200 && results?.first?["facts"] != nil
        try #require(isRecorded, "\(String(decoding: reply.body, as: UTF8.self))")
    }

    /// The end of the group that the old app is shown, which must be the one under `/v1`.
    private func end(installation: String = "reader") async throws -> Timestamp {
        let reply = await stage.service.ask(.get, "/v1/entitlements", token: token)
        let list = reply.members["subscriptions"] as? [[String: Any]]
        let end = try #require(list?.first { $0["group"] as? String == "random" }?["expires"] as? String)
        let user = await stage.ask("GET", "/users/me", token: user.token, installation: installation)
        #expect((user.members["ExpirationDate"] as? [String: String])?["iso"] == end)
        return try Timestamp(end)
    }

    /// The number of months from the present time to the end of the group.
    private func months() async throws -> Int {
        let days = (try await end().milliseconds - stage.clock.now) / 86_400_000
        return Int((Double(days) / 30.4).rounded())
    }

    @Test("The store's transaction is the purchase that the old app wrote, whichever the server learns first")
    func sameDuration() async throws {
        try await write(stage.date(months: 3))
        #expect(try await months() == 3)
        try await send("1", Self.three, seconds: -20)
        #expect(try await months() == 3)
        // The next purchase: the store first, and then the app.
        stage.clock.advance(seconds: 5 * 3_600)
        let base = try await end(installation: "i1")
        try await send("2", Self.six)
        #expect(try await months() == 9)
        try await write("\(base.adding(CalendarDuration(months: 6)))")
        #expect(try await months() == 9)
    }

    @Test("A purchase that a new version makes minutes after the old app's is a further one", arguments: [3, 6])
    func newAppSecond(_ new: Int) async throws {
        try await write(stage.date(months: 3))
        stage.clock.advance(seconds: 60)
        try await send("1", new == 3 ? Self.three : Self.six)
        #expect(try await months() == 3 + new)
        // The old app's own transaction is still the purchase that it wrote.
        try await send("2", Self.three, seconds: -62)
        #expect(try await months() == 3 + new)
    }

    @Test(
        "A date that extends an end with the new version's purchase is a further purchase", arguments: [3, 6], [3, 6])
    func newAppFirst(_ new: Int, _ old: Int) async throws {
        try await write(stage.date(months: 3))
        stage.clock.advance(seconds: 3 * 3_600)
        try await send("1", new == 3 ? Self.three : Self.six)
        stage.clock.advance(seconds: 60)
        let base = try await end(installation: "i1")
        try await write("\(base.adding(CalendarDuration(months: Int64(old))))")
        #expect(try await months() == 3 + new + old)
        // It is still the transaction that the store states for it.
        try await send("2", old == 3 ? Self.three : Self.six, seconds: -2)
        #expect(try await months() == 3 + new + old)
    }

    @Test("A known purchase of another duration is a further one, though the old app had not seen it")
    func unseen() async throws {
        try await write(stage.date(months: 3))
        stage.clock.advance(seconds: 3 * 3_600)
        let base = try await end(installation: "i1")
        try await send("1", Self.three)
        stage.clock.advance(seconds: 600)
        try await write("\(base.adding(CalendarDuration(months: 6)))")
        #expect(try await months() == 12)
        try await send("2", Self.six, seconds: -5)
        #expect(try await months() == 12)
    }

    @Test("A sum of two purchases stands until the store has stated both")
    func sum() async throws {
        try await write(stage.date(months: 6))
        try await send("1", Self.three, seconds: -60)
        #expect(try await months() == 6)
        try await send("2", Self.three, seconds: -30)
        #expect(try await months() == 6)
    }

    @Test("Two purchases in an hour are matched one to one, and one more than an hour later is another purchase")
    func oneToOne() async throws {
        try await write(stage.date(months: 3))
        try await write(stage.date(months: 6))
        try await send("1", Self.three)
        #expect(try await months() == 6)
        try await send("2", Self.three, seconds: -10)
        #expect(try await months() == 6)
        stage.clock.advance(seconds: 2 * 3_600)
        try await send("3", Self.three)
        #expect(try await months() == 9)
    }
}
