import Entitlements
import EvidenceTestSupport
import Foundation
import HTTPTypes
import ServiceTestSupport
import StoreEvidence
import SyncCore
import Synchronization

@testable import SyncService

/// A stand-in for Google Play, whose answers a test states by purchase token.
final class PlayDesk: PlayLookup {
    struct Failure: PlayLookupError {
        var isNotFound = false
        var isRejected = false
        var isTransient: Bool { !isNotFound && !isRejected }
    }

    private struct State {
        var subscriptions: [String: String] = [:]
        var products: [String: String] = [:]
        var acknowledged: [String] = []
        var refusal: Failure?
        var failure: Failure?
        var productLookUpCount = 0
    }

    private let state = Mutex(State())

    /// The acknowledged purchases: kind, product, token and package.
    var acknowledged: [String] { state.withLock { $0.acknowledged } }

    init(subscriptions: [String: String] = [:]) { state.withLock { $0.subscriptions = subscriptions } }

    func set(subscription answer: String, for token: String = "token") {
        state.withLock { $0.subscriptions[token] = answer }
    }

    func set(product answer: String, for token: String = "token") { state.withLock { $0.products[token] = answer } }

    /// The number of look-ups of one-time products.
    var productLookUpCount: Int { state.withLock { $0.productLookUpCount } }

    /// Makes acknowledgements fail, or succeed again.
    func refuse(_ refuses: Bool, _ failure: Failure = Failure()) {
        state.withLock { $0.refusal = refuses ? failure : nil }
    }

    /// Makes look-ups of one-time products fail, or succeed again.
    func failProducts(_ failure: Failure?) { state.withLock { $0.failure = failure } }

    func subscription(packageName: String, purchaseToken: String) async throws -> [UInt8] {
        try answer(state.withLock { $0.subscriptions[purchaseToken] })
    }

    func product(packageName: String, purchaseToken: String) async throws -> [UInt8] {
        let failure = state.withLock { state in
            state.productLookUpCount += 1
            return state.failure
        }
        if let failure { throw failure }
        return try answer(state.withLock { $0.products[purchaseToken] })
    }

    func acknowledge(
        packageName: String, product: String, purchaseToken: String, isSubscription: Bool
    ) async throws {
        try state.withLock { state in
            if let refusal = state.refusal { throw refusal }
            state.acknowledged.append(
                "\(isSubscription ? "subscription" : "product") \(product) \(purchaseToken) \(packageName)")
        }
    }

    private func answer(_ text: String?) throws -> [UInt8] {
        guard let text else { throw Failure(isNotFound: true) }
        return Array(text.utf8)
    }
}

/// A service that receives notifications of Google Play, with an account that registered a token.
struct PlayStage {
    static let token = "0f8fad5b-d9cb-469f-a165-70867728950e"
    private static let hour: Int64 = 3_600_000

    private struct AnyPush: PushAuthentication {
        func verify(_ token: String, now: Int64) async throws(TokenRefusal) {}
    }

    let stage: EvidenceStage
    let desk: PlayDesk

    init(_ desk: PlayDesk = PlayDesk()) async throws {
        self.desk = desk
        let verifier = try GooglePlayVerifier(
            packageNames: ["com.example.owl"], publicKey: try PlayKey.shared.get().publicKey)
        stage = try await EvidenceStage(.verified) {
            ($0.googlePlay, $0.push) = (verifier, AnyPush())
            $0.lookup = desk
        }
        _ = await stage.service.ask(
            .post, "/v1/accounts/self/token", token: stage.alice.token, json: ["token": Self.token])
    }

