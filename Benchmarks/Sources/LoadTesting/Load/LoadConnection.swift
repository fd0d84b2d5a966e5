import NIOCore

/// A connection that carries one request at a time. Confined to its event loop.
final class LoadConnection: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    let slot: Int
    private unowned let loop: LoadLoop
    private var reader = AnswerReader()
    private var context: ChannelHandlerContext?
    private var pending: (due: NIODeadline, sent: NIODeadline, kind: Int)?
    private var isExpected = true

    init(slot: Int, of loop: LoadLoop) { (self.slot, self.loop) = (slot, loop) }

    /// The time at which the pending request was sent.
    var sent: NIODeadline? { pending?.sent }

    func send(_ request: (bytes: ByteBuffer, kind: Int), due: NIODeadline, at now: NIODeadline) {
        pending = (due, now, request.kind)
        guard let context else { return }
        context.writeAndFlush(wrapOutboundOut(request.bytes), promise: nil)
    }

    func close() { context?.close(promise: nil) }

    func channelActive(context: ChannelHandlerContext) {
        self.context = context
        loop.opened(self)
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        reader.feed(unwrapInboundIn(data))
        do throws(AnswerReader.Malformed) {
            while let part = try reader.next() {
                switch part {
                case .head(let head): isExpected = loop.receive(head, by: self)
                case .body: break
                case .end: finish(context)
                }
            }
        } catch {
            fail(.malformed, context)
        }
    }

    private func finish(_ context: ChannelHandlerContext) {
        guard let pending else { return fail(.malformed, context) }
        self.pending = nil
        let closes = reader.closes
        loop.answered(self, due: pending.due, kind: pending.kind, isExpected: isExpected, isReady: !closes)
        if closes { context.close(promise: nil) }
    }

    private func fail(_ trouble: LoadReport.Trouble, _ context: ChannelHandlerContext) {
        let wasPending = pending != nil
        pending = nil
        loop.failed(self, trouble, wasPending: wasPending)
        context.close(promise: nil)
    }

    func channelInactive(context: ChannelHandlerContext) {
        self.context = nil
        if pending != nil {
            pending = nil
            loop.failed(self, .closed, wasPending: true)
        }
        loop.closed(self)
    }

    // `channelInactive` follows and reports the failure.
    func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }

    /// Fails the pending request as unanswered.
    func timeOut() {
        guard pending != nil else { return }
        pending = nil
        loop.failed(self, .unanswered, wasPending: true)
        context?.close(promise: nil)
    }
}
