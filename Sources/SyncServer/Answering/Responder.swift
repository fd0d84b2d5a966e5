package import HTTPTypes
import HummingbirdCore
public import Logging
import NIOCore
public import SyncCore
import SyncProtocol
public import SyncService

/// Answers requests: the server's own paths, the files of a web page, and everything else by the service.
public struct Responder: Sendable {
    let respond: @Sendable (ServiceRequest) async -> ServiceAnswer
    let respondAtOnce: @Sendable (HTTPRequest, _ longest: Int) -> ServiceAnswer?
    let checkReadiness: @Sendable () async throws(BackendError) -> Void
    let operatorToken: String?
    let web: WebFolder?
    let metrics: ServerMetrics
    let limits: ListenerConfiguration
    let gate: WorkGate
    let answers: AnswerRoom
    let turnstile: Turnstile
    let writes = WriteTasks()
    let readiness = ReadinessNotes()
    let admitLongBody: @Sendable (HTTPRequest, String) async -> ServiceAnswer?
    let admitStream: @Sendable (HTTPRequest, String) -> StreamAdmission
    let noteUsual: @Sendable (HTTPRequest, inout HTTPFields) -> Void
    let host: HostServices
    let accessLog: AccessLog?
    let logger: Logger

    /// - Parameters:
    ///   - service: what answers under `/v1`.
    ///   - operatorToken: who has it may read the metrics from anywhere.
    ///   - web: a page to serve at `/`.
    ///   - metrics: what is counted.
    ///   - limits: how long a body may be, and may take.
    ///   - host: the clock.
    ///   - accessLog: gets a line for each request.
    ///   - logger: for the server's own affairs.
    public init(
        _ service: SyncService.Service, operatorToken: String? = nil, web: WebFolder? = nil, metrics: ServerMetrics,
        limits: ListenerConfiguration, host: HostServices = .system, accessLog: AccessLog?, logger: Logger
    ) {
        self.init(
            respond: { await service.respond(to: $0) },
            respondAtOnce: { service.respondAtOnce(to: $0, longest: $1) },
            checkReadiness: { () async throws(BackendError) in try await service.checkReadiness() },
            admitLongBody: { await service.refusal(ofLongBodyAfter: $0, peer: $1) },
            admitStream: { service.admitStream($0, peer: $1) },
            noteUsual: { service.note($0, in: &$1) }, operatorToken: operatorToken, web: web, metrics: metrics,
            limits: limits, host: host, accessLog: accessLog, logger: logger)
    }

    /// The same around anything that answers.
    package init(
        respond: @escaping @Sendable (ServiceRequest) async -> ServiceAnswer,
        respondAtOnce: @escaping @Sendable (HTTPRequest, _ longest: Int) -> ServiceAnswer? = { _, _ in nil },
        checkReadiness: @escaping @Sendable () async throws(BackendError) -> Void,
        admitLongBody: @escaping @Sendable (HTTPRequest, String) async -> ServiceAnswer? = { _, _ in nil },
        admitStream: @escaping @Sendable (HTTPRequest, String) -> StreamAdmission = { _, _ in .inTurn(isKnown: false) },
        noteUsual: @escaping @Sendable (HTTPRequest, inout HTTPFields) -> Void = { _, _ in },
        operatorToken: String? = nil, web: WebFolder? = nil, metrics: ServerMetrics, limits: ListenerConfiguration,
        host: HostServices = .system, accessLog: AccessLog? = nil, logger: Logger
    ) {
        (self.admitLongBody, self.admitStream, self.noteUsual) = (admitLongBody, admitStream, noteUsual)
        gate = WorkGate(limits) { metrics.note($0) }
        answers = AnswerRoom(capacity: limits.totalAnswerByteCount)
        turnstile = Turnstile(
            capacity: limits.connectionCount, addressCapacity: limits.addressConnectionCount
        ) { metrics.note($0) }
        (self.respond, self.respondAtOnce, self.checkReadiness) = (respond, respondAtOnce, checkReadiness)
        self.operatorToken = operatorToken
        (self.web, self.metrics, self.limits, self.host) = (web, metrics, limits, host)
        (self.accessLog, self.logger) = (accessLog, logger)
    }

