import NIOCore
import NIOTLS

/// Takes PRIORITY frames out of an HTTP/2 connection: they are deprecated, and a server may take no notice of them
/// (RFC 9113, section 5.3.2).
///
/// libcurl sends one with each request. NIO counts them among the frames that are only sent to keep a server busy, and
/// closes a connection with more than 200 in half a minute, in the middle of whatever is under way; Hummingbird lets
/// nobody change that.
final class PriorityFilter: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias InboundOut = ByteBuffer

    private static let prefaceByteCount = 24
    private static let headByteCount = 9
    private static let priority: UInt8 = 2

    private enum Place {
        /// Not in HTTP/2.
        case outside
        /// In what is passed on as it is.
        case passing(Int)
        /// In a frame that is left out.
        case dropping(Int)
        /// In the head of a frame, of which so much is there.
        case head
    }

    private var place = Place.outside
    private var head: [UInt8] = []

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if case TLSUserEvent.handshakeCompleted(negotiatedProtocol: "h2") = event {
            place = .passing(Self.prefaceByteCount)
        }
        context.fireUserInboundEventTriggered(event)
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        if case .outside = place { return context.fireChannelRead(data) }
        var input = unwrapInboundIn(data)
        var output = context.channel.allocator.buffer(capacity: input.readableBytes + head.count)
        while input.readableBytes > 0 { take(&input, &output) }
        if output.readableBytes > 0 { context.fireChannelRead(wrapInboundOut(output)) }
    }

    private func take(_ input: inout ByteBuffer, _ output: inout ByteBuffer) {
        switch place {
        case .outside: output.writeBuffer(&input)
        case .passing(let count):
            let taken = min(count, input.readableBytes)
            if var part = input.readSlice(length: taken) { output.writeBuffer(&part) }
            place = taken == count ? .head : .passing(count - taken)
        case .dropping(let count):
            let taken = min(count, input.readableBytes)
            input.moveReaderIndex(forwardBy: taken)
            place = taken == count ? .head : .dropping(count - taken)
        case .head:
            head += input.readBytes(length: min(Self.headByteCount - head.count, input.readableBytes)) ?? []
            guard head.count == Self.headByteCount else { return }
            let count = Int(head[0]) << 16 | Int(head[1]) << 8 | Int(head[2])
            let isPriority = head[3] == Self.priority
            if !isPriority { output.writeBytes(head) }
            head.removeAll(keepingCapacity: true)
            place = count == 0 ? .head : isPriority ? .dropping(count) : .passing(count)
        }
    }
}
