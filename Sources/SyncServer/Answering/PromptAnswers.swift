import HTTPTypes
import NIOCore
import NIOHTTPTypes
import SyncProtocol

/// Answers short requests on the event loop; all others go on to the task of their connection.
///
/// A look at one entry is answered as it comes, a small write by a task of its own. Either saves what the connection's
/// task costs, which is more than the work itself. The order of answers stays: a request goes this way only when none
/// is under way the other, and while a write is, what comes after it waits here, as much as has been read. Writes over
/// HTTP/2 go the other way: a stream has a task for its only request.
///
/// A write whose connection has ended is carried out all the same.
final class PromptAnswers: ChannelDuplexHandler, RemovableChannelHandler {
    typealias InboundIn = HTTPRequestPart
    typealias InboundOut = HTTPRequestPart
    typealias OutboundIn = HTTPResponsePart
    typealias OutboundOut = HTTPResponsePart

    /// The longest body that is taken this way, in bytes.
    private static let bodyByteCount = 16_384
    /// From how much on that waits here nothing more is read.
    private static let waitingCount = 16

    private enum Arrival {
        case part(HTTPRequestPart)
        case readEnd
        case event(Any)
        case error(any Error)
    }

    /// What a write's task needs to answer.
    private struct Place {
        let handler: PromptAnswers
        let context: ChannelHandlerContext
    }

    private typealias Bound = NIOLoopBound<Place>

    private let responder: Responder
    private var executor: LoopExecutor?
    private var address: String?
    /// A request whose end has not come yet.
    private var held: (head: HTTPRequest, body: ByteBuffer?)?
    /// How many requests are under way the other way.
    private var otherCount = 0
    /// Whether nothing more is to be served over the connection, as one side has said.
    private var isLast = false
    /// How much was answered at once, in bytes, that has not gone on its way yet; `nil` for nothing.
    private var unflushedByteCount: Int?
    private(set) var isWriting = false
    /// Whether the connection is about to be closed.
    private var isOver = false
    /// What came while one is written.
    private var waiting = CircularBuffer<Arrival>()
    private var isReadHeld = false

