import CServerPages
import HTTPTypes
import Logging
import SyncCore
import SyncProtocol
package import SyncService
import Synchronization

extension Responder {
    /// The routes of the server itself.
    package static let routes = RouteTable<Endpoint>([
        Route(.get, "/healthz", .operation(Responder.health)),
        Route(.get, "/readyz", .operation(Responder.readiness)),
        Route(.get, "/metrics", .protectedOperation(Responder.metricsText)),
        Route(.get, "/openapi.yaml", .document(Responder.description)),
    ])

    /// The files of the web folder, under one name in metrics and logs.
    private static let pages = RouteTable<Endpoint>([Route(.get, "web", .document(Responder.page))]).resources[0]

    /// The handler of a route, and its callers.
    package enum Endpoint: Sendable {
        package typealias Handler = @Sendable (Responder) -> @Sendable (ServiceRequest) async -> ServiceResponse

        /// For everyone. Requests without a body are admitted by ``Admission/operations`` instead of the request limit,
        /// so that an operator can inspect an overloaded server.
        case operation(Handler)
        /// Like ``operation(_:)``, for local programs and the operator.
        case protectedOperation(Handler)
        /// For everyone, under the request limit.
        case document(Handler)
    }

    /// Returns `true` if a request without a body is admitted by ``Admission/operations``.
    static func isOperation(_ request: HTTPRequest) -> Bool {
        switch routes.resource(at: RequestPath(request).path)?.handler(of: .get) {
        case .operation, .protectedOperation: true
        default: false
        }
    }

    /// The response of the server itself or of the web folder; `nil` for a path of neither.
    func ownResponse(to request: ServiceRequest) async -> ServiceResponse? {
        let path = RequestPath(request.head).path
        let own = Self.routes.resource(at: path) ?? (hasConsole ? Console.routes.resource(at: path) : nil)
        guard let resource = own ?? (web == nil || path == "/v1" ? nil : Self.pages) else { return nil }
        var response = await resource.respond(to: request) { request, endpoint in
            switch endpoint {
            case .protectedOperation(let handler):
                await mayReadMetrics(request)
                    ? await handler(self)(request)
                    : .refusal(.forbidden, "only local programs and the operator may read the metrics")
            case .operation(let handler), .document(let handler): await handler(self)(request)
            }
        }
        addFields(to: &response.head.headerFields)
        return response
    }

    private func mayReadMetrics(_ request: ServiceRequest) async -> Bool {
        let fields = request.head.headerFields
        if Peer.isLocal(request.peer, fields) || isOperator(fields) { return true }
        return await handler.isOperator(request.head, peer: request.peer)
    }

    /// Adds the fields that all responses of the server itself have.
    func addFields(to fields: inout HTTPFields) {
        WireFields.add(serverTime: host.now(), to: &fields)
        if !fields.contains(.cacheControl) { fields[.cacheControl] = "no-store" }
    }

    /// Liveness: responds while the process is running.
    private func health(_ request: ServiceRequest) -> ServiceResponse {
        .text(Array("up\n".utf8), "text/plain; charset=utf-8")
    }

    /// Readiness: responds with 200 while the store responds and its changes are followed.
    private func readiness(_ request: ServiceRequest) async -> ServiceResponse {
        do throws(BackendError) {
            try await handler.checkReadiness()
            readinessLog.succeed()
            var lines = "ready\nthe changes of the store were followed \(feedAge) s ago\n"
            if let projection = handler.projection { lines += "\(Self.line(about: projection))\n" }
            return .text(Array(lines.utf8), "text/plain; charset=utf-8")
        } catch {
            // Its kind and operation stay the same while the seconds in its message grow.
            let isNews = readinessLog.fail("\(error.kind) \(error.operation.map { "\($0)" } ?? "")", now: host.now())
            if isNews { logger.error("the server is not ready: \(error)") }
            return RequestError(
                .serviceUnavailable,
                "the server is not ready, see its log; the changes of the store were followed \(feedAge) s ago",
                retryAfter: 1
            ).response
        }
    }

    private static func line(about projection: Projector.Progress) -> String {
        guard let lag = projection.lag else { return "the projection has not begun" }
        let rebuild = projection.isRebuilding ? ", and is derived again" : ""
        return "the projection had all changes \(lag / 1_000) s ago\(rebuild)"
    }

    /// The time since the changes of the store were followed, in seconds, with one decimal.
    private var feedAge: Double { (handler.feedAge / .milliseconds(100)).rounded(.up) / 10 }

    /// The metrics, in the Prometheus text format.
    private func metricsText(_ request: ServiceRequest) -> ServiceResponse {
        metrics.set(
            feedAge: handler.feedAge, projectionLag: handler.projection?.lag, webhooks: handler.webhookProgress)
        return .text(Array(metrics.text().utf8), "text/plain; version=0.0.4; charset=utf-8")
    }

    /// The OpenAPI document.
    private func description(_ request: ServiceRequest) -> ServiceResponse {
        .text(OpenAPIDocument.yaml, "application/yaml")
    }
}

extension ServiceResponse {
    fileprivate static func text(_ bytes: [UInt8], _ mediaType: String) -> ServiceResponse {
        var head = HTTPResponse(status: .ok)
        head.headerFields[.contentType] = mediaType
        return ServiceResponse(head, body: bytes)
    }
}

/// The OpenAPI 3.1 description of the server.
package enum OpenAPIDocument {
    /// The document's text.
    package static var yaml: [UInt8] {
        Array(UnsafeBufferPointer(start: openAPIDocument.bytes, count: openAPIDocument.count))
    }
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
