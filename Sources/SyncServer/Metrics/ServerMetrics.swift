import HTTPTypes
package import SyncService
import Synchronization

/// The metrics of a server, in the Prometheus text format: requests, durations, bytes, refusals, evidence, open
/// streams, and the age of the change feed.
///
/// Labels are route templates of the OpenAPI document and known methods, so that clients cannot create new ones.
package final class ServerMetrics: Sendable {
    private struct Kind: Hashable {
        var route: String
        var method: String
        var statusClass: Int

        var labels: String { "method=\"\(method)\",route=\"\(route)\"" }
    }

    private struct Requests {
        var count = 0
        var byteCount = 0
        var seconds = Histogram()

        mutating func add(_ elapsed: Duration, _ byteCount: Int) {
            count += 1
            self.byteCount += byteCount
            seconds.add(elapsed / .seconds(1))
        }
    }

    private struct State {
        var requests: [Kind: Requests] = [:]
        /// The pieces of evidence, by their labels.
        var evidence: [String: Int] = [:]
        var refusals = Dictionary(uniqueKeysWithValues: Refusal.allCases.map { ($0, 0) })
        var openRequestCount = 0
        var openStreamCount = 0
        var feedAge = Duration.zero
        var projectionLag: Int64?
        var webhooks: [WebhookSender.Progress] = []
    }

    private static let methods: Set = ["GET", "HEAD", "PUT", "POST", "DELETE", "OPTIONS"]

    private let state = Mutex(State())

    /// Metrics that start at zero.
    package init() {}

    func beginRequest() { state.withLock { $0.openRequestCount += 1 } }
    func endRequest() { state.withLock { $0.openRequestCount -= 1 } }
    func beginStream() { state.withLock { $0.openStreamCount += 1 } }
    func endStream() { state.withLock { $0.openStreamCount -= 1 } }

    /// Counts a refusal.
    package func count(_ refusal: Refusal) { state.withLock { $0.refusals[refusal, default: 0] += 1 } }

    /// Counts a piece of evidence by its kind and outcome.
    package func count(_ note: EvidenceNote) {
        let labels = "kind=\"\(note.kindName)\",outcome=\"\(note.outcome.rawValue)\""
        state.withLock { $0.evidence[labels, default: 0] += 1 }
    }

    /// Sets the time since the changes of the store were followed, and the milliseconds since the projection had all of
    /// them; `nil` without a projection. Sets the figures about webhooks.
    func set(feedAge age: Duration, projectionLag: Int64?, webhooks: [WebhookSender.Progress] = []) {
        state.withLock { ($0.feedAge, $0.projectionLag, $0.webhooks) = (age, projectionLag, webhooks) }
    }

    /// Counts a response.
    func count(
        method: HTTPRequest.Method, route: String, status: HTTPResponse.Status, elapsed: Duration, byteCount: Int
    ) {
        let kind = Kind(route: route, method: Self.name(of: method), statusClass: status.code / 100)
        state.withLock { $0.requests[kind, default: Requests()].add(elapsed, byteCount) }
    }

    /// The name of a method in metrics and logs; `other` for unknown methods.
    static func name(of method: HTTPRequest.Method) -> String {
        methods.contains(method.rawValue) ? method.rawValue : "other"
    }

    /// The text of all metrics, including those of the process.
    package func text() -> String {
        let state = state.withLock { $0 }
        // The durations and the bytes of all statuses together.
        let totals = Dictionary(
            state.requests.map { ($0.labels, $1) },
            uniquingKeysWith: { first, second in
                Requests(
                    count: first.count + second.count, byteCount: first.byteCount + second.byteCount,
                    seconds: first.seconds + second.seconds)
            }
        ).sorted { $0.key < $1.key }
        var text = PrometheusText()
        text.add("change_feed_age_seconds", .gauge, [("", state.feedAge / .seconds(1))])
        text.add("evidence_total", .counter, state.evidence.map { ($0, $1) })
        text.add("http_server_open_requests", .gauge, [("", Double(state.openRequestCount))])
        text.add("http_server_open_streams", .gauge, [("", Double(state.openStreamCount))])
        text.add("http_server_refusals_total", .counter, state.refusals.map { ("reason=\"\($0.rawValue)\"", $1) })
        text.add("http_server_request_duration_seconds", totals.map { ($0, $1.seconds) })
        text.add(
            "http_server_requests_total", .counter,
            state.requests.map { ("\($0.labels),status=\"\($0.statusClass)xx\"", $1.count) })
        text.add("http_server_response_bytes_total", .counter, totals.map { ($0, $1.byteCount) })
        if let lag = state.projectionLag {
            text.add("projection_lag_seconds", .gauge, [("", Double(lag) / 1_000)])
        }
        if !state.webhooks.isEmpty { Self.add(state.webhooks, to: &text) }
        ProcessMetrics.add(to: &text)
        return text.lines
    }

    private static func add(_ webhooks: [WebhookSender.Progress], to text: inout PrometheusText) {
        func label(_ webhook: WebhookSender.Progress) -> String { "webhook=\"\(webhook.name)\"" }
        text.add(
            "webhook_attempts_total", .counter,
            webhooks.map { ("outcome=\"delivered\",\(label($0))", $0.delivered) }
                + webhooks.map { ("outcome=\"failed\",\(label($0))", $0.failed) })
        text.add("webhook_dead_letters_total", .counter, webhooks.map { (label($0), $0.died) })
        text.add(
            "webhook_dead_letters", .gauge,
            webhooks.compactMap { item in item.deadLetters.map { (label(item), Double($0)) } })
        text.add(
            "webhook_oldest_undelivered_seconds", .gauge,
            webhooks.compactMap { item in item.age.map { (label(item), Double($0) / 1_000) } })
    }
}
