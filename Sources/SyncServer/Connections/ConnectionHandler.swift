import HTTPTypes
import NIOCore
import NIOHTTP1
import NIOHTTPTypes
import SyncService

/// Receives the requests of one HTTP/1 connection, or the request of one HTTP/2 stream, and sends their answers.
///
/// ``ConnectionState`` decides about timeouts and order. One request is processed at a time. At most one read (64 KiB)
/// of the input after it is buffered here, so that a pipelining client cannot fill the memory.
final class ConnectionHandler: ChannelDuplexHandler, Ticking {
    typealias InboundIn = HTTPRequestPart
    typealias OutboundIn = HTTPResponsePart
    typealias OutboundOut = HTTPResponsePart

    private enum Arrival {
        case part(HTTPRequestPart)
        case readEnd
        case error(any Error)
    }

    let door: ListenerContext
    let isStream: Bool
    var state: ConnectionState
    private(set) var context: ChannelHandlerContext?
    private var loop: ListenerContext.Loop?
    private let peer: Peer
    /// The request that is being received.
    private var incoming: IncomingRequest?
    /// True while input is buffered, because a request is being processed or the client does not read its answers.
    private var isPaused = false
    private var waiting = CircularBuffer<Arrival>(initialCapacity: 0)
    /// True if a `read` was held back because there is buffered input.
    private var isReadHeld = false
    /// True if a part of a request has arrived since the last read completed.
    private var hasPart = false
    /// The part of a long answer that is not written yet.
    var outgoing: OutgoingBody?
    var isFlushScheduled = false
    var unflushedByteCount = 0
    /// Ends the event stream that is the current answer.
    var endPieces: (@Sendable () -> Void)?

    /// - Parameter isStream: `true` for an HTTP/2 stream.
    init(_ door: ListenerContext, peer: Peer, isStream: Bool) {
        (self.door, self.peer, self.isStream) = (door, peer, isStream)
        state = ConnectionState(door.timeouts, isStream: isStream, now: NIODeadline.now())
    }

    var executor: LoopExecutor? { loop?.executor }

    func handlerAdded(context: ChannelHandlerContext) {
        let loop = door.parts(of: context.eventLoop)
        (self.context, self.loop) = (context, loop)
        loop.ticker.add(self)
    }

    func handlerRemoved(context: ChannelHandlerContext) { end() }

    func channelInactive(context: ChannelHandlerContext) {
        end()
        context.fireChannelInactive()
    }

    private func end() {
        guard context != nil else { return }
        state.close()
        context = nil
        loop?.ticker.remove(self)
        dropIncoming()
        waiting.removeAll()
        endPieces?()
        outgoing?.budget?.release()
        outgoing = nil
    }

    private func dropIncoming() {
        incoming?.release()
        incoming = nil
    }

