import HTTPTypes
import Logging
import SyncCore
import SyncProtocol
import SyncService
import Synchronization

/// The paths of the server itself, beside those of the service.
package enum OwnRoute: String, CaseIterable {
    /// Whether the process is up.
    case health = "/healthz"
    /// Whether the store answers.
    case readiness = "/readyz"
    /// Counters and times.
    case metrics = "/metrics"
    /// The OpenAPI document.
    case description = "/openapi.yaml"
}

extension Responder {
    func answer(to request: ServiceRequest, _ route: OwnRoute) async -> ServiceAnswer {
        guard request.head.method == .get else {
            var answer = refusal(.methodNotAllowed, "this path takes GET, HEAD", route: route.rawValue)
            answer.response.headerFields[.allow] = "GET, HEAD"
            return answer
        }
        switch route {
        case .health: return text("up\n", "text/plain; charset=utf-8", route)
        case .readiness: return await storeReadiness()
        case .metrics: return figures(request)
        case .description: return text(OpenAPIDocument.yaml, "application/yaml", route)
        }
    }

    private func storeReadiness() async -> ServiceAnswer {
        do throws(BackendError) {
            try await checkReadiness()
            readiness.succeed()
            return text("ready\n", "text/plain; charset=utf-8", .readiness)
        } catch {
            if readiness.fail("\(error)", now: host.now()) { logger.error("the store does not answer: \(error)") }
            var answer = refusal(
                .serviceUnavailable, "the store does not answer; the server's log says why",
                route: OwnRoute.readiness.rawValue)
            answer.response.headerFields[.retryAfter] = "1"
            return answer
        }
    }

    private func figures(_ request: ServiceRequest) -> ServiceAnswer {
        let fields = request.head.headerFields
        guard Peer.isLocal(request.peer, fields) || isOperator(fields) else {
            return refusal(
                .forbidden, "only a program of the server's machine, or the operator, may read this",
                route: OwnRoute.metrics.rawValue)
        }
        return text(metrics.text(), "text/plain; version=0.0.4; charset=utf-8", .metrics)
    }

    func isOperator(_ fields: HTTPFields) -> Bool {
        guard let operatorToken, let field = fields[.authorization], field.lowercased().hasPrefix("bearer ") else {
            return false
        }
        return SecureBytes.areEqual(Array(field.dropFirst("bearer ".count).utf8), Array(operatorToken.utf8))
    }

    private func text(_ text: String, _ mediaType: String, _ route: OwnRoute) -> ServiceAnswer {
        self.text(Array(text.utf8), mediaType, route)
    }

    private func text(_ bytes: [UInt8], _ mediaType: String, _ route: OwnRoute) -> ServiceAnswer {
        var response = HTTPResponse(status: .ok)
        WireFields.note(serverTime: host.now(), in: &response.headerFields)
        response.headerFields[.cacheControl] = "no-store"
        response.headerFields[.contentType] = mediaType
        return ServiceAnswer(response, body: .bytes(bytes), route: route.rawValue)
    }
}

/// The description of everything that the server answers, as OpenAPI 3.1.
package enum OpenAPIDocument {
    /// The document's text.
    package static var yaml: [UInt8] { PackageResources.openapi_yaml }
}

/// What was told last of a store that does not answer: anybody may ask for that as often as he likes, and each word of
/// it is not to be in the log as often.
final class ReadinessNotes: Sendable {
    /// After how long it is told again, in milliseconds.
    private static let pause: Int64 = 10_000

    private let told = Mutex<(text: String, time: Int64)?>(nil)

    /// Whether a failure is to be told.
    func fail(_ text: String, now: Int64) -> Bool {
        told.withLock { told in
            if let told, told.text == text, (told.time..<told.time + Self.pause).contains(now) { return false }
            told = (text, now)
            return true
        }
    }

    /// The next failure is a new one.
    func succeed() { told.withLock { $0 = nil } }
}