    /// The answer to a request that has come as a whole.
    package func answer(to request: ServiceRequest) async -> ServiceAnswer {
        let target = request.head.path ?? ""
        // The service makes the same of HEAD.
        if target.utf8.starts(with: "/v1/".utf8) { return await respond(request) }
        let path = String(decoding: target.utf8.prefix { $0 != UInt8(ascii: "?") }, as: UTF8.self)
        var asked = request
        // As for GET; whoever sends the answer leaves the body out.
        if request.head.method == .head { asked.head.method = .get }
        if let own = OwnRoute(rawValue: path) { return await answer(to: asked, own) }
        if let web, path != "/v1" { return await answer(to: asked, web, path) }
        return await respond(asked)
    }

    /// The answer to a request without body that is had without waiting, counted and logged; `nil` for any other.
    func answerAtOnce(to request: HTTPRequest, over channel: any Channel) -> (head: HTTPResponse, body: ByteBuffer)? {
        let start = ContinuousClock.now
        let isHTTP1 = Peer.isHTTP1(channel)
        // A long answer is counted, and handed over in pieces, see ``respond(to:by:over:)``.
        guard var answer = respondAtOnce(request, Self.uncountedByteCount(isHTTP1: isHTTP1)),
            case .bytes(let bytes) = answer.body
        else { return nil }
        finishHead(of: &answer, mustClose: false)
        let report = Report(
            method: request.method, route: answer.route, status: answer.response.status, isHTTP1: isHTTP1,
            caller: answer.caller, start: start)
        note(report, byteCount: bytes.count)
        return (answer.response, channel.allocator.buffer(bytes: bytes))
    }

    /// Answers a short request that has come as a whole, and tells metrics and log of it.
    ///
    /// - Parameters:
    ///   - address: the other end's.
    ///   - send: returns when the answer has gone, or goes nowhere any more.
    func respond(
        to request: HTTPRequest, _ body: [UInt8], over channel: any Channel, from address: String,
        by send: (HTTPResponse, ByteBuffer) async -> Void
    ) async {
        let start = ContinuousClock.now
        metrics.begin()
        defer { metrics.end() }
        let isCounted = gate.enter()
        let isHTTP1 = Peer.isHTTP1(channel)
        let peer = limits.trustedProxies.client(of: address, request.headerFields)
        let isLetIn = isCounted || isOperator(request.headerFields)
        var answer = await self.answer(
            to: request, isLetIn ? .whole(body) : nil, peer, isCounted: false,
            uncounted: Self.uncountedByteCount(isHTTP1: isHTTP1))
        // Who takes his time to read keeps nobody else out.
        if isCounted { gate.leave() }
        defer { if let place = answer.place { answers.give(place) } }
        finishHead(of: &answer.whole, mustClose: false)
        let report = Report(
            method: request.method, route: answer.whole.route, status: answer.whole.response.status,
            isHTTP1: isHTTP1, caller: answer.whole.caller, start: start)
        var bytes: [UInt8] = []
        switch answer.whole.takeBody() {
        case .bytes(let all): bytes = all
        // To no short request.
        case .stream(_, let end): end()
        }
        note(report, byteCount: bytes.count)
        await send(answer.whole.response, channel.allocator.buffer(bytes: bytes))
    }

