import Entitlements
import HTTPTypes
import StoreEvidence
import SyncProtocol

/// A request to an endpoint as Standard Webhooks 1.0.0 defines it.
struct WebhookMessage: Sendable {
    /// The id, which stays the same for each attempt and each endpoint.
    let id: String
    let body: [UInt8]

    init(id: String, body: [UInt8]) { (self.id, self.body) = (id, body) }

    /// The message about an event of the outbox.
    init(_ event: StoredEvent) { self.init(id: event.webhookID, body: Array(event.body.utf8)) }

    /// The request to `endpoint`.
    ///
    /// - Parameter now: The time of the attempt, in milliseconds since 1970 UTC.
    func request(to endpoint: WebhookEndpoint, at now: Int64) -> HTTPRequest {
        let timestamp = now / 1_000
        var request = HTTPRequest(
            method: .post, scheme: endpoint.scheme, authority: endpoint.authority, path: endpoint.path,
            headerFields: [.contentType: "application/json"])
        let fields = [
            ("webhook-id", id), ("webhook-timestamp", "\(timestamp)"),
            ("webhook-signature", signatures(endpoint.secrets, at: timestamp)),
        ]
        for (name, value) in fields {
            if let name = HTTPField.Name(name) { request.headerFields[name] = value }
        }
        return request
    }

    /// A signature for each secret, separated by spaces.
    ///
    /// - Parameter timestamp: The time of the attempt, in seconds since 1970 UTC.
    func signatures(_ secrets: [[UInt8]], at timestamp: Int64) -> String {
        let signed = Array("\(id).\(timestamp).".utf8) + body
        return secrets.map { "v1,\(Base64.standard.encode(authenticationCode(of: signed, key: $0)))" }
            .joined(separator: " ")
    }
}

/// A row of the outbox.
struct StoredEvent: Hashable, Sendable {
    var number: Int64
    var account: String
    var kind: String
    var at: Int64
    var body: String

    /// The id for receivers. The digest makes it another one if the projection was deleted and its numbers begin again.
    var webhookID: String { Self.webhookID(number, account: account, kind: kind, at: at) }

    static func webhookID(_ number: Int64, account: String, kind: String, at: Int64) -> String {
        "evt_\(number)_\(hexadecimalDigest(of: "\(number)\n\(kind)\n\(at)\n\(account)").prefix(16))"
    }

    /// The number in the id of an event, or in a text with only a number.
    static func number(_ text: String) -> Int64? {
        guard text.hasPrefix("evt_") else { return Int64(text) }
        return Int64(text.dropFirst(4).prefix { $0 != "_" })
    }
}

/// The outcome of an attempt to deliver an event.
enum DeliveryResult: Hashable, Sendable {
    case delivered
    /// Another attempt follows.
    case failed(String, retryAfter: Int64?)
    /// The receiver wants no further attempt.
    case refused(String)

    /// The time limit of an attempt.
    static let timeout = Duration.seconds(15)
    /// The largest body of an answer, in bytes. The rest of a longer one is not read.
    static let maximumByteCount = 4_096

    /// Only the status of an answer counts.
    init(_ answer: TransportAnswer) {
        let code = answer.response.status.code
        switch code {
        case 200..<300: self = .delivered
        case 300..<400: self = .failed("the answer was \(code); redirects are not followed", retryAfter: nil)
        case 410: self = .refused("the answer was 410, which asks for no further attempts")
        default:
            let seconds = answer.response.headerFields[.retryAfter].flatMap { Int64($0) }
            self = .failed("the answer was \(code)", retryAfter: seconds.map { min(max($0, 0), 86_400) * 1_000 })
        }
    }

    init(_ error: TransportError) { self = .failed(error.message.singleLine(atMost: 200), retryAfter: nil) }
}
