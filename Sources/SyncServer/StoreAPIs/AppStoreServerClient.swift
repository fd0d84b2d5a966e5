import Crypto
import Entitlements
import HTTPTypes
package import SyncCore
package import SyncProtocol
import SyncService

/// A client of the App Store Server API.
///
/// It reads what Apple signed while the server could not be reached. The answers are unverified: the caller verifies
/// each statement.
///
/// ```swift
/// let client = try AppStoreServerClient(
///     issuerID: issuer, keyID: "2X9R4HXF34", bundleID: "com.example.owls", privateKey: pem, transport: transport)
/// try await client.notifications(from: lastSeen, to: now) { page in
///     for signedPayload in page { try await receive(signedPayload) }
/// }
/// ```
package struct AppStoreServerClient: Sendable {
    /// The address for purchases in the App Store.
    package static let productionURL = "https://api.storekit.itunes.apple.com"
    /// The address for purchases in the sandbox, in TestFlight and during review.
    package static let sandboxURL = "https://api.storekit-sandbox.itunes.apple.com"
    /// The retries of a request: five attempts, and pauses of at most ten minutes together.
    package static let defaultRetries = RetryPolicy(
        maximumAttempts: 5, firstDelay: .seconds(1), maximumDelay: .seconds(30), maximumTotalDelay: .seconds(600))
    /// The lifetime of a token in seconds. Apple accepts at most 60 minutes.
    private static let tokenLifetime: Int64 = 1_200
    private static let millisecondsPerDay: Int64 = 86_400_000
    /// The distance of a start from the oldest notification, in milliseconds: Apple's clock may be ahead.
    private static let startMargin: Int64 = 60_000
    /// A history counts as endless after this number of consecutive pages without a new notification.
    private static let idlePageCount = 16

    /// Apple's codes for a page token that is invalid or has expired.
    private static let (invalidPage, expiredPage): (Int64, Int64) = (4_000_014, 4_000_017)

    private let issuerID: String
    private let keyID: String
    private let bundleID: String
    private let signer: TokenSigner
    private let connection: StoreAPIConnection

    /// Creates a client for one app in one environment.
    ///
    /// - Parameters:
    ///   - issuerID: The issuer ID of App Store Connect › Users and Access › Integrations › In-App Purchase.
    ///   - keyID: The ID of the in-app purchase key.
    ///   - bundleID: The bundle ID of the app.
    ///   - privateKey: The key's .p8 file: PEM with a P-256 key.
    ///   - baseURL: The address of the API. ``sandboxURL`` for the sandbox.
    ///   - transport: Sends the requests.
    ///   - host: The clock for tokens, and the timer for pauses.
    ///   - retries: The number of attempts of each request, and the pauses between them.
    /// - Throws: ``StoreAPIError/Kind/invalidArgument`` for an unusable setting.
    package init(
        issuerID: String, keyID: String, bundleID: String, privateKey: String,
        baseURL: String = Self.productionURL, transport: any HTTPTransport, host: HostServices = .system,
        retries: RetryPolicy = Self.defaultRetries
    ) throws(StoreAPIError) {
        for (name, value) in [("issuer ID", issuerID), ("key ID", keyID), ("bundle ID", bundleID)] where value.isEmpty {
            throw StoreAPIError(.invalidArgument, "the \(name) of the App Store Server API must not be empty")
        }
        do {
            let key = try P256.Signing.PrivateKey(pemRepresentation: privateKey)
            signer = TokenSigner("ES256", id: keyID) { Array(try key.signature(for: $0).rawRepresentation) }
        } catch {
            // The cause is left out, since it could quote a part of the key.
            throw StoreAPIError(
                .invalidArgument,
                "the private key of the App Store Server API must be the .p8 file of the key \(keyID): PEM with a P-256"
                    + " key")
        }
        (self.issuerID, self.keyID, self.bundleID) = (issuerID, keyID, bundleID)
        connection = try StoreAPIConnection(
            api: "the App Store Server API", baseURL: baseURL, transport: transport, host: host, retries: retries)
    }

    /// The number of days for which Apple keeps notifications.
    package var historyDays: Int64 { connection.baseURL == Self.sandboxURL ? 30 : 180 }

    /// Reads all notifications of a period, the oldest page first.
    ///
    /// - Parameters:
    ///   - start: The beginning, in milliseconds since 1970 UTC; at most ``historyDays`` ago, with a margin of a day.
    ///   - end: The end, in milliseconds since 1970 UTC; after the beginning.
    ///   - page: Receives the `signedPayload` of each notification of a page. An error ends the reading.
    /// - Throws: ``StoreAPIError``, or the error of `page`.
    package func notifications(
        from start: Int64, to end: Int64, _ page: (_ signedPayloads: [String]) async throws -> Void
    ) async throws {
        let start = try usableStart(start, end: end)
        let body = Array(#"{"startDate":\#(start),"endDate":\#(end)}"#.utf8)
        var tokens = PageTokens(api: connection.api)
        var query = ""
        var known: Set<String> = []
        var idleCount = 0
        while true {
            let bytes = try await send(
                .post, "/inApps/v1/notifications/history\(query)", body: body, object: "notification history")
            let (payloads, hasMore, next) = try connection.read(bytes) { page throws(InputError) in
                let payloads = try (page["notificationHistory"]?.array() ?? []).map { (item) throws(InputError) in
                    try item.object().required("signedPayload").string()
                }
                return (payloads, try page["hasMore"]?.bool() ?? false, try page["paginationToken"]?.string())
            }
            if !payloads.isEmpty { try await page(payloads) }
            guard hasMore else { return }
            // The last characters are the end of the signature, which differs between notifications.
            let count = known.count
            for payload in payloads { known.insert(String(payload.suffix(32))) }
            idleCount = known.count == count ? idleCount + 1 : 0
            guard idleCount < Self.idlePageCount else {
                throw StoreAPIError(
                    .endless,
                    "\(connection.api) sent \(idleCount) pages in a row without a new notification; "
                        + "ask for a shorter period")
            }
            let token = try StoreAPIConnection.encode(try tokens.next(next), "a page token")
            query = "?paginationToken=\(token)"
        }
    }

    /// The start to send for `start`. A start that is older by less than a day is moved to the oldest notification. So
    /// a date exactly ``historyDays`` days ago is accepted.
    private func usableStart(_ start: Int64, end: Int64) throws(StoreAPIError) -> Int64 {
        let earliest = connection.host.now() - historyDays * Self.millisecondsPerDay
        guard start >= earliest - Self.millisecondsPerDay else {
            throw StoreAPIError(
                .invalidArgument,
                "Apple keeps notifications for \(historyDays) days; the start must be"
                    + " \(Timestamp(milliseconds: earliest)) or later, not \(Timestamp(milliseconds: start))")
        }
        let usable = max(start, earliest + Self.startMargin)
        guard end > usable else {
            throw StoreAPIError(
                .invalidArgument,
                "the end, \(Timestamp(milliseconds: end)), must be after the start,"
                    + " \(Timestamp(milliseconds: usable))")
        }
        return usable
    }

    /// Reads all transactions of the customer who made a transaction.
    ///
    /// - Parameters:
    ///   - transactionID: The ID of any of the customer's transactions in this app.
    ///   - revision: The result of an earlier call, to read only what is new or changed since; `nil` for everything.
    ///   - page: Receives the signed transactions of a page. An error ends the reading.
    /// - Returns: The revision after the last page, for the next call; `nil` if Apple sent none.
    /// - Throws: ``StoreAPIError``, or the error of `page`.
    package func transactions(
        ofCustomerWith transactionID: String, since revision: String? = nil,
        _ page: (_ signedTransactions: [String]) async throws -> Void
    ) async throws -> String? {
        let path = "/inApps/v2/history/\(try StoreAPIConnection.encode(transactionID, "the transaction ID"))"
        var tokens = PageTokens(api: connection.api)
        var revision = revision
        if let revision { _ = try tokens.next(revision) }
        while true {
            var query = ""
            if let revision { query = "?revision=\(try StoreAPIConnection.encode(revision, "the revision"))" }
            let bytes = try await send(.get, path + query, object: "transaction \(transactionID)")
            let (transactions, hasMore, next, app) = try connection.read(bytes) { page throws(InputError) in
                let transactions = try (page["signedTransactions"]?.array() ?? []).map { (item) throws(InputError) in
                    try item.string()
                }
                return (
                    transactions, try page["hasMore"]?.bool() ?? false, try page["revision"]?.string(),
                    try page["bundleId"]?.string()
                )
            }
            guard app == nil || app == bundleID else {
                throw StoreAPIError(.malformed, "\(connection.api) answered for another app than \(bundleID)")
            }
            if !transactions.isEmpty { try await page(transactions) }
            guard hasMore else { return next ?? revision }
            revision = try tokens.next(next)
        }
    }

    private func token() throws(StoreAPIError) -> String {
        let now = connection.host.now() / 1_000
        let claims = JSON.object([
            ("iss", .string(issuerID)), ("iat", .number(now)), ("exp", .number(now + Self.tokenLifetime)),
            ("aud", .string("appstoreconnect-v1")), ("bid", .string(bundleID)),
        ])
        do throws(CryptographyError) { return try signer.sign(claims) } catch {
            throw StoreAPIError(.invalidArgument, "the key \(keyID) \(error.reason)")
        }
    }

    private func send(
        _ method: HTTPRequest.Method, _ path: String, body: [UInt8] = [], object: String
    ) async throws(StoreAPIError) -> [UInt8] {
        try await connection.send(method, path, json: body) { request throws(StoreAPIError) in
            request.headerFields[.authorization] = "Bearer \(try token())"
        } explain: { status, problem in
            switch status {
            case 400 where problem.code == Self.expiredPage || problem.code == Self.invalidPage:
                StoreAPIError(
                    .rejected, status: status,
                    "Apple does not accept the token of the next page any more\(problem); read the period again")
            case 401:
                StoreAPIError(
                    .unauthorized, status: status,
                    "Apple rejects the credentials\(problem); check that the key \(keyID) is an in-app purchase key"
                        + " that is not revoked, that the .p8 file belongs to it, that the issuer ID is \(issuerID),"
                        + " that the bundle ID is \(bundleID), and that this machine's clock is right")
            case 404:
                StoreAPIError(
                    .notFound, status: status,
                    "Apple does not know the \(object) of \(bundleID) at \(connection.baseURL)\(problem);"
                        + " check the environment: sandbox and production have separate addresses")
            default: nil
            }
        }
    }
}
