import HTTPTypes
import Logging
import SyncCore
import SyncProtocol
import SyncService
import Synchronization

/// The endpoints of the server itself, for its operator.
package enum OperationalEndpoint: String, CaseIterable {
    /// Liveness: answers while the process is running.
    case health = "/healthz"
    /// Readiness: answers 200 while the store responds and its changes are followed.
    case readiness = "/readyz"
    /// The metrics, in the Prometheus text format.
    case metrics = "/metrics"
    /// The OpenAPI document.
    case description = "/openapi.yaml"

    /// The path of a request, without its query.
    static func path(of request: HTTPRequest) -> String {
        String(decoding: (request.path ?? "").utf8.prefix { $0 != UInt8(ascii: "?") }, as: UTF8.self)
    }

    /// Returns `true` if a request without a body is admitted by ``Admission/operations`` instead of the request limit,
    /// so that an operator can inspect an overloaded server.
    static func isSeparate(_ request: HTTPRequest) -> Bool {
        let endpoint = OperationalEndpoint(rawValue: path(of: request))
        return endpoint != nil && endpoint != .description
    }
}

extension Responder {
    func answer(to request: ServiceRequest, _ endpoint: OperationalEndpoint) async -> ServiceAnswer {
        guard request.head.method == .get else {
            var answer = refusal(
                RefusedRequest(.methodNotAllowed, "this path accepts GET, HEAD"), to: nil, route: endpoint.rawValue)
            answer.response.headerFields[.allow] = "GET, HEAD"
            return answer
        }
        switch endpoint {
        case .health: return text(Array("up\n".utf8), "text/plain; charset=utf-8", endpoint)
        case .readiness: return await storeReadiness()
        case .metrics: return metricsAnswer(request)
        case .description: return text(OpenAPIDocument.yaml, "application/yaml", endpoint)
        }
    }

    private func storeReadiness() async -> ServiceAnswer {
        do throws(BackendError) {
            try await handlers.checkReadiness()
            readiness.succeed()
            let lines = "ready\nthe changes of the store were followed \(feedAge) s ago\n"
            return text(Array(lines.utf8), "text/plain; charset=utf-8", .readiness)
        } catch {
            // Its kind and operation stay the same while the seconds in its message grow.
            let isNews = readiness.fail("\(error.kind) \(error.operation.map { "\($0)" } ?? "")", now: host.now())
            if isNews { logger.error("the server is not ready: \(error)") }
            return refusal(
                RefusedRequest(
                    .serviceUnavailable,
                    "the server is not ready, see its log; the changes of the store were followed \(feedAge) s ago"),
                to: nil, route: OperationalEndpoint.readiness.rawValue)
        }
    }

    /// The time since the changes of the store were followed, in seconds, with one decimal.
    private var feedAge: Double { (handlers.feedAge() / .milliseconds(100)).rounded(.up) / 10 }

    private func metricsAnswer(_ request: ServiceRequest) -> ServiceAnswer {
        let fields = request.head.headerFields
        guard Peer.isLocal(request.peer, fields) || isOperator(fields) else {
            return refusal(
                RefusedRequest(.forbidden, "only local programs and the operator may read the metrics"),
                to: nil, route: OperationalEndpoint.metrics.rawValue)
        }
        metrics.note(feedAge: handlers.feedAge())
        return text(Array(metrics.text().utf8), "text/plain; version=0.0.4; charset=utf-8", .metrics)
    }

    private func text(_ bytes: [UInt8], _ mediaType: String, _ endpoint: OperationalEndpoint) -> ServiceAnswer {
        var response = HTTPResponse(status: .ok)
        WireFields.note(serverTime: host.now(), in: &response.headerFields)
        response.headerFields[.cacheControl] = "no-store"
        response.headerFields[.contentType] = mediaType
        return ServiceAnswer(response, body: .bytes(bytes), route: endpoint.rawValue)
    }
}

/// The OpenAPI 3.1 description of the server.
package enum OpenAPIDocument {
    /// The document's text.
    package static var yaml: [UInt8] { PackageResources.openapi_yaml }
}

/// Limits how often an unresponsive store is logged, since any client may request the readiness endpoint.
final class ReadinessLog: Sendable {
    /// The minimum time before the same failure is logged again, in milliseconds.
    private static let pause: Int64 = 10_000

    private let latest = Mutex<(text: String, time: Int64)?>(nil)

    /// Records a failure.
    ///
    /// - Returns: `true` if it must be logged.
    func fail(_ text: String, now: Int64) -> Bool {
        latest.withLock { latest in
            if let latest, latest.text == text, (latest.time..<latest.time + Self.pause).contains(now) { return false }
            latest = (text, now)
            return true
        }
    }

    /// Records a success. The next failure is logged.
    func succeed() { latest.withLock { $0 = nil } }
}