    /// Receives the request, sends the answer, and tells metrics and log of it.
    func respond(
        to request: Request, by writer: consuming ResponseWriter, over channel: any Channel
    ) async throws {
        let start = ContinuousClock.now
        metrics.begin()
        defer { metrics.end() }
        let isHTTP1 = Peer.isHTTP1(channel)
        let peer = limits.trustedProxies.client(of: Peer.address(of: channel), request.headers)
        let turn = try await turn(of: request.head, peer, over: channel)
        // Whoever looks after the server takes nobody's place, unless he sends a body.
        let isOwn = isOwnRoute(request.head)
        var isCounted = turn.refusal == nil && !isOwn && gate.enter()
        defer { if isCounted { gate.leave() } }
        var incoming = IncomingBody(request, channel, limits, gate)
        defer { incoming.giveRoomBack() }
        var received: IncomingBody.Received? = turn.refusal
        if received == nil, isCounted || isOwn || isOperator(request.headers) {
            received = try await incoming.receive(writer, isHTTP1: isHTTP1) {
                if isOwn { isCounted = gate.enter() }
                return isCounted || isOperator(request.headers)
            } admission: {
                await admitLongBody(request.head, peer)
            }
        }
        let isWhole = received?.isWhole ?? false
        // Takes the body with it: nothing keeps it while the answer waits for its reader.
        var answer = await self.answer(
            to: request.head, received.take(), peer, isCounted: turn.isCounted,
            uncounted: Self.uncountedByteCount(isHTTP1: isHTTP1))
        incoming.giveRoomBack()
        // Who takes his time to read keeps nobody else out.
        if isCounted { gate.leave() }
        isCounted = false
        let place = answer.place
        defer { if let place, isHTTP1 { answers.give(place) } }
        // What is written to a stream of HTTP/2 is only kept there, until its reader makes room for it.
        if let place, !isHTTP1 { channel.closeFuture.whenComplete { [answers] _ in answers.give(place) } }
        finishHead(of: &answer.whole, mustClose: isHTTP1 && !isWhole)
        let report = Report(
            method: request.method, route: answer.whole.route, status: answer.whole.response.status, isHTTP1: isHTTP1,
            caller: answer.whole.caller, start: start)
        let head = answer.whole.response
        switch answer.whole.takeBody() {
        case .bytes(let bytes):
            let sent = request.method == .head ? ByteBuffer() : channel.allocator.buffer(bytes: bytes)
            note(report, byteCount: sent.readableBytes)
            if sent.readableBytes > Self.pieceByteCount {
                try await write(sent, head, writer)
            } else {
                try await writer.write(response: head, body: ResponseBody(byteBuffer: sent))
            }
            if !isWhole { try await incoming.drain(isHTTP1: isHTTP1) }
        case .stream(let pieces, let end):
            try await send(pieces, end: end, head, over: channel, writer, report)
        }
    }

    /// An answer, and its place among the long ones.
    private struct CountedAnswer {
        var whole: ServiceAnswer
        var place: AnswerRoom.Place?
    }

    /// The answer to what has been received; `nil` for a request that found no place.
    private func answer(
        to head: HTTPRequest, _ received: consuming IncomingBody.Received?, _ peer: String, isCounted: Bool,
        uncounted: Int
    ) async -> CountedAnswer {
        switch received {
        case .whole(let bytes):
            var asked = ServiceRequest(head, body: bytes, peer: peer)
            asked.isCounted = isCounted
            if Self.isShort(asked) { return count(await answer(to: asked), to: asked, above: uncounted) }
            return await withTaskExecutorPreference(globalConcurrentExecutor) {
                count(await answer(to: asked), to: asked, above: uncounted)
            }
        case .answered(let refusal): return CountedAnswer(whole: refusal)
        case .refused(let status, let reason): return CountedAnswer(whole: unread(head, status, reason))
        case nil: return CountedAnswer(whole: unread(head, .serviceUnavailable, Self.tooMuch))
        }
    }

    private func unread(_ head: HTTPRequest, _ status: HTTPResponse.Status, _ reason: String) -> ServiceAnswer {
        var answer = refusal(status, reason, route: "unread")
        noteUsual(head, &answer.response.headerFields)
        return answer
    }

