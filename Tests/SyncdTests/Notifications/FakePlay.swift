import Crypto
import CryptoExtras
import Foundation
import SyncCore
import Synchronization

/// A stand-in for Google's token endpoint, the look-ups of subscriptions and one-time products, the acknowledgements
/// and `purchases.voidedpurchases.list`.
final class FakePlay: Sendable {
    static let (package, account, keyID) = ("com.example", "sync@example.iam.gserviceaccount.com", "K1")
    private static let accessToken = "ya29.secret"

    let key: _RSA.Signing.PrivateKey
    private let subscriptions: Mutex<[String: String]>
    private let products = Mutex<[String: String]>([:])
    private let isRefusing = Mutex(false)
    private let refunds: [(order: String, date: Int64)]

    /// - Parameters:
    ///   - subscriptions: The answers by purchase token.
    ///   - refunds: The orders that were refunded in full, with the dates in milliseconds since 1970.
    init(_ subscriptions: [String: String], refunds: [(order: String, date: Int64)] = []) throws {
        self.refunds = refunds
        key = try _RSA.Signing.PrivateKey(keySize: .bits2048)
        self.subscriptions = Mutex(subscriptions)
    }

    func set(_ answer: String, for token: String) { subscriptions.withLock { $0[token] = answer } }

    func set(product answer: String, for token: String) { products.withLock { $0[token] = answer } }

    /// Makes acknowledgements fail, or succeed again.
    func refuse(_ refuses: Bool) { isRefusing.withLock { $0 = refuses } }

    /// Starts the server.
    func start() throws -> FakeAPI { try FakeAPI { [self] in answer($0) } }

    /// The key file of the service account.
    func keyFile(_ api: FakeAPI) throws -> [UInt8] {
        Array(
            try JSONEncoder().encode([
                "type": "service_account", "client_email": Self.account, "private_key_id": Self.keyID,
                "private_key": key.pkcs8PEMRepresentation, "token_uri": "\(api.url)/token",
            ]))
    }

    /// A subscription that is active until `expiry`.
    static func subscription(
        _ order: String, expiry: String, token: String?, state: String = "SUBSCRIPTION_STATE_ACTIVE",
        product: String = Owls.threeMonths
    ) -> String {
        let owner = token.map { #""externalAccountIdentifiers":{"obfuscatedExternalAccountId":"\#($0)"},"# } ?? ""
        return """
            {"kind":"androidpublisher#subscriptionPurchaseV2","startTime":"2026-11-01T00:00:00Z",\(owner)\
            "subscriptionState":"\(state)","latestOrderId":"\(order)","lineItems":[{"productId":"\(product)",\
            "expiryTime":"\(expiry)","latestSuccessfulOrderId":"\(order)",\
            "autoRenewingPlan":{"autoRenewEnabled":true}}]}
            """
    }

    private func answer(_ request: FakeAPI.Request) -> FakeAPI.Answer {
        if request.path == "/token" { return grant(request) }
        guard request.bearer == Self.accessToken else {
            return FakeAPI.Answer(status: "401 Unauthorized", body: #"{"error":{"code":401,"message":"bad"}}"#)
        }
        let purchases = "/androidpublisher/v3/applications/\(Self.package)/purchases/"
        if request.method == "GET", request.path == purchases + "voidedpurchases" { return refunds(request) }
        if request.method == "POST", request.path.hasSuffix(":acknowledge") {
            let isRefused = isRefusing.withLock { $0 }
            return FakeAPI.Answer(status: isRefused ? "409 Conflict" : "204 No Content", body: "")
        }
        let look =
            [(purchases + "subscriptionsv2/tokens/", subscriptions.withLock { $0 })]
            + [(purchases + "productsv2/tokens/", products.withLock { $0 })]
        for (prefix, answers) in look where request.method == "GET" && request.path.hasPrefix(prefix) {
            guard let answer = answers[String(request.path.dropFirst(prefix.count))] else { break }
            return FakeAPI.Answer(body: answer)
        }
        return FakeAPI.Answer(status: "404 Not Found", body: #"{"error":{"code":404,"message":"not found"}}"#)
    }

    /// A page with one refund. As Google does, it refuses a start more than 30 days ago.
    private func refunds(_ request: FakeAPI.Request) -> FakeAPI.Answer {
        let oldest = HostServices.system.now() - 30 * 86_400_000
        guard let start = Int64(request.query["startTime"] ?? ""), start >= oldest, request.query["type"] == "1",
            let page = Int(request.query["token"] ?? "0")
        else { return FakeAPI.Answer(status: "400 Bad Request", body: #"{"error":{"code":400,"message":"bad"}}"#) }
        let all = refunds.filter { $0.date >= start }
        let items = all.dropFirst(page).prefix(1).map { refund in
            #"{"kind":"androidpublisher#voidedPurchase","purchaseToken":"t\#(page)","purchaseTimeMillis":"1","#
                + #""voidedTimeMillis":"\#(refund.date)","orderId":"\#(refund.order)","voidedSource":1,"#
                + #""voidedReason":0}"#
        }
        let next = page + 1 < all.count ? #","tokenPagination":{"nextPageToken":"\#(page + 1)"}"# : ""
        return FakeAPI.Answer(body: #"{"voidedPurchases":[\#(items.joined(separator: ","))]\#(next)}"#)
    }

    /// Checks the assertion of RFC 7523: RS256 by the account's key, issuer, scope, audience, and at most 60 minutes.
    private func grant(_ request: FakeAPI.Request) -> FakeAPI.Answer {
        var form = URLComponents()
        form.percentEncodedQuery = request.body
        let fields = Dictionary((form.queryItems ?? []).map { ($0.name, $0.value ?? "") }) { $1 }
        let parts = (fields["assertion"] ?? "").split(separator: ".")
        guard parts.count == 3, fields["grant_type"] == "urn:ietf:params:oauth:grant-type:jwt-bearer",
            key.publicKey.isValidSignature(
                _RSA.Signing.RSASignature(rawRepresentation: FakeAPI.decoded(parts[2])),
                for: SHA256.hash(data: Data("\(parts[0]).\(parts[1])".utf8)), padding: .insecurePKCS1v1_5)
        else { return FakeAPI.Answer(status: "400 Bad Request", body: #"{"error":"invalid_grant"}"#) }
        let (header, claims) = (
            FakeAPI.object(FakeAPI.decoded(parts[0])), FakeAPI.object(FakeAPI.decoded(parts[1]))
        )
        let now = HostServices.system.now() / 1_000
        guard header["alg"] as? String == "RS256", header["kid"] as? String == Self.keyID,
            claims["iss"] as? String == Self.account, (claims["aud"] as? String)?.hasSuffix("/token") == true,
            claims["scope"] as? String == "https://www.googleapis.com/auth/androidpublisher",
            let issued = claims["iat"] as? Int64, let expiry = claims["exp"] as? Int64, issued <= now + 60,
            expiry > now, expiry - issued <= 3_600
        else { return FakeAPI.Answer(status: "400 Bad Request", body: #"{"error":"invalid_grant"}"#) }
        return FakeAPI.Answer(
            body: #"{"access_token":"\#(Self.accessToken)","expires_in":3599,"token_type":"Bearer"}"#)
    }
}
