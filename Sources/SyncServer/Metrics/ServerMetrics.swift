import HTTPTypes
import CoreMetrics
package import SyncService
import Synchronization

/// The metrics of a server: requests, durations, bytes, refusals, evidence, open streams, and the age of the change
/// feed.
///
/// Labels are route templates of the OpenAPI document and known methods, so that clients cannot create new ones.
package final class ServerMetrics: Sendable {
    private struct Kind: Hashable {
        var route: String
        var method: String
        var statusClass: Int
    }

    private struct Instruments {
        var requests: Counter
        var seconds: CoreMetrics.Timer
        var bytes: Counter
    }

    private struct EvidenceKind: Hashable {
        var kind: String
        var outcome: String
    }

    private static let methods: Set = ["GET", "HEAD", "PUT", "POST", "DELETE", "OPTIONS"]

    private let factory: PrometheusMetrics
    private let kinds = Mutex<[Kind: Instruments]>([:])
    private let evidence = Mutex<[EvidenceKind: Counter]>([:])
    private let streams: Meter
    private let requests: Meter
    private let feedAge: Meter
    private let refusals: [Refusal: Counter]

    /// Creates the instruments in `factory`.
    package init(_ factory: PrometheusMetrics) {
        self.factory = factory
        streams = Meter(label: "http_server_open_streams", factory: factory)
        requests = Meter(label: "http_server_open_requests", factory: factory)
        feedAge = Meter(label: "change_feed_age_seconds", factory: factory)
        refusals = Dictionary(
            uniqueKeysWithValues: Refusal.allCases.map { refusal in
                let dimensions = [("reason", refusal.rawValue)]
                return (
                    refusal, Counter(label: "http_server_refusals_total", dimensions: dimensions, factory: factory)
                )
            })
        streams.set(0)
        requests.set(0)
    }

    /// The text of all metrics, including those of the process.
    func text() -> String { factory.text() + ProcessMetrics.text() }

    func begin() { requests.increment() }
    func end() { requests.decrement() }
    /// Counts a refusal.
    package func note(_ refusal: Refusal) { refusals[refusal]?.increment() }

    /// Counts a piece of evidence by its kind and outcome.
    package func note(_ note: EvidenceNote) {
        let kind = EvidenceKind(kind: note.kindName, outcome: note.outcome.name)
        let counter = evidence.withLock { evidence in
            if let known = evidence[kind] { return known }
            let dimensions = [("kind", kind.kind), ("outcome", kind.outcome)]
            let made = Counter(label: "evidence_total", dimensions: dimensions, factory: factory)
            evidence[kind] = made
            return made
        }
        counter.increment()
    }

    /// Records the time since the changes of the store were followed.
    func note(feedAge age: Duration) { feedAge.set(age / .seconds(1)) }

    func beginStream() { streams.increment() }
    func endStream() { streams.decrement() }

    /// Counts an answer.
    func note(
        method: HTTPRequest.Method, route: String, status: HTTPResponse.Status, elapsed: Duration, byteCount: Int
    ) {
        let kind = Kind(route: route, method: Self.name(of: method), statusClass: status.code / 100)
        let instruments = kinds.withLock { kinds in
            if let known = kinds[kind] { return known }
            let made = makeInstruments(of: kind)
            kinds[kind] = made
            return made
        }
        instruments.requests.increment()
        instruments.bytes.increment(by: byteCount)
        let (seconds, attoseconds) = elapsed.components
        instruments.seconds.recordNanoseconds(seconds * 1_000_000_000 + attoseconds / 1_000_000_000)
    }

    /// The name of a method in metrics and logs; `other` for unknown methods.
    static func name(of method: HTTPRequest.Method) -> String {
        methods.contains(method.rawValue) ? method.rawValue : "other"
    }

    private func makeInstruments(of kind: Kind) -> Instruments {
        let route = ("route", kind.route)
        let method = ("method", kind.method)
        return Instruments(
            requests: Counter(
                label: "http_server_requests_total", dimensions: [route, method, ("status", "\(kind.statusClass)xx")],
                factory: factory),
            seconds: CoreMetrics.Timer(
                label: "http_server_request_duration_seconds", dimensions: [route, method], factory: factory),
            bytes: Counter(
                label: "http_server_response_bytes_total", dimensions: [route, method], factory: factory))
    }
}