    /// Counts a long answer. Where there is no room for what somebody only wants to read he is told to come again;
    /// whatever may have changed something is answered, and so is the operator.
    private func count(_ answer: ServiceAnswer, to request: ServiceRequest, above uncounted: Int) -> CountedAnswer {
        guard case .bytes(let bytes) = answer.body, bytes.count > uncounted, request.head.method != .head
        else { return CountedAnswer(whole: answer) }
        let mustFit = Self.onlyReads(request) && !isOperator(request.head.headerFields)
        if let place = answers.take(bytes.count, of: answer.caller ?? request.peer, mustFit: mustFit) {
            return CountedAnswer(whole: answer, place: place)
        }
        gate.noteOverload()
        var refused = refusal(
            .serviceUnavailable, "too much that was asked for waits for its readers; try again", route: answer.route)
        refused.caller = answer.caller
        noteUsual(request.head, &refused.response.headerFields)
        return CountedAnswer(whole: refused)
    }

    private static func onlyReads(_ request: ServiceRequest) -> Bool {
        if request.head.method == .get { return true }
        guard request.head.path == BatchBody.path, let operations = try? BatchBody.operations(request.body) else {
            return false
        }
        return operations.allSatisfy { if case .read = $0 { true } else { false } }
    }

    /// How much of a long answer is written at once: the time that a reader has is that for a piece.
    static let pieceByteCount = 64 << 10

    /// The longest answer that is not counted among those that wait for their readers, in bytes. A connection of HTTP/1
    /// has one of them, of HTTP/2 a hundred.
    private static func uncountedByteCount(isHTTP1: Bool) -> Int { isHTTP1 ? pieceByteCount : 4_096 }

    private func write(
        _ bytes: ByteBuffer, _ response: HTTPResponse, _ writer: consuming ResponseWriter
    ) async throws {
        var rest = bytes
        var body = try await writer.writeHead(response)
        while let piece = rest.readSlice(length: min(Self.pieceByteCount, rest.readableBytes)), piece.readableBytes > 0
        {
            try await body.write(piece)
        }
        try await body.finish(nil)
    }

    /// Whether it is answered however much is under way: whoever looks after the server.
    func isAlwaysLetIn(_ head: HTTPRequest) -> Bool {
        isOwnRoute(head) || isOperator(head.headerFields)
    }

    private func isOwnRoute(_ head: HTTPRequest) -> Bool {
        let route = OwnRoute(rawValue: String((head.path ?? "").prefix { $0 != "?" }))
        return route != nil && route != .description
    }

    /// Whether the answer takes so little that the thread of an event loop may work it out: a look at one entry, a
    /// small change of one, or the beginning of a stream. Anything else would keep other connections waiting.
    private static func isShort(_ request: ServiceRequest) -> Bool {
        guard request.body.count <= 16_384 else { return false }
        return (request.head.path ?? "").utf8.starts(with: WirePath.prefix.utf8)
            || SyncService.Service.isStreamAskedFor(by: request.head)
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
        if [.serviceUnavailable, .tooManyRequests].contains(status) { response.headerFields[.retryAfter] = "1" }
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
        accessLog?.note(report, elapsed: elapsed, byteCount: byteCount)
    }

    /// Sends one piece after the other until there are no more, the client goes away or the server ends.
    private func send(
        _ pieces: AsyncStream<[UInt8]>, end: @escaping @Sendable () -> Void, _ head: HTTPResponse,
        over channel: any Channel, _ writer: consuming ResponseWriter, _ report: Report
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
            end()
            try await writer.writeResponse(head)
            throw ConnectionEnds()
        }
        sent = try await PieceSending.run(pieces, end: end, head, over: channel, writer)
        if report.isHTTP1 { throw ConnectionEnds() }
    }
}

/// Nothing more comes over this connection, which is closed for that.
struct ConnectionEnds: Error {}

extension ServiceAnswer {
    /// What follows the header, which this does not keep.
    fileprivate mutating func takeBody() -> Body {
        defer { body = .bytes([]) }
        return body
    }
}