    // MARK: Arrivals

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let part = unwrapInboundIn(data)
        hasPart = true
        if isPaused { waiting.append(.part(part)) } else { take(part) }
    }

    func channelReadComplete(context: ChannelHandlerContext) {
        if isPaused, !waiting.isEmpty { waiting.append(.readEnd) } else { completeRead() }
        context.fireChannelReadComplete()
    }

    func read(context: ChannelHandlerContext) {
        if isPaused, !waiting.isEmpty { isReadHeld = true } else { context.read() }
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        switch event {
        case ChannelEvent.inputClosed:
            perform(state.closeInput())
            settle()
        case is ChannelShouldQuiesceEvent: quiesce()
        default: break
        }
        context.fireUserInboundEventTriggered(event)
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        if isPaused { waiting.append(.error(error)) } else { take(error) }
    }

    func channelWritabilityChanged(context: ChannelHandlerContext) {
        let isWritable = context.channel.isWritable
        // Each piece of a long answer has a deadline of its own.
        if isWritable || outgoing == nil { state.changeWritability(isWritable, NIODeadline.now()) }
        if isWritable, state.phase == .idle { resume() }
        context.fireChannelWritabilityChanged()
    }

    /// Starts the shutdown of the connection.
    func quiesce() {
        perform(state.quiesce(NIODeadline.now()))
        settle()
    }

    func tick(_ now: NIODeadline) {
        perform(state.tick(now, isUnsent: self.isUnsent))
    }

    private var isUnsent: Bool {
        guard !isStream, let channel = context?.channel else { return false }
        if unflushedByteCount > 0 { return true }
        return (try? channel.syncOptions?.getOption(.bufferedWritableBytes)) ?? 0 > 0
    }

    /// Processes the buffered input.
    func resume() {
        isPaused = false
        while !isPaused, let arrival = waiting.popFirst() {
            switch arrival {
            case .part(let part): take(part)
            case .readEnd: completeRead()
            case .error(let error): take(error)
            }
        }
        settle()
        guard !isPaused || waiting.isEmpty, isReadHeld else { return }
        isReadHeld = false
        context?.read()
    }

    /// Processes the buffered input after an answer was written.
    func resumeIfPaused() { if isPaused { resume() } }

    /// True if the server is shutting down and no request is buffered here.
    var isEnding: Bool { state.isQuiescing && waiting.isEmpty }

    private func settle() {
        if !isPaused, waiting.isEmpty { perform(state.settle(NIODeadline.now())) }
    }

    private func completeRead() {
        let isPartial = !hasPart
        hasPart = false
        state.completeRead(NIODeadline.now(), isPartial: isPartial)
        if state.phase == .receiving, incoming != nil { takeSlot() }
        settle()
    }

    private func take(_ part: HTTPRequestPart) {
        switch part {
        case .head(let head):
            guard state.phase == .idle, !state.isLast, let context else { return }
            guard context.channel.isWritable else {
                // A client must read its answers before its next request is processed.
                isPaused = true
                state.changeWritability(false, NIODeadline.now())
                return waiting.prepend(.part(part))
            }
            takeHead(head)
        case .body(let bytes):
            let action = state.receiveBody(bytes.readableBytes)
            if incoming != nil { takeBody(bytes) } else { perform(action) }
        case .end:
            state.receiveEnd()
            guard var request = incoming else { return }
            incoming = nil
            answer(&request)
        }
    }

    private func take(_ error: any Error) {
        guard let context else { return }
        let isReceiving = state.phase == .receiving
        guard state.phase == .idle || isReceiving else { return perform(state.closeInput()) }
        guard let refusal = RequestError.malformed(error, door.limits, isBody: isReceiving) else {
            // Send the answers to earlier requests first.
            guard isReceiving else {
                perform(state.closeInput())
                return settle()
            }
            context.close(promise: nil)
            return
        }
        door.admission.count(.malformed)
        refuse(refusal)
    }

    /// Performs an action of the state machine.
    func perform(_ action: ConnectionState.Action) {
        guard let context else { return }
        switch action {
        case .none: break
        case .close, .closeSlow:
            if action == .closeSlow { door.admission.count(.slow) }
            state.close()
            context.close(promise: nil)
        case .flush:
            flush()
            perform(state.flushed(NIODeadline.now(), isUnsent: isUnsent))
        case .closeOutput: context.close(mode: .output, promise: nil)
        case .refuseLateBody:
            door.admission.count(.slow)
            refuse(
                RequestError(
                    .requestTimeout,
                    "a body must send at least \(door.timeouts.leastBodyByteCount) bytes in each "
                        + "\(door.limits.bodySeconds) s"))
        case .endStream:
            state.endStream(NIODeadline.now())
            endPieces?()
        }
    }
}

// Requests.
extension ConnectionHandler {
    private func takeHead(_ head: HTTPRequest) {
        let request = IncomingRequest(head, client: peer.client(of: head.headerFields, door.limits.trustedProxies))
        state.receiveHead(closes: request.closes && !isStream)
        incoming = request
        // An HTTP/2 header need not announce a body.
        guard request.hasBody || isStream else { return }
        if let refusal = request.refusal(door.limits) { return refuse(refusal) }
        if request.isLong(with: 0) { return admitLongBody(nil) }
        inviteBody()
    }

    /// Asks a client that waits for `100 Continue` to send the body.
    private func inviteBody() {
        guard let context, incoming?.isContinueExpected == true, takeSlot() else { return }
        context.writeAndFlush(wrapOutboundOut(.head(HTTPResponse(status: .continue))), promise: nil)
    }

    private func takeBody(_ part: ByteBuffer) {
        // Modify `incoming` in place: a copy of the request would copy the body for each part.
        let isAdmitted = incoming?.isLongBodyAdmitted == true
        if !isAdmitted, incoming?.isLong(with: part.readableBytes) == true { return admitLongBody(part) }
        do throws(RequestError) {
            if isAdmitted { try incoming?.reserve(part.readableBytes, door.admission) }
            try incoming?.append(part, door.limits)
        } catch {
            refuse(error)
        }
    }

