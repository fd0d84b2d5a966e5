package import HTTPTypes
package import Logging
package import SyncCore
import SyncProtocol
package import SyncService

/// Routes requests to the operational endpoints, the web page or the service, and records the answers in metrics and
/// access log.
package struct Responder: Sendable {
    /// The functions of the service. Tests replace them.
    package struct Handlers: Sendable {
        package var respond: @Sendable (ServiceRequest) async -> ServiceAnswer
        /// Answers a read of one entry without suspending; `nil` for any other request.
        package var fastRead: @Sendable (HTTPRequest, _ peer: String, _ longest: Int) -> ServiceAnswer? = { _, _, _ in
            nil
        }
        package var checkReadiness: @Sendable () async throws(BackendError) -> Void = { () async throws(BackendError) in
        }
        /// The time since the changes of the store were followed.
        package var feedAge: @Sendable () -> Duration = { .zero }
        /// The refusal of a long body; `nil` if the caller may send it.
        package var admitLongBody: @Sendable (HTTPRequest, _ peer: String) async -> ServiceAnswer? = { _, _ in nil }
        /// Returns `true` if ``respond`` also answers requests for this target, outside `/v1`.
        package var answers: @Sendable (_ target: String) -> Bool = { _ in false }
        /// Adds the header fields of all answers under `/v1`.
        package var note: @Sendable (HTTPRequest, inout HTTPFields) -> Void = { _, _ in }

        package init(respond: @escaping @Sendable (ServiceRequest) async -> ServiceAnswer) { self.respond = respond }
    }

    /// Another wire in front of the service's accounts.
    package struct Facade: Sendable {
        /// Returns `true` for the targets that the façade answers.
        let answers: @Sendable (_ target: String) -> Bool
        let respond: @Sendable (ServiceRequest) async -> ServiceAnswer
        /// The refusal of a body that is too long for the façade.
        let refusalOfLongBody: @Sendable () -> ServiceAnswer

        package init(
            answers: @escaping @Sendable (_ target: String) -> Bool,
            respond: @escaping @Sendable (ServiceRequest) async -> ServiceAnswer,
            refusalOfLongBody: @escaping @Sendable () -> ServiceAnswer
        ) {
            (self.answers, self.respond, self.refusalOfLongBody) = (answers, respond, refusalOfLongBody)
        }
    }

    let handlers: Handlers
    let operatorToken: String?
    let web: WebFolder?
    let metrics: ServerMetrics
    let limits: ListenerConfiguration
    let admission: Admission
    let readiness = ReadinessLog()
    let host: HostServices
    let accessLog: AccessLog?
    let logger: Logger

    /// - Parameters:
    ///   - service: answers everything under `/v1`.
    ///   - facade: answers what is under its own path.
    ///   - operatorToken: the token that allows reading the metrics from any address.
    ///   - web: the page to serve at `/`.
    ///   - metrics: counts requests, answers and refusals.
    ///   - limits: the limits of requests and answers.
    ///   - host: the clock.
    ///   - accessLog: receives a line for each request.
    ///   - logger: receives the server's own messages.
    package init(
        _ service: EntitlementService, facade: Facade? = nil, operatorToken: String? = nil, web: WebFolder? = nil,
        metrics: ServerMetrics,
        limits: ListenerConfiguration, host: HostServices = .system, accessLog: AccessLog?, logger: Logger
    ) {
        var handlers = Handlers { await service.respond(to: $0) }
        handlers.fastRead = { service.fastRead($0, peer: $1, longest: $2) }
        handlers.checkReadiness = { () async throws(BackendError) in try await service.checkReadiness() }
        handlers.feedAge = { service.feedAge }
        handlers.admitLongBody = { await service.refusal(ofLongBodyAfter: $0, peer: $1) }
        handlers.note = { service.note($0, in: &$1) }
        if let facade {
            handlers.answers = facade.answers
            handlers.respond = { request in
                let isFacade = facade.answers(request.head.path ?? "")
                return isFacade ? await facade.respond(request) : await service.respond(to: request)
            }
            handlers.admitLongBody = { head, peer in
                if facade.answers(head.path ?? "") { return facade.refusalOfLongBody() }
                return await service.refusal(ofLongBodyAfter: head, peer: peer)
            }
        }
        self.init(
            handlers, operatorToken: operatorToken, web: web, metrics: metrics, limits: limits, host: host,
            accessLog: accessLog, logger: logger)
    }

    /// Creates a responder with other handlers, for tests.
    package init(
        _ handlers: Handlers, operatorToken: String? = nil, web: WebFolder? = nil, metrics: ServerMetrics,
        limits: ListenerConfiguration, host: HostServices = .system, accessLog: AccessLog? = nil, logger: Logger
    ) {
        (self.handlers, self.operatorToken, self.web, self.metrics) = (handlers, operatorToken, web, metrics)
        (self.limits, self.host, self.accessLog, self.logger) = (limits, host, accessLog, logger)
        admission = Admission(limits) { metrics.note($0) }
    }

    /// The answer to a complete request. Its bytes are not admitted yet.
    package func route(_ request: ServiceRequest) async -> ServiceAnswer {
        let target = request.head.path ?? ""
        // The service treats HEAD as GET itself.
        let isOfService = target.utf8.starts(with: "/v1/".utf8) || target == EntitlementService.keySetPath
        if isOfService || handlers.answers(target) { return await handlers.respond(request) }
        var request = request
        if request.head.method == .head { request.head.method = .get }
        let path = OperationalEndpoint.path(of: request.head)
        if let endpoint = OperationalEndpoint(rawValue: path) { return await answer(to: request, endpoint) }
        if let web, path != "/v1" { return await answer(to: request, web, path) }
        return await handlers.respond(request)
    }

    /// The answer to a read of one entry that needs no suspension; `nil` for any other request.
    func fastAnswer(to request: HTTPRequest, _ exchange: Exchange) -> ServiceAnswer? {
        handlers.fastRead(request, exchange.client?.text ?? "", exchange.uncountedByteCount)
    }

    /// The refusal of a long body after `head`; `nil` if the caller may send it.
    func admitLongBody(_ head: HTTPRequest, _ peer: String) async -> ServiceAnswer? {
        await handlers.admitLongBody(head, peer)
    }

    /// The answer to a request, with its bytes reserved in `budget`.
    ///
    /// A read is answered with 503 if the budget is exhausted. The answer to a write is sent in any case, since the
    /// write may have happened; the service omits long values that `budget` has refused.
    func answer(to request: ServiceRequest, in budget: AnswerBudget, _ exchange: Exchange) async -> ServiceAnswer {
        let answer =
            if Self.isShort(request) {
                await route(request)
            } else {
                await withTaskExecutorPreference(globalConcurrentExecutor) { await route(request) }
            }
        guard case .bytes(let bytes) = answer.body, bytes.count > exchange.uncountedByteCount,
            request.head.method != .head
        else { return answer }
        let missing = bytes.count - budget.byteCount
        guard missing > 0 else { return answer }
        guard request.head.method == .get, !isOperator(request.head.headerFields) else {
            budget.force(missing, account: answer.caller)
            return answer
        }
        guard !budget.reserve(missing, account: answer.caller) else { return answer }
        budget.release()
        var refused = refusal(
            RefusedRequest(.serviceUnavailable, "the memory for unread answers is exhausted; retry after 1 s"),
            to: request.head, route: answer.route)
        refused.caller = answer.caller
        return refused
    }

    /// Returns `true` if the request is short enough to run on the thread of an event loop: a read or a small change of
    /// one entry, or the start of an event stream. Other requests would delay the other connections of the loop.
    private static func isShort(_ request: ServiceRequest) -> Bool {
        guard request.body.count <= 16_384 else { return false }
        return (request.head.path ?? "").utf8.starts(with: WirePath.prefix.utf8)
            || EntitlementService.requestsEventStream(by: request.head)
    }

    /// Returns `true` if a request has the operator's token.
    func isOperator(_ fields: HTTPFields) -> Bool {
        guard let operatorToken, let field = fields[.authorization], field.lowercased().hasPrefix("bearer ") else {
            return false
        }
        return SecureBytes.areEqual(Array(field.dropFirst("bearer ".count).utf8), Array(operatorToken.utf8))
    }
}

