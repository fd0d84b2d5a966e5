import Entitlements
import HTTPTypes
package import SyncCore
package import SyncProtocol
import SyncService
import Synchronization

/// A client of the Google Play Developer API.
///
/// It looks up subscriptions, one-time products and voided purchases, and acknowledges purchases: Play refunds a
/// purchase that is not acknowledged within three days.
package final class GooglePlayClient: PlayLookup, Sendable {
    /// The address of the API.
    package static let productionURL = "https://androidpublisher.googleapis.com"
    /// A margin before the expiry of an access token, in milliseconds: it must outlast a request.
    private static let margin: Int64 = 60_000
    /// The longest time for which an access token is cached, in milliseconds.
    private static let maximumLifetime: Int64 = 3_600_000

    private struct CachedToken {
        var text: String
        /// The period of use, in milliseconds since 1970 UTC. Without its beginning, a clock that is set back would
        /// extend the period.
        var period: Range<Int64>
    }

    private let account: ServiceAccount
    private let packageName: String
    private let connection: StoreAPIConnection
    private let cache = Mutex<CachedToken?>(nil)

    /// Creates a client for one app.
    ///
    /// - Parameters:
    ///   - serviceAccountJSON: The key file of a service account that the Play Console grants access to the app.
    ///   - packageName: The package name of the app.
    ///   - baseURL: The address of the API.
    ///   - transport: Sends the requests.
    ///   - host: The clock for tokens, and the timer for pauses.
    ///   - retries: The number of attempts of each request, and the pauses between them.
    /// - Throws: ``StoreAPIError/Kind/invalidArgument`` for an unusable setting.
    package init(
        serviceAccountJSON: [UInt8], packageName: String, baseURL: String = GooglePlayClient.productionURL,
        transport: any HTTPTransport, host: HostServices = .system,
        retries: RetryPolicy = AppStoreServerClient.defaultRetries
    ) throws(StoreAPIError) {
        account = try ServiceAccount(json: serviceAccountJSON)
        self.packageName = try StoreAPIConnection.encode(packageName, "the package name")
        connection = try StoreAPIConnection(
            api: "the Play Developer API", baseURL: baseURL, transport: transport, host: host, retries: retries)
    }

    private func look(_ kind: String, _ purchaseToken: String) async throws(StoreAPIError) -> [UInt8] {
        let token = try StoreAPIConnection.encode(purchaseToken, "the purchase token")
        let body = try await send(.get, "purchases/\(kind)/tokens/\(token)")
        guard (try? JSON(parsing: body)) != nil else {
            throw StoreAPIError(.malformed, "\(connection.api) answered with bytes that are not JSON")
        }
        return body
    }

    /// Returns the state of a subscription: a `SubscriptionPurchaseV2` resource in JSON.
    ///
    /// - Throws: ``StoreAPIError``, with the kind ``StoreAPIError/Kind/invalidArgument`` for another app.
    package func subscription(packageName: String, purchaseToken: String) async throws -> [UInt8] {
        try check(packageName)
        return try await look("subscriptionsv2", purchaseToken)
    }

    /// Returns the state of the one-time products of a purchase: a `ProductPurchaseV2` resource in JSON.
    ///
    /// - Throws: As ``subscription(packageName:purchaseToken:)``.
    package func product(packageName: String, purchaseToken: String) async throws -> [UInt8] {
        try check(packageName)
        return try await look("productsv2", purchaseToken)
    }

    private func check(_ packageName: String) throws(StoreAPIError) {
        guard packageName == self.packageName else {
            throw StoreAPIError(
                .invalidArgument, "the package name must be \(self.packageName), not \"\(packageName.singleLine)\"")
        }
    }

    /// Acknowledges a purchase. Repeating it has no effect.
    ///
    /// - Throws: As ``subscription(packageName:purchaseToken:)``.
    package func acknowledge(
        packageName: String, product: String, purchaseToken: String, isSubscription: Bool
    ) async throws {
        try check(packageName)
        let kind = isSubscription ? "subscriptions" : "products"
        let product = try StoreAPIConnection.encode(product, "the product ID")
        let token = try StoreAPIConnection.encode(purchaseToken, "the purchase token")
        do throws(StoreAPIError) {
            _ = try await send(
                .post, "purchases/\(kind)/\(product)/tokens/\(token):acknowledge", body: Array("{}".utf8))
        } catch {
            throw StoreAPIError(
                error.kind, status: error.status,
                "a purchase of \(product.singleLine) cannot be acknowledged: \(error.message)")
        }
    }

    /// A purchase that was cancelled, refunded or charged back.
    package struct VoidedPurchase: Hashable, Sendable {
        /// The token of the purchase.
        package let purchaseToken: String
        /// The order ID of the purchase.
        package let orderID: String?
        /// The time of the purchase, in milliseconds since 1970 UTC.
        package let purchasedAt: Int64
        /// The time at which the purchase was voided, in milliseconds since 1970 UTC.
        package let voidedAt: Int64

        /// Reads an entry of the list. Play writes 64-bit integers as strings.
        fileprivate init(_ entry: JSONReader) throws(InputError) {
            let members = try entry.object()
            func date(_ name: String) throws(InputError) -> Int64 {
                let member = try members.required(name)
                guard let date = Int64(try member.string()) else { throw member.error("not an integer") }
                return date
            }
            purchaseToken = try members.required("purchaseToken").string()
            orderID = try members["orderId"]?.string()
            (purchasedAt, voidedAt) = (try date("purchaseTimeMillis"), try date("voidedTimeMillis"))
        }
    }

    /// Reads all purchases that were voided since a time, subscriptions included.
    ///
    /// - Parameters:
    ///   - start: The beginning, in milliseconds since 1970 UTC; Play accepts at most 30 days ago.
    ///   - page: Receives each page. An error ends the reading.
    /// - Throws: ``StoreAPIError``, or the error of `page`.
    package func voidedPurchases(
        since start: Int64, _ page: (_ purchases: [VoidedPurchase]) async throws -> Void
    ) async throws {
        var tokens = PageTokens(api: connection.api)
        var query = ""
        while true {
            let bytes = try await send(.get, "purchases/voidedpurchases?startTime=\(start)&type=1\(query)")
            let (purchases, token) = try connection.read(bytes) { page throws(InputError) in
                let purchases = try (page["voidedPurchases"]?.array() ?? []).map { (entry) throws(InputError) in
                    try VoidedPurchase(entry)
                }
                return (purchases, try page["tokenPagination"]?.object()["nextPageToken"]?.string())
            }
            if !purchases.isEmpty { try await page(purchases) }
            guard let token else { return }
            query = "&token=\(try StoreAPIConnection.encode(try tokens.next(token), "a page token"))"
        }
    }

    /// Returns the cached access token, or obtains a new one.
    private func accessToken() async throws(StoreAPIError) -> String {
        let now = connection.host.now()
        if let token = cache.withLock({ $0 }), token.period.contains(now) { return token.text }
        let (text, seconds) = try await account.accessToken(over: connection)
        let lifetime = min(seconds, Self.maximumLifetime / 1_000) * 1_000
        cache.withLock { $0 = CachedToken(text: text, period: now..<now + max(0, lifetime - Self.margin)) }
        return text
    }

    private func send(
        _ method: HTTPRequest.Method, _ path: String, body: [UInt8] = []
    ) async throws(StoreAPIError) -> [UInt8] {
        let used = try await accessToken()
        do throws(StoreAPIError) {
            return try await attempt(method, path, body: body)
        } catch {
            // A token may be revoked before it expires. A new one is tried once.
            guard error.status == 401 else { throw error }
            let isCached = cache.withLock { cached in
                guard cached?.text == used else { return cached != nil }
                cached = nil
                return true
            }
            guard isCached else { throw error }
            return try await attempt(method, path, body: body)
        }
    }

    private func attempt(
        _ method: HTTPRequest.Method, _ path: String, body: [UInt8]
    ) async throws(StoreAPIError) -> [UInt8] {
        try await connection.send(
            method, "/androidpublisher/v3/applications/\(packageName)/\(path)", json: body
        ) { request throws(StoreAPIError) in
            request.headerFields[.authorization] = "Bearer \(try await accessToken())"
        } explain: { status, problem in
            switch status {
            case 401, 403:
                StoreAPIError(
                    .unauthorized, status: status,
                    "Play rejects the service account \(account.email)\(problem); check that the Play Console grants it"
                        + " access to \(packageName) under Users and permissions, with the right to see financial data"
                        + " and to manage orders, and that the Google Play Android Developer API is enabled"
                        + " in its project")
            case 404, 410:
                StoreAPIError(
                    .notFound, status: status,
                    "Play does not know the object, or no longer keeps it\(problem); check the package name,"
                        + " \(packageName), and the purchase token")
            default: nil
            }
        }
    }
}
