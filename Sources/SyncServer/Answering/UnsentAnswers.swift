import HTTPTypes
import NIOCore
import NIOHTTPTypes

/// Closes a connection of HTTP/1 when all answers have gone, or their reader has had his time.
///
/// NIO throws away what the kernel has not taken when a connection is closed; also when only its own side is, where the
/// client has ended his before. Hummingbird closes as soon as the last answer is written, and at once where it knows of
/// no request, as of those that ``PromptAnswers`` has answered.
final class UnsentAnswers: ChannelOutboundHandler, RemovableChannelHandler {
    typealias OutboundIn = HTTPResponsePart
    typealias OutboundOut = HTTPResponsePart

    /// How long it waits before it looks again.
    private static let pause = TimeAmount.milliseconds(10)

    private let answers: PromptAnswers
    private let patience: TimeAmount
    private var isWithinAnswer = false
    private var isAtOnce = false

    /// - Parameters:
    ///   - answers: takes no further requests from when the connection is to be closed.
    ///   - patience: how long a reader may take.
    init(_ answers: PromptAnswers, patience: TimeAmount) { (self.answers, self.patience) = (answers, patience) }

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        switch unwrapOutboundIn(data) {
        case .head(let head): isWithinAnswer = head.status.kind != .informational
        case .body: break
        case .end: isWithinAnswer = false
        }
        context.write(data, promise: promise)
    }

    func close(context: ChannelHandlerContext, mode: CloseMode, promise: EventLoopPromise<Void>?) {
        // Hummingbird does that where the connection's task is cancelled: the server has waited for long enough.
        if case .input = mode { isAtOnce = true }
        // Half an answer is worth nothing to anybody. A stream of HTTP/2 keeps what it has by itself.
        guard !isAtOnce, !isWithinAnswer, Peer.isHTTP1(context.channel) else {
            return context.close(mode: mode, promise: promise)
        }
        answers.takeNothingMore()
        close(context, mode, promise, by: NIODeadline.now() + patience)
    }

    private func close(
        _ context: ChannelHandlerContext, _ mode: CloseMode, _ promise: EventLoopPromise<Void>?, by limit: NIODeadline
    ) {
        context.flush()
        guard context.channel.isActive, !isAtOnce, NIODeadline.now() < limit,
            answers.isWriting || !ConnectionWatch.hasAllGone(context.channel)
        else { return context.close(mode: mode, promise: promise) }
        let bound = NIOLoopBound((handler: self, context: context), eventLoop: context.eventLoop)
        context.eventLoop.scheduleTask(in: Self.pause) {
            let (handler, context) = bound.value
            handler.close(context, mode, promise, by: limit)
        }
    }

    /// Closes `channel` whatever has not gone yet. On its event loop.
    static func closeAtOnce(_ channel: any Channel) {
        (try? channel.pipeline.syncOperations.handler(type: UnsentAnswers.self))?.isAtOnce = true
        channel.close(promise: nil)
    }
}
