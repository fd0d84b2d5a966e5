import NIOCore
import NIOHTTPTypes

/// A request that ends before its end is an error, whoever ended the connection and why. Else what had come until then
/// would be taken for all of it, and half a value be written.
final class WholeRequests: ChannelInboundHandler, RemovableChannelHandler {
    typealias InboundIn = HTTPRequestPart
    typealias InboundOut = HTTPRequestPart

    private var isWithinRequest = false
    private var hasLeft = false
    private var onLeaving: (@Sendable () -> Void)?

    /// Calls `body` once when the client sends nothing more, which may be so already.
    ///
    /// Hummingbird's own handler for this stops the process when the body has been read before.
    static func whenClientLeaves(_ channel: any Channel, _ body: @escaping @Sendable () -> Void) async throws {
        try await channel.eventLoop.submit {
            let handler = try channel.pipeline.syncOperations.handler(type: WholeRequests.self)
            if handler.hasLeft { body() } else { handler.onLeaving = body }
        }.get()
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        switch unwrapInboundIn(data) {
        case .head: isWithinRequest = true
        case .body: break
        case .end: isWithinRequest = false
        }
        context.fireChannelRead(data)
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if case ChannelEvent.inputClosed = event { leave(context) }
        context.fireUserInboundEventTriggered(event)
    }

    func channelInactive(context: ChannelHandlerContext) {
        leave(context)
        context.fireChannelInactive()
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        // What is wrong is told already.
        isWithinRequest = false
        leave(context)
        context.fireErrorCaught(error)
    }

    private func leave(_ context: ChannelHandlerContext) {
        hasLeft = true
        onLeaving?()
        onLeaving = nil
        guard isWithinRequest else { return }
        isWithinRequest = false
        context.fireErrorCaught(RequestIsCut())
    }
}

/// The connection ended in the middle of a request.
struct RequestIsCut: Error {}
