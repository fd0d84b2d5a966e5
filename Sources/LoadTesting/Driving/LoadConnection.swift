import NIOCore

/// A connection over which one request is under way at a time. Stays on its event loop.
final class LoadConnection: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    let slot: Int
    private unowned let loop: LoadLoop
    private var reader = AnswerReader()
    private var context: ChannelHandlerContext?
    private var asked: (due: NIODeadline, sent: NIODeadline, kind: Int)?
    private var isExpected = true

    init(slot: Int, of loop: LoadLoop) { (self.slot, self.loop) = (slot, loop) }

    /// When the request under way was sent.
    var sent: NIODeadline? { asked?.sent }

    func send(_ request: (bytes: ByteBuffer, kind: Int), due: NIODeadline, at now: NIODeadline) {
        asked = (due, now, request.kind)
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
        guard let asked else { return fail(.malformed, context) }
        self.asked = nil
        let closes = reader.closes
        loop.answered(self, due: asked.due, kind: asked.kind, isExpected: isExpected, isReady: !closes)
        if closes { context.close(promise: nil) }
    }

    private func fail(_ trouble: LoadReport.Trouble, _ context: ChannelHandlerContext) {
        let wasAsked = asked != nil
        asked = nil
        loop.failed(self, trouble, wasAsked: wasAsked)
        context.close(promise: nil)
    }

    func channelInactive(context: ChannelHandlerContext) {
        self.context = nil
        if asked != nil {
            asked = nil
            loop.failed(self, .closed, wasAsked: true)
        }
        loop.closed(self)
    }

    /// Its end is told by `channelInactive`.
    func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }

    /// Nobody waits for the answer any more.
    func giveUp() {
        guard asked != nil else { return }
        asked = nil
        loop.failed(self, .unanswered, wasAsked: true)
        context?.close(promise: nil)
    }
}