extension Responder {
    /// The answer to a refused request; `head` is `nil` if the header has not arrived.
    func refusal(_ refusal: RefusedRequest, to head: HTTPRequest?, route: String = "unread") -> ServiceAnswer {
        var response = HTTPResponse(status: refusal.status)
        WireFields.note(serverTime: host.now(), in: &response.headerFields)
        response.headerFields[.cacheControl] = "no-store"
        response.headerFields[.contentType] = Problem.mediaType
        if [.serviceUnavailable, .tooManyRequests].contains(refusal.status) {
            response.headerFields[.retryAfter] = "1"
        }
        if let head, route != OperationalEndpoint.readiness.rawValue { handlers.note(head, &response.headerFields) }
        return ServiceAnswer(response, body: .bytes(Problem(refusal.status, refusal.detail).json), route: route)
    }

    /// The header of `answer`, complete with date and length.
    func head(of answer: ServiceAnswer, isLast: Bool) -> HTTPResponse {
        var response = answer.response
        response.headerFields[.date] = DateField.text(milliseconds: host.now())
        if case .bytes(let bytes) = answer.body, ![.noContent, .notModified].contains(response.status) {
            response.headerFields[.contentLength] = String(bytes.count)
        }
        if isLast { response.headerFields[.connection] = "close" }
        return response
    }

    /// Counts and logs a complete answer.
    func note(_ answer: ServiceAnswer, _ exchange: Exchange, byteCount: Int) {
        count(answer, exchange, byteCount: byteCount)
        log(answer, exchange, byteCount: byteCount)
    }

    func count(_ answer: ServiceAnswer, _ exchange: Exchange, byteCount: Int) {
        guard let method = exchange.method else { return }
        metrics.note(
            method: method, route: answer.route, status: answer.response.status,
            elapsed: ContinuousClock.now - exchange.start, byteCount: byteCount)
    }

    func log(_ answer: ServiceAnswer, _ exchange: Exchange, byteCount: Int) {
        guard exchange.method != nil else { return }
        accessLog?.note(
            answer, exchange, elapsed: ContinuousClock.now - exchange.start, byteCount: byteCount)
    }
}
