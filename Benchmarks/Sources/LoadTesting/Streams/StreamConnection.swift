import NIOCore

/// A connection that carries an event stream. Confined to its event loop.
final class StreamConnection: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    let slot: Int
    private unowned let group: StreamGroup
    private var request: RequestBytes
    private var reader = AnswerReader()
    private var events = EventReader()
    private var context: ChannelHandlerContext?
    private var isFinished = false
    private(set) var isOpen = false
    /// True for a stream that opens before the run starts, until it has opened or failed.
    var isInitial: Bool
    /// True while the event of a write is outstanding.
    var isExpecting = false
    /// The time to wait before reconnecting, unless the server sends a reconnection time.
    private let defaultReconnectionTime: TimeAmount

    init(
        slot: Int, request: RequestBytes, isInitial: Bool, reconnectionTime: TimeAmount, of group: StreamGroup
    ) {
        (self.slot, self.request, self.group, self.isInitial) = (slot, request, group, isInitial)
        defaultReconnectionTime = reconnectionTime
        // `isOutdated` compares with the token of the last call.
        _ = self.request.bytes()
    }

    /// The time to wait before reconnecting.
    var reconnectionTime: TimeAmount { events.reconnectionTime ?? defaultReconnectionTime }

    /// True if the token of the request has been replaced. The server ends a stream when its token expires.
    var isOutdated: Bool { request.isOutdated }

    func channelActive(context: ChannelHandlerContext) {
        guard !isFinished else { return context.close(promise: nil) }
        self.context = context
        context.writeAndFlush(wrapOutboundOut(request.bytes()), promise: nil)
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard !isFinished else { return }
        reader.feed(unwrapInboundIn(data))
        do throws(AnswerReader.Malformed) {
            while let part = try reader.next() {
                switch part {
                case .head(let head): receive(head, context)
                case .body(let piece):
                    guard isOpen else { continue }
                    for _ in 0..<events.read(piece) { group.receivedEvent(self) }
                case .end: context.close(promise: nil)
                }
            }
        } catch {
            finish(.malformed)
            context.close(promise: nil)
        }
    }

    private func receive(_ head: AnswerHead, _ context: ChannelHandlerContext) {
        guard head.status == 200 else {
            isFinished = true
            group.refused(self, head.status)
            context.close(promise: nil)
            return
        }
        isOpen = true
        group.opened(self)
    }

    private func finish(_ trouble: LoadReport.Trouble) {
        guard !isFinished else { return }
        isFinished = true
        let wasOpen = isOpen
        isOpen = false
        group.ended(self, trouble, wasOpen: wasOpen)
    }

    func channelInactive(context: ChannelHandlerContext) {
        self.context = nil
        finish(.streamEnded)
    }

    // `channelInactive` follows and reports the failure.
    func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }

    /// Closes the connection without reporting its end.
    func close() {
        isFinished = true
        isOpen = false
        context?.close(promise: nil)
    }
}