    /// Asks the service if the caller may send a long body, before more of it is received.
    private func admitLongBody(_ part: ByteBuffer?) {
        guard let context, let executor, let request = incoming, takeSlot() else { return }
        isPaused = true
        let bound = NIOLoopBound(self, eventLoop: context.eventLoop)
        let (responder, head, peer) = (door.responder, request.head, request.client.text)
        door.tasks.start(on: executor) {
            let refusal = await responder.refusal(ofLongBodyAfter: head, peer)
            bound.value.admitLongBody(refusal, part)
        }
    }

    private func admitLongBody(_ refusal: ServiceResponse?, _ part: ByteBuffer?) {
        defer { resume() }
        guard state.phase == .receiving, incoming != nil else { return }
        if let refusal { return refuse(refusal) }
        incoming?.isLongBodyAdmitted = true
        do throws(RequestError) { try incoming?.checkBudget(door.admission) } catch { return refuse(error) }
        if let part { takeBody(part) } else { inviteBody() }
    }

    /// Takes an upload slot for an incomplete request, unless it has one.
    ///
    /// - Returns: `false` if the request was refused.
    @discardableResult
    private func takeSlot() -> Bool {
        guard let request = incoming else { return false }
        guard request.slot == nil else { return true }
        do throws(RequestError) {
            incoming?.slot = try slot(of: door.admission.uploads, for: request)
            return true
        } catch {
            refuse(error)
            return false
        }
    }

    private func slot(of budget: Budget, for request: IncomingRequest) throws(RequestError) -> Budget.Ticket {
        do throws(RequestError) {
            return try door.admission.take(of: budget, address: request.client.address)
        } catch {
            guard door.responder.isOperator(request.head.headerFields) else { throw error }
            return budget.force(1, address: request.client.address)
        }
    }

    /// Answers a complete request.
    private func answer(_ request: inout IncomingRequest) {
        let exchange = Exchange(request, isStream: isStream)
        if !request.hasBody, request.head.method == .get, request.slot == nil,
            let answer = door.responder.fastResponse(to: request.head, exchange)
        {
            return send(answer, exchange)
        }
        let isOperational = request.body.isEmpty && Responder.isOperation(request.head)
        do throws(RequestError) {
            let budget = isOperational ? door.admission.operations : door.admission.requests
            let slot = try slot(of: budget, for: request)
            request.slot?.give()
            request.slot = slot
        } catch {
            request.release()
            return send(door.responder.refusal(error, to: request.head), exchange)
        }
        start(&request, exchange)
    }

    private func start(_ request: inout IncomingRequest, _ exchange: Exchange) {
        guard let context, let executor else { return request.release() }
        isPaused = true
        let bound = NIOLoopBound(self, eventLoop: context.eventLoop)
        let responder = door.responder
        let budget = ResponseBudget(
            door.admission, address: request.client.address, uncountedByteCount: exchange.uncountedByteCount)
        // The task of an event stream keeps the request until the stream ends, so the body of a GET is dropped: it has
        // no meaning (RFC 9110, section 9.3.1).
        let body = request.takeBody()
        var asked = ServiceRequest(
            request.head, body: request.head.method == .get ? [] : body, peer: request.client.text)
        asked.localUser = request.client.localUser
        asked.reserveAnswer = { budget.reserve($0, account: $1) }
        responder.metrics.beginRequest()
        door.tasks.start(on: executor) { [asked, request] in
            var request = request
            let answer = await responder.respond(to: asked, in: budget, exchange)
            request.release()
            switch answer.body {
            case .bytes: bound.value.finish(answer, exchange, budget)
            case .stream(let pieces, let end): await Self.send(pieces, end, answer, exchange, bound)
            }
            responder.metrics.endRequest()
        }
    }

    private func finish(_ answer: ServiceResponse, _ exchange: Exchange, _ budget: ResponseBudget) {
        guard state.phase == .answering else {
            // The client has disconnected.
            budget.release()
            return door.responder.record(answer, exchange, byteCount: 0)
        }
        send(answer, exchange, budget)
    }

    private func refuse(_ refusal: RequestError) {
        refuse(door.responder.refusal(refusal, to: incoming?.head))
    }

    /// Answers an incomplete request. The rest of it is discarded.
    private func refuse(_ answer: ServiceResponse) {
        let exchange = Exchange(incoming, isStream: isStream)
        dropIncoming()
        state.refuse()
        send(answer, exchange)
    }
}
