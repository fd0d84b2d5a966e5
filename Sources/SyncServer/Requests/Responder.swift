import HTTPTypes
package import Logging
package import SyncCore
import SyncProtocol
package import SyncService

/// Routes requests to the server's own endpoints, the web page or the service, and records the responses in metrics and
/// access log.
package struct Responder: Sendable {
    let handler: any RequestHandler
    private let facade: (any RequestHandler)?
    private let operatorToken: String?
    let web: WebFolder?
    let hasConsole: Bool
    let metrics: ServerMetrics
    let limits: ListenerConfiguration
    let admission: Admission
    let readinessLog = ReadinessLog()
    let host: HostServices
    private let accessLog: AccessLog?
    let logger: Logger

    /// - Parameters:
    ///   - handler: answers everything under `/v1`, and unknown paths.
    ///   - facade: another wire in front of the same accounts, which answers what is under its own path.
    ///   - operatorToken: the token that allows reading the metrics from any address.
    ///   - web: the page to serve at `/`.
    ///   - hasConsole: true to serve the console of operators at `/console`.
    ///   - metrics: counts requests, responses and refusals.
    ///   - limits: the limits of requests and responses.
    ///   - host: the clock.
    ///   - accessLog: receives a line for each request.
    ///   - logger: receives the server's own messages.
    package init(
        _ handler: any RequestHandler, facade: (any RequestHandler)? = nil, operatorToken: String? = nil,
        web: WebFolder? = nil, hasConsole: Bool = false, metrics: ServerMetrics, limits: ListenerConfiguration,
        host: HostServices = .system,
        accessLog: AccessLog? = nil, logger: Logger
    ) {
        (self.handler, self.facade, self.operatorToken, self.web) = (handler, facade, operatorToken, web)
        (self.hasConsole, self.metrics, self.limits, self.host) = (hasConsole, metrics, limits, host)
        (self.accessLog, self.logger) = (accessLog, logger)
        admission = Admission(limits) { metrics.count($0) }
    }

    /// The handler of a request that is neither for the server itself nor for the web page.
    private func handler(of request: HTTPRequest) -> any RequestHandler {
        if let facade, facade.answers(request.path ?? "") { return facade }
        return handler
    }

    /// The response to a complete request. Its bytes are not admitted yet.
    package func route(_ request: ServiceRequest) async -> ServiceResponse {
        let target = request.head.path ?? ""
        if handler.answers(target), let response = await consoleResponse(to: request) { return response }
        if !handler.answers(target), facade?.answers(target) != true, let response = await ownResponse(to: request) {
            return response
        }
        return await handler(of: request.head).respond(to: request)
    }

    /// The response to a read of one entry that needs no suspension; `nil` for any other request.
    func fastResponse(to request: HTTPRequest, _ exchange: Exchange) -> ServiceResponse? {
        handler.fastRead(request, peer: exchange.client?.text ?? "", longest: exchange.uncountedByteCount)
    }

    /// The refusal of a long body after `head`; `nil` if the caller may send it.
    func refusal(ofLongBodyAfter head: HTTPRequest, _ peer: String) async -> ServiceResponse? {
        let authorised = hasConsole && handler.answers(head.path ?? "") ? Console.authorised(head) : nil
        return await handler(of: head).refusal(ofLongBodyAfter: authorised ?? head, peer: peer)
    }

    /// The response to a request, with its bytes reserved in `budget`.
    ///
    /// A read is answered with 503 if the budget is exhausted. The response to a write is sent in any case, since the
    /// write may have happened; the service omits long values that `budget` has refused.
    func respond(to request: ServiceRequest, in budget: ResponseBudget, _ exchange: Exchange) async -> ServiceResponse {
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
            RequestError(.serviceUnavailable, "the memory for unread answers is exhausted; retry after 1 s"),
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
        return Array(field.dropFirst("bearer ".count).utf8).isEqual(toSecret: Array(operatorToken.utf8))
    }
}

extension Responder {
    /// The response to a refused request; `head` is `nil` if the header has not arrived.
    func refusal(_ refusal: RequestError, to head: HTTPRequest?, route: String = "unread") -> ServiceResponse {
        var response = refusal.response
        response.route = route
        if [.serviceUnavailable, .tooManyRequests].contains(refusal.status) {
            response.head.headerFields[.retryAfter] = "1"
        }
        addFields(to: &response.head.headerFields)
        if let head { handler.addFields(to: &response.head.headerFields, for: head) }
        return response
    }

    /// The header of `answer`, complete with date and length.
    func head(of answer: ServiceResponse, isLast: Bool) -> HTTPResponse {
        var response = answer.head
        response.headerFields[.date] = DateField.text(milliseconds: host.now())
        if case .bytes(let bytes) = answer.body, ![.noContent, .notModified].contains(response.status) {
            response.headerFields[.contentLength] = String(bytes.count)
        }
        if isLast { response.headerFields[.connection] = "close" }
        return response
    }

    /// Counts and logs a complete response.
    func record(_ response: ServiceResponse, _ exchange: Exchange, byteCount: Int) {
        count(response, exchange, byteCount: byteCount)
        log(response, exchange, byteCount: byteCount)
    }

    func count(_ response: ServiceResponse, _ exchange: Exchange, byteCount: Int) {
        guard let method = exchange.method else { return }
        metrics.count(
            method: method, route: response.route, status: response.head.status,
            elapsed: ContinuousClock.now - exchange.start, byteCount: byteCount)
    }

    func log(_ response: ServiceResponse, _ exchange: Exchange, byteCount: Int) {
        guard exchange.method != nil else { return }
        accessLog?.add(response, exchange, elapsed: ContinuousClock.now - exchange.start, byteCount: byteCount)
    }
}
