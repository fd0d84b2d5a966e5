import HTTPTypes
import NIOCore
import NIOHTTP1
import NIOHTTPTypes
import NIOHTTPTypesHTTP1
import SyncProtocol

/// A request that ends before its end is an error, whoever ended the connection and why. Else what had come until then
/// would be taken for all of it, and half a value be written. So is one whose body takes too long; and what is no
/// request is told so, as a problem.
final class WholeRequests: ChannelDuplexHandler, RemovableChannelHandler {
    typealias InboundIn = HTTPRequestPart
    typealias InboundOut = HTTPRequestPart
    typealias OutboundIn = HTTPResponsePart
    typealias OutboundOut = HTTPResponsePart

    private let limits: ListenerConfiguration
    private let gate: WorkGate
    private let turnstile: Turnstile
    private var watch: ConnectionWatch?
    /// Which one is to tell of the server's end while a body is awaited: of HTTP/2 the connection's, which outlives
    /// this stream of it.
    private var endWatch: ConnectionWatch?
    /// That of the connection which this is a stream of.
    private var connectionWatch: ConnectionWatch?
    private var isWithinRequest = false
    private var hasLeft = false
    private var isRefusing = false
    /// How many requests are not answered yet.
    private var openCount = 0
    /// How much of the body has come since the timer was set.
    private var byteCount = 0
    private var bodyEnd: Scheduled<Void>?
    private var stall: Scheduled<Void>?
    private var onLeaving: (@Sendable () -> Void)?
    private var leaveLine: (@Sendable () -> Void)?

    init(_ limits: ListenerConfiguration, gate: WorkGate, turnstile: Turnstile) {
        (self.limits, self.gate, self.turnstile) = (limits, gate, turnstile)
    }

    /// Calls `body` once when the client sends nothing more, which may be so already.
    ///
    /// Hummingbird's own handler for this stops the process when the body has been read before.
    static func whenClientLeaves(_ channel: any Channel, _ body: @escaping @Sendable () -> Void) async throws {
        if channel.eventLoop.inEventLoop { return try attach(channel, body) }
        try await channel.eventLoop.submit { try attach(channel, body) }.get()
    }

    private static func attach(_ channel: any Channel, _ body: @escaping @Sendable () -> Void) throws {
        let handler = try channel.pipeline.syncOperations.handler(type: WholeRequests.self)
        if handler.hasLeft { body() } else { handler.onLeaving = body }
    }

    /// Calls `leave`, at once, when the client sends nothing more while it waits for its turn.
    static func whenWaiterLeaves(_ channel: any Channel, _ leave: @escaping @Sendable () -> Void) {
        guard channel.eventLoop.inEventLoop else {
            return channel.eventLoop.execute { whenWaiterLeaves(channel, leave) }
        }
        // Where nobody looks after the requests any more the connection is closed.
        guard let handler = try? channel.pipeline.syncOperations.handler(type: WholeRequests.self), !handler.hasLeft
        else { return leave() }
        handler.leaveLine = leave
    }

    func handlerAdded(context: ChannelHandlerContext) {
        let operations = context.pipeline.syncOperations
        // A stream of HTTP/2 has neither.
        watch = try? operations.handler(type: ConnectionWatch.self)
        if let codec = try? operations.handler(type: HTTP1ToHTTPServerCodec.self) {
            try? operations.addHandler(RequestRules(), position: .before(codec))
        }
    }

    func handlerRemoved(context: ChannelHandlerContext) {
        endTimers()
        endStream(context)
        watch = nil
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard !isRefusing else { return }
        switch unwrapInboundIn(data) {
        case .head:
            isWithinRequest = true
            openCount += 1
            if let watch { watch.noteHeader() } else { streamWatch(context)?.noteBegin(of: context.channel) }
        case .body(let part): byteCount += part.readableBytes
        case .end:
            isWithinRequest = false
            if bodyEnd != nil { endBody() }
            watch?.noteRequest()
        }
        context.fireChannelRead(data)
    }

