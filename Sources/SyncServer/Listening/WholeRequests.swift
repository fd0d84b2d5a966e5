import NIOCore
import NIOHTTPTypes

/// A request that ends before its end is an error, whoever ended the connection and why. Else what had come until then
/// would be taken for all of it, and half a value be written.
final class WholeRequests: ChannelInboundHandler, RemovableChannelHandler {
    typealias InboundIn = HTTPRequestPart
    typealias InboundOut = HTTPRequestPart

    private var isWithinRequest = false

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        switch unwrapInboundIn(data) {
        case .head: isWithinRequest = true
        case .body: break
        case .end: isWithinRequest = false
        }
        context.fireChannelRead(data)
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if case ChannelEvent.inputClosed = event { failIfWithinRequest(context) }
        context.fireUserInboundEventTriggered(event)
    }

    func channelInactive(context: ChannelHandlerContext) {
        failIfWithinRequest(context)
        context.fireChannelInactive()
    }

    private func failIfWithinRequest(_ context: ChannelHandlerContext) {
        guard isWithinRequest else { return }
        isWithinRequest = false
        context.fireErrorCaught(RequestIsCut())
    }
}

/// The connection ended in the middle of a request.
struct RequestIsCut: Error {}