    init(_ responder: Responder) { self.responder = responder }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let part = unwrapInboundIn(data)
        if isWriting { waiting.append(.part(part)) } else { take(part, context) }
    }

    func channelReadComplete(context: ChannelHandlerContext) {
        guard isWriting else { return endRead(context) }
        flushSoon(context)
        if case .readEnd = waiting.last {} else { waiting.append(.readEnd) }
        // As the one behind it would.
        read(context: context)
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if isWriting { waiting.append(.event(event)) } else { context.fireUserInboundEventTriggered(event) }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        if isWriting { return waiting.append(.error(error)) }
        passOn(context)
        context.fireErrorCaught(error)
    }

    func channelInactive(context: ChannelHandlerContext) {
        held = nil
        waiting.removeAll()
        context.fireChannelInactive()
    }

    func read(context: ChannelHandlerContext) {
        if isWriting, waiting.count >= Self.waitingCount { isReadHeld = true } else { context.read() }
    }

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        switch unwrapOutboundIn(data) {
        case .head(let head): if Self.isClosing(head.headerFields) { isLast = true }
        case .body: break
        case .end: otherCount -= 1
        }
        context.write(data, promise: promise)
    }

    /// Whatever still comes is thrown away: its answer would be cut.
    func takeNothingMore() {
        isOver = true
        held = nil
    }

    private func take(_ part: HTTPRequestPart, _ context: ChannelHandlerContext) {
        guard !isOver else { return }
        switch part {
        case .head(let head):
            if mayAnswer(head, context) {
                held = (head, nil)
                return
            }
            otherCount += 1
            if Self.isClosing(head.headerFields) { isLast = true }
        case .body(var bytes):
            // Of a write it is no longer than its header says.
            if let held, held.head.method != .get {
                if self.held?.body?.writeBuffer(&bytes) == nil { self.held?.body = bytes }
                return
            }
            passOn(context)
        case .end(let trailers):
            if let held, trailers == nil, answer(held, context) { return }
            passOn(context)
        }
        context.fireChannelRead(wrapInboundOut(part))
    }

    /// What has not come as a whole by now is the other way's affair, which waits for the rest.
    private func endRead(_ context: ChannelHandlerContext) {
        passOn(context)
        flushSoon(context)
        context.fireChannelReadComplete()
    }

    /// Sends what was answered once the loop has looked at all connections over which something has come.
    ///
    /// Sent one by one, each answer would wake its reader, and reader and server would take turns on the processors and
    /// in their caches; together they take nearly a third less of the processors for each request.
    private func flushSoon(_ context: ChannelHandlerContext) {
        guard unflushedByteCount != nil else { return }
        // A connection of HTTP/2 sends what its streams answer together.
        guard Peer.isHTTP1(context.channel) else { return flush(context) }
        let bound = Bound(Place(handler: self, context: context), eventLoop: context.eventLoop)
        context.eventLoop.execute { bound.value.handler.flush(bound.value.context) }
    }

    private func flush(_ context: ChannelHandlerContext) {
        guard unflushedByteCount != nil else { return }
        unflushedByteCount = nil
        context.flush()
    }

    /// A reader who does not read is the other way's affair, which waits for him.
    private func mayAnswer(_ head: HTTPRequest, _ context: ChannelHandlerContext) -> Bool {
        guard otherCount == 0, !isLast, context.channel.isWritable,
            (head.path ?? "").utf8.starts(with: WirePath.prefix.utf8)
        else { return false }
        var length: Int?
        for field in head.headerFields {
            if Self.others.contains(field.name) { return false }
            guard field.name == .contentLength else { continue }
            guard length == nil, let count = Int(field.value),
                count <= min(Self.bodyByteCount, responder.limits.bodyByteCount)
            else { return false }
            length = count
        }
        return switch head.method {
        case .get: length == nil
        case .put: length != nil && Peer.isHTTP1(context.channel)
        case .delete: Peer.isHTTP1(context.channel)
        default: false
        }
    }

    private static func isClosing(_ fields: HTTPFields) -> Bool {
        guard let value = fields.value(of: .connection) else { return false }
        return value.lowercased().contains("close")
    }

    /// What asks for more than an answer.
    private static let others: [HTTPField.Name] = [
        .transferEncoding, .connection, .expect, .upgrade, .contentEncoding,
    ]

    private func passOn(_ context: ChannelHandlerContext) {
        guard let request = held else { return }
        held = nil
        otherCount += 1
        context.fireChannelRead(wrapInboundOut(.head(request.head)))
        if let body = request.body { context.fireChannelRead(wrapInboundOut(.body(body))) }
    }

    /// Answers a request that has come as a whole, or begins to; `false` where it cannot be answered this way.
    private func answer(
        _ request: (head: HTTPRequest, body: ByteBuffer?), _ context: ChannelHandlerContext
    ) -> Bool {
        if request.head.method == .get {
            guard request.body == nil, let answer = responder.answerAtOnce(to: request.head, over: context.channel)
            else { return false }
            held = nil
            send(answer, context)
            return true
        }
        (held, isWriting) = (nil, true)
        let executor = executor ?? LoopExecutor(context.eventLoop)
        self.executor = executor
        let bound = Bound(Place(handler: self, context: context), eventLoop: context.eventLoop)
        let body = request.body.map { Array($0.readableBytesView) } ?? []
        Self.begin(request.head, body, responder, bound, on: executor)
        return true
    }

    private static func begin(
        _ head: HTTPRequest, _ body: [UInt8], _ responder: Responder, _ bound: Bound, on executor: LoopExecutor
    ) {
        let channel = bound.value.context.channel
        let address = bound.value.handler.address ?? Peer.address(of: channel)
        bound.value.handler.address = address
        responder.writes.begin(on: executor) {
            await responder.respond(to: head, body, over: channel, from: address) { await send($0, $1, bound) }
            bound.value.handler.goOn(bound.value.context)
        }
    }

    private func send(_ answer: (head: HTTPResponse, body: ByteBuffer), _ context: ChannelHandlerContext) {
        context.write(wrapOutboundOut(.head(answer.head)), promise: nil)
        if answer.body.readableBytes > 0 { context.write(wrapOutboundOut(.body(answer.body)), promise: nil) }
        context.write(wrapOutboundOut(.end(nil)), promise: nil)
        let byteCount = (unflushedByteCount ?? 0) + answer.body.readableBytes
        unflushedByteCount = byteCount
        // Until then what encrypts keeps it, and the connection does not say that its reader takes nothing.
        if byteCount >= Responder.pieceByteCount { flush(context) }
    }

    /// Sends an answer, of which a long one waits for its reader after each piece.
    private static func send(_ head: HTTPResponse, _ body: ByteBuffer, _ bound: Bound) async {
        guard body.readableBytes > Responder.pieceByteCount else {
            // ``goOn(_:)`` flushes.
            return bound.value.handler.send((head, body), bound.value.context)
        }
        write(.head(head), bound, promise: nil)
        var rest = body
        while let piece = rest.readSlice(length: min(Responder.pieceByteCount, rest.readableBytes)),
            piece.readableBytes > 0
        {
            let sent = bound.eventLoop.makePromise(of: Void.self)
            write(.body(piece), bound, promise: sent)
            bound.value.context.flush()
            // Less than a piece leaves the connection writable, so that nobody else looks at how long this takes.
            let end = bound.eventLoop.scheduleTask(in: .seconds(bound.value.handler.responder.limits.writeSeconds)) {
                guard bound.value.context.channel.isActive else { return }
                bound.value.handler.responder.gate.noteSlow()
                bound.value.context.close(promise: nil)
            }
            defer { end.cancel() }
            // Who has gone gets no more of it.
            do { try await sent.futureResult.get() } catch { return }
        }
        write(.end(nil), bound, promise: nil)
        bound.value.context.flush()
    }

    private static func write(_ part: HTTPResponsePart, _ bound: Bound, promise: EventLoopPromise<Void>?) {
        bound.value.context.write(bound.value.handler.wrapOutboundOut(part), promise: promise)
    }

    /// Takes what has waited for an answer.
    private func goOn(_ context: ChannelHandlerContext) {
        isWriting = false
        while !isWriting, let arrival = waiting.popFirst() {
            switch arrival {
            case .part(let part): take(part, context)
            case .readEnd: endRead(context)
            case .event(let event): context.fireUserInboundEventTriggered(event)
            case .error(let error): errorCaught(context: context, error: error)
            }
        }
        flushSoon(context)
        guard !isWriting, isReadHeld else { return }
        isReadHeld = false
        context.read()
    }
}