    func channelReadComplete(context: ChannelHandlerContext) {
        if isWithinRequest, bodyEnd == nil { awaitBody(context) }
        context.fireChannelReadComplete()
    }

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        guard !isRefusing else {
            promise?.fail(ChannelError.outputClosed)
            return
        }
        if case .end = unwrapOutboundIn(data) {
            openCount -= 1
            if let watch { watch.noteAnswer() } else { streamWatch(context)?.noteAnswer(over: context.channel) }
        }
        context.write(data, promise: promise)
    }

    func channelWritabilityChanged(context: ChannelHandlerContext) {
        stall?.cancel()
        stall = nil
        // Of a connection of HTTP/1 its watch looks at this.
        if watch == nil, !context.channel.isWritable {
            let (channel, gate) = (context.channel, gate)
            stall = context.eventLoop.scheduleTask(in: .seconds(limits.writeSeconds)) {
                gate.noteSlow()
                UnsentAnswers.closeAtOnce(channel)
            }
        }
        context.fireChannelWritabilityChanged()
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if case ChannelEvent.inputClosed = event { leave(context) }
        context.fireUserInboundEventTriggered(event)
    }

    func channelInactive(context: ChannelHandlerContext) {
        endTimers()
        endStream(context)
        leave(context)
        context.fireChannelInactive()
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        // What is wrong is told already.
        isWithinRequest = false
        endTimers()
        guard !isRefusing else { return }
        if openCount == 0, let refusal = MalformedRequest(error, limits) { return refuse(context, refusal) }
        leave(context)
        context.fireErrorCaught(error)
    }

    private func leave(_ context: ChannelHandlerContext) {
        hasLeft = true
        leaveLine?()
        leaveLine = nil
        if let onLeaving {
            // Thousands may leave at once, and nobody waits for what is tidied up behind them.
            turnstile.leave(on: context.eventLoop, onLeaving)
            self.onLeaving = nil
        }
        guard isWithinRequest else { return }
        isWithinRequest = false
        context.fireErrorCaught(RequestIsCut())
    }
}

extension WholeRequests {
    /// Says why nothing more is read from this connection, and ends it. What comes meanwhile is thrown away, so that
    /// the client can read the answer.
    private func refuse(_ context: ChannelHandlerContext, _ refusal: MalformedRequest) {
        isRefusing = true
        gate.noteMalformed()
        let body = Problem(refusal.status, refusal.detail).json
        let fields: HTTPFields = [
            .contentType: Problem.mediaType, .contentLength: String(body.count), .connection: "close",
            .cacheControl: "no-store",
        ]
        let channel = context.channel
        context.write(wrapOutboundOut(.head(HTTPResponse(status: refusal.status, headerFields: fields))), promise: nil)
        context.write(wrapOutboundOut(.body(channel.allocator.buffer(bytes: body))), promise: nil)
        context.writeAndFlush(wrapOutboundOut(.end(nil))).whenComplete { _ in
            channel.close(mode: .output, promise: nil)
        }
        bodyEnd = context.eventLoop.scheduleTask(in: .seconds(1)) { UnsentAnswers.closeAtOnce(channel) }
    }

    private func awaitBody(_ context: ChannelHandlerContext) {
        byteCount = 0
        let watch = watch ?? streamWatch(context)
        let isEnding = watch?.isEnding == true
        let time: TimeAmount = .seconds(isEnding ? limits.lateBodySeconds : limits.bodySeconds)
        let bound = NIOLoopBound((handler: self, context: context), eventLoop: context.eventLoop)
        bodyEnd = context.eventLoop.scheduleTask(in: time) {
            let (handler, context) = bound.value
            handler.bodyEnd = nil
            if !isEnding, handler.byteCount >= Int(handler.limits.bodySeconds) * handler.limits.leastByteRate {
                handler.awaitBody(context)
            } else {
                handler.gate.noteSlow()
                handler.errorCaught(context: context, error: BodyTookTooLong())
            }
        }
        guard !isEnding else { return }
        endWatch = watch
        watch?.whenEnding(self) {
            let (handler, context) = bound.value
            handler.bodyEnd?.cancel()
            handler.awaitBody(context)
        }
    }

    private func endBody() {
        bodyEnd?.cancel()
        bodyEnd = nil
        endWatch?.whenEnding(self, nil)
        endWatch = nil
    }

    /// The watch of the connection that a stream of HTTP/2 belongs to.
    private func parentWatch(_ context: ChannelHandlerContext) -> ConnectionWatch? {
        guard let parent = context.channel.parent, parent.eventLoop.inEventLoop else { return nil }
        return try? parent.pipeline.syncOperations.handler(type: ConnectionWatch.self)
    }

    /// The same, which is looked for once.
    private func streamWatch(_ context: ChannelHandlerContext) -> ConnectionWatch? {
        connectionWatch = connectionWatch ?? parentWatch(context)
        return connectionWatch
    }

    private func endStream(_ context: ChannelHandlerContext) {
        connectionWatch?.noteEnd(of: context.channel)
        connectionWatch = nil
    }

    private func endTimers() {
        endBody()
        stall?.cancel()
        stall = nil
    }
}

/// The connection ended in the middle of a request.
struct RequestIsCut: Error {}

/// A body that came too slowly, or not before the server was to end.
struct BodyTookTooLong: Error {}