    /// An answer about a subscription. Dates are in hours after the start of the stage.
    static func subscription(
        _ state: String = "ACTIVE", order: String?, until end: Double, members: String = ""
    ) -> String {
        let start = Timestamp(milliseconds: EvidenceStage.start)
        let expiry = date(end)
        let order = order.map { ",\"latestSuccessfulOrderId\":\"\($0)\"" } ?? ""
        return "{\"subscriptionState\":\"SUBSCRIPTION_STATE_\(state)\",\"startTime\":\"\(start)\","
            + "\"externalAccountIdentifiers\":{\"obfuscatedExternalAccountId\":\"\(token)\"},\"lineItems\":["
            + "{\"productId\":\"month\",\"expiryTime\":\"\(expiry)\"\(order)}]\(members)}"
    }

    /// An answer about a purchase of one-time products at the start of the stage.
    static func product(
        _ state: String = "PURCHASED", quantity: Int = 1, left: Int? = nil, members: String = ""
    ) -> String {
        let left = left.map { ",\"refundableQuantity\":\($0)" } ?? ""
        return "{\"purchaseStateContext\":{\"purchaseState\":\"\(state)\"},\"orderId\":\"GPA.1-2\","
            + "\"purchaseCompletionTime\":\"\(date(0))\",\"obfuscatedExternalAccountId\":\"\(token)\","
            + "\"productLineItem\":[{\"productId\":\"owl\",\"productOfferDetails\":{\"quantity\":\(quantity)\(left)}}]"
            + "\(members)}"
    }

    static func date(_ hours: Double) -> Timestamp {
        Timestamp(milliseconds: EvidenceStage.start + Int64(hours * Double(hour)))
    }

    /// Sends the purchase of ``product(_:quantity:left:members:)`` as a device does that got it from Google Play.
    func send(as account: LedgerAccount, order: String = "GPA.1-2", members: String = "") async throws -> Reply {
        await stage.send([try evidence(order: order, members: members)], as: account)
    }

    /// The item that ``send(as:order:members:)`` sends.
    func evidence(order: String, members: String = "") throws -> [String: String] {
        let data =
            "{\"orderId\":\"\(order)\",\"packageName\":\"com.example.owl\",\"productId\":\"owl\","
            + "\"purchaseToken\":\"token\",\"purchaseTime\":\(EvidenceStage.start),\"purchaseState\":0\(members)}"
        let signature = try PlayKey.shared.get().signature(of: data)
        return ["kind": "google-play", "data": data, "signature": signature]
    }

    /// Sends a developer notification and returns the status of the answer.
    func push(_ details: String) async -> Int {
        let text = "{\"packageName\":\"com.example.owl\",\"eventTimeMillis\":\(stage.now),\(details)}"
        let body = "{\"message\":{\"data\":\"\(Data(text.utf8).base64EncodedString())\"}}"
        return await stage.service.ask(
            .post, "/v1/notifications/google-play", token: "google", [.contentType: "application/json"],
            body: Array(body.utf8)
        ).status
    }

    func pushSubscription(_ type: Int) async -> Int {
        await push("\"subscriptionNotification\":{\"notificationType\":\(type),\"purchaseToken\":\"token\"}")
    }

    func pushProduct(_ type: Int = 1) async -> Int {
        await push(
            "\"oneTimeProductNotification\":{\"notificationType\":\(type),\"purchaseToken\":\"token\",\"sku\":\"owl\"}")
    }

    func pushRefund(_ order: String, type: Int = 1) async -> Int {
        await push(
            "\"voidedPurchaseNotification\":{\"purchaseToken\":\"token\",\"orderId\":\"\(order)\",\"productType\":2,"
                + "\"refundType\":\(type)}")
    }

    /// Sets the clock to a number of hours after the start of the stage.
    func wait(until hours: Double) {
        let seconds = (Self.date(hours).milliseconds - stage.now) / 1_000
        stage.clock.advance(seconds: seconds)
    }

    /// The verified purchases of alice by their ids.
    func purchases() async throws -> [String: Purchase] {
        let purchases = try await stage.serverLedger(of: stage.alice).facts.compactMap(\.purchase)
        return Dictionary(uniqueKeysWithValues: purchases.map { ($0.transaction.id.rawValue, $0) })
    }
}
