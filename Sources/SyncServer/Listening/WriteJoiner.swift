import NIOCore

/// Joins what is written until it is flushed, so that the end of an answer stands in the same TLS record as its last
/// bytes.
///
/// libcurl reads a record at a time. One that has all bytes of an answer's length, and not yet the end of the stream,
/// makes it reset the stream (RST_STREAM, STREAM_CLOSED); after 200 resets in half a minute NIO takes the client for an
/// attacker and closes the connection, in the middle of whatever else is under way.
final class WriteJoiner: ChannelOutboundHandler {
    typealias OutboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    /// More than this is passed on without waiting for a flush.
    private static let mostByteCount = 64 << 10

    private var joined: ByteBuffer?
    private var promises: [EventLoopPromise<Void>] = []

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        var part = unwrapOutboundIn(data)
        if let promise { promises.append(promise) }
        if joined == nil {
            joined = part
        } else {
            joined?.writeBuffer(&part)
        }
        if let joined, joined.readableBytes >= Self.mostByteCount { passOn(context) }
    }

    func flush(context: ChannelHandlerContext) {
        passOn(context)
        context.flush()
    }

    func close(context: ChannelHandlerContext, mode: CloseMode, promise: EventLoopPromise<Void>?) {
        passOn(context)
        context.close(mode: mode, promise: promise)
    }

    func handlerRemoved(context: ChannelHandlerContext) {
        joined = nil
        for promise in promises { promise.fail(ChannelError.ioOnClosedChannel) }
        promises = []
    }

    private func passOn(_ context: ChannelHandlerContext) {
        guard let joined else { return }
        let waiting = promises
        (self.joined, promises) = (nil, [])
        guard !waiting.isEmpty else { return context.write(wrapOutboundOut(joined), promise: nil) }
        let promise = context.eventLoop.makePromise(of: Void.self)
        for other in waiting { promise.futureResult.cascade(to: other) }
        context.write(wrapOutboundOut(joined), promise: promise)
    }
}
