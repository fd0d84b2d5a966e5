import Crypto
import Foundation
import SyncCore
import Synchronization

/// A stand-in for the histories of the App Store Server API, which checks each request as Apple does.
final class FakeAppStore: Sendable {
    static let (issuer, keyID, bundle) = ("57246542-96fe-1a63-e053-0824d011072a", "2X9R4HXF34", "com.example")
    static let pageLength = 20

    /// A notification and the date at which Apple sent it, in milliseconds since 1970.
    struct Entry: Sendable {
        var date: Int64
        var payload: String
    }

    let key = P256.Signing.PrivateKey()
    /// The signed transactions of customers, by the ID of any of their transactions.
    private let transactions: [String: [String]]
    private let state: Mutex<State>

    private struct State {
        var entries: [Entry]
        var failures: [Int: [FakeAPI.Answer]]
        var body: String?
    }

    /// - Parameters:
    ///   - entries: The history.
    ///   - failures: The answers before the right one, by the number of the page.
    ///   - transactions: The signed transactions of customers, by the ID of any of their transactions.
    init(_ entries: [Entry], failures: [Int: [FakeAPI.Answer]] = [:], transactions: [String: [String]] = [:]) {
        self.transactions = transactions
        state = Mutex(State(entries: entries, failures: failures))
    }

    /// Starts the server.
    func start() throws -> FakeAPI { try FakeAPI { [self] in answer($0) } }

    /// The answer to a request for a page.
    func answer(_ request: FakeAPI.Request) -> FakeAPI.Answer {
        guard isAuthorized(request.bearer) else { return FakeAPI.Answer(status: "401 Unauthorized", body: "") }
        if request.method == "GET", request.path.hasPrefix(Self.history) { return history(request) }
        guard request.method == "POST", request.path == "/inApps/v1/notifications/history" else {
            return .error("404 Not Found", 4_040_010, "Not found.")
        }
        let now = HostServices.system.now()
        guard let start = request.object["startDate"] as? Int64, let end = request.object["endDate"] as? Int64 else {
            return .error("400 Bad Request", 4_000_015, "Invalid start date.")
        }
        guard start >= now - 180 * 86_400_000 else {
            return .error("400 Bad Request", 4_000_012, "Start date is too far in the past.")
        }
        guard start < end else { return .error("400 Bad Request", 4_000_013, "Start date is after end date.") }
        let token = request.query["paginationToken"]
        guard let page = token.map({ Int($0.dropFirst("page/".count)) }) ?? 0 else {
            return .error("400 Bad Request", 4_000_014, "Invalid pagination token.")
        }
        return state.withLock { state in
            if page == 0 { state.body = request.body }
            guard state.body == request.body else {
                return .error("400 Bad Request", 4_000_014, "Invalid pagination token.")
            }
            if let failure = state.failures[page]?.first {
                state.failures[page]?.removeFirst()
                return failure
            }
            let all = state.entries.filter { $0.date >= start && $0.date < end }.map(\.payload)
            let rest = all.dropFirst(page * Self.pageLength)
            let next = rest.count > Self.pageLength ? "page/\(page + 1)" : nil
            return Self.page(Array(rest.prefix(Self.pageLength)), next: next)
        }
    }

    private static let history = "/inApps/v2/history/"

    /// A page with one transaction of the customer.
    private func history(_ request: FakeAPI.Request) -> FakeAPI.Answer {
        guard let all = transactions[String(request.path.dropFirst(Self.history.count))] else {
            return .error("404 Not Found", 4_040_010, "Transaction id not found.")
        }
        guard let page = request.query["revision"].map({ Int($0.dropFirst("r".count)) }) ?? 0 else {
            return .error("400 Bad Request", 4_000_005, "Invalid request revision.")
        }
        let items = all.dropFirst(page).prefix(1).map { #""\#($0)""# }.joined(separator: ",")
        return FakeAPI.Answer(
            body: #"{"bundleId":"\#(Self.bundle)","environment":"Production","hasMore":\#(page + 1 < all.count),"#
                + #""revision":"r\#(page + 1)","signedTransactions":[\#(items)]}"#)
    }

    /// A page with `payloads`, which announces another page if `next` is its token.
    static func page(_ payloads: [String], next: String?) -> FakeAPI.Answer {
        let items = payloads.map {
            #"{"sendAttempts":[{"attemptDate":1,"sendAttemptResult":"TIMED_OUT"}],"signedPayload":"\#($0)"}"#
        }
        let token = next.map { #","paginationToken":"\#($0)""# } ?? ""
        let body = #"{"hasMore":\#(next != nil),"notificationHistory":[\#(items.joined(separator: ","))]\#(token)}"#
        return FakeAPI.Answer(body: body)
    }

    /// Checks the token as Apple documents it: ES256 by the key, issuer, audience, app, and at most 60 minutes.
    private func isAuthorized(_ token: String) -> Bool {
        let parts = token.split(separator: ".")
        guard parts.count == 3,
            let signature = try? P256.Signing.ECDSASignature(rawRepresentation: FakeAPI.decoded(parts[2])),
            key.publicKey.isValidSignature(signature, for: Data("\(parts[0]).\(parts[1])".utf8))
        else { return false }
        let (header, claims) = (
            FakeAPI.object(FakeAPI.decoded(parts[0])), FakeAPI.object(FakeAPI.decoded(parts[1]))
        )
        let now = HostServices.system.now() / 1_000
        guard let issued = claims["iat"] as? Int64, let expiry = claims["exp"] as? Int64 else { return false }
        return header["alg"] as? String == "ES256" && header["kid"] as? String == Self.keyID
            && claims["iss"] as? String == Self.issuer && claims["aud"] as? String == "appstoreconnect-v1"
            && claims["bid"] as? String == Self.bundle && issued <= now + 60 && expiry > now
            && expiry - issued <= 3_600
    }
}
