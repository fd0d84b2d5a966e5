import HTTPTypes
import HummingbirdCore
public import Logging
import NIOCore
public import SyncCore
import SyncProtocol
public import SyncService

/// Answers requests: the server's own paths, the files of a web page, and everything else by the service.
public struct Responder: Sendable {
    let respond: @Sendable (ServiceRequest) async -> ServiceAnswer
    let checkReadiness: @Sendable () async throws(BackendError) -> Void
    let operatorToken: String?
    let web: WebFolder?
    let metrics: ServerMetrics
    let limits: ListenerConfiguration
    let host: HostServices
    let logger: Logger

    /// - Parameters:
    ///   - service: what answers under `/v1`.
    ///   - operatorToken: who has it may read the metrics from anywhere.
    ///   - web: a page to serve at `/`.
    ///   - metrics: what is counted.
    ///   - limits: how long a body may be, and may take.
    ///   - host: the clock.
    ///   - logger: gets a line for each request, at level `info`: method, route, status, bytes, milliseconds and the
    ///     caller; never a path, a query, a header or anything else that may be a secret.
    public init(
        _ service: SyncService.Service, operatorToken: String? = nil, web: WebFolder? = nil, metrics: ServerMetrics,
        limits: ListenerConfiguration, host: HostServices = .system, logger: Logger
    ) {
        self.init(
            respond: { await service.respond(to: $0) },
            checkReadiness: { () async throws(BackendError) in try await service.checkReadiness() },
            operatorToken: operatorToken, web: web, metrics: metrics, limits: limits, host: host, logger: logger)
    }

    /// The same around anything that answers.
    package init(
        respond: @escaping @Sendable (ServiceRequest) async -> ServiceAnswer,
        checkReadiness: @escaping @Sendable () async throws(BackendError) -> Void, operatorToken: String? = nil,
        web: WebFolder? = nil, metrics: ServerMetrics, limits: ListenerConfiguration, host: HostServices = .system,
        logger: Logger
    ) {
        (self.respond, self.checkReadiness, self.operatorToken) = (respond, checkReadiness, operatorToken)
        (self.web, self.metrics, self.limits, self.host) = (web, metrics, limits, host)
        self.logger = logger
    }

    /// The answer to a request that has come as a whole.
    package func answer(to request: ServiceRequest) async -> ServiceAnswer {
        let target = request.head.path ?? ""
        let path = target.prefix { $0 != "?" }
        var asked = request
        // As for GET; whoever sends the answer leaves the body out.
        if request.head.method == .head { asked.head.method = .get }
        if let own = OwnRoute(rawValue: String(path)) { return await answer(to: asked, own) }
        if let web, path != "/v1", !path.hasPrefix("/v1/") { return await answer(to: asked, web, String(path)) }
        return await respond(asked)
    }

    /// Receives the request, sends the answer, and tells metrics and log of it.
    func respond(
        to request: Request, by writer: consuming ResponseWriter, over channel: any Channel
    ) async throws {
        let start = ContinuousClock.now
        metrics.begin()
        defer { metrics.end() }
        var incoming = IncomingBody(request, channel, limits)
        if incoming.isContinueExpected { try await writer.writeInformationalHead(HTTPResponse(status: .continue)) }
        let body = try await incoming.receive()
        var answer: ServiceAnswer
        switch body {
        case .whole(let bytes):
            answer = await self.answer(to: ServiceRequest(request.head, body: bytes, peer: Peer.address(of: channel)))
        case .refused(let status, let reason): answer = refusal(status, reason, route: "unread")
        }
        let isHTTP1 = Peer.isHTTP1(channel)
        finishHead(of: &answer, mustClose: isHTTP1 && !body.isWhole)
        let report = Report(
            method: request.method, route: answer.route, status: answer.response.status, isHTTP1: isHTTP1,
            caller: answer.caller, start: start)
        switch answer.body {
        case .bytes(let bytes):
            let isHeadOnly = request.method == .head
            let sent = isHeadOnly ? ByteBuffer() : channel.allocator.buffer(bytes: bytes)
            note(report, byteCount: sent.readableBytes)
            try await writer.write(response: answer.response, body: ResponseBody(byteBuffer: sent))
            if case .refused = body { try await incoming.drain(isHTTP1: isHTTP1) }
        case .stream(let pieces):
            try await send(pieces, answer.response, over: channel, writer, report)
        }
    }

    private func finishHead(of answer: inout ServiceAnswer, mustClose: Bool) {
        answer.response.headerFields[.date] = DateField.text(milliseconds: host.now())
        if case .bytes(let bytes) = answer.body, ![.noContent, .notModified].contains(answer.response.status) {
            answer.response.headerFields[.contentLength] = String(bytes.count)
        }
        if mustClose { answer.response.headerFields[.connection] = "close" }
    }

    func refusal(_ status: HTTPResponse.Status, _ detail: String, route: String) -> ServiceAnswer {
        var response = HTTPResponse(status: status)
        WireFields.note(serverTime: host.now(), in: &response.headerFields)
        response.headerFields[.cacheControl] = "no-store"
        response.headerFields[.contentType] = Problem.mediaType
        return ServiceAnswer(response, body: .bytes(Problem(status, detail).json), route: route)
    }
}

extension Responder {
    /// What is told of a request when its answer is sent.
    struct Report {
        var method: HTTPRequest.Method
        var route: String
        var status: HTTPResponse.Status
        var isHTTP1: Bool
        var caller: String?
        var start: ContinuousClock.Instant
    }

    /// Counts and logs an answer that is sent at once.
    private func note(_ report: Report, byteCount: Int) {
        let elapsed = ContinuousClock.now - report.start
        count(report, elapsed, byteCount)
        log(report, elapsed, byteCount)
    }

    private func count(_ report: Report, _ elapsed: Duration, _ byteCount: Int) {
        metrics.note(
            method: report.method, route: report.route, status: report.status, elapsed: elapsed, byteCount: byteCount)
    }

    private func log(_ report: Report, _ elapsed: Duration, _ byteCount: Int) {
        logger.info(
            "request",
            metadata: AccessLine.metadata(
                method: ServerMetrics.name(of: report.method), route: report.route, status: report.status.code,
                byteCount: byteCount, elapsed: elapsed, isHTTP1: report.isHTTP1, caller: report.caller))
    }

    /// Sends one piece after the other until there are no more, the client goes away or the server ends.
    private func send(
        _ pieces: AsyncStream<[UInt8]>, _ head: HTTPResponse, over channel: any Channel,
        _ writer: consuming ResponseWriter, _ report: Report
    ) async throws {
        count(report, ContinuousClock.now - report.start, 0)
        metrics.beginStream()
        var sent = 0
        defer {
            metrics.endStream()
            log(report, ContinuousClock.now - report.start, sent)
        }
        var head = head
        // A connection that has carried a stream carries nothing else: a piece of the next request may be lost.
        if report.isHTTP1 { head.headerFields[.connection] = "close" }
        if report.method == .head {
            try await writer.writeResponse(head)
            throw ConnectionEnds()
        }
        sent = try await PieceSending.run(pieces, head, over: channel, writer)
        if report.isHTTP1 { throw ConnectionEnds() }
    }
}

/// Nothing more comes over this connection, which is closed for that.
struct ConnectionEnds: Error {}
