import HTTPTypes
import NIOCore
import NIOHTTPTypes
import SyncProtocol

/// Answers requests that need no waiting as they come, on the event loop; all others go on to the task of their
/// connection.
///
/// It saves the change to that task and back, which takes longer than reading an entry. The order of answers stays: a
/// request goes this way only when none is under way the other.
final class PromptAnswers: ChannelDuplexHandler, RemovableChannelHandler {
    typealias InboundIn = HTTPRequestPart
    typealias InboundOut = HTTPRequestPart
    typealias OutboundIn = HTTPResponsePart
    typealias OutboundOut = HTTPResponsePart

    /// The answer to a request without body, where it is had at once.
    typealias Answering = @Sendable (HTTPRequest, any Channel) -> (head: HTTPResponse, body: ByteBuffer)?

    private let answer: Answering
    /// A request whose end has not come yet.
    private var held: HTTPRequest?
    /// How many requests are under way the other way.
    private var otherCount = 0
    private var mustFlush = false

    init(_ answer: @escaping Answering) { self.answer = answer }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        switch unwrapInboundIn(data) {
        case .head(let head):
            if mayAnswer(head, context) {
                held = head
                return
            }
            otherCount += 1
        case .body: passOn(context)
        case .end(let trailers):
            if let head = held, trailers == nil, let answer = answer(head, context.channel) {
                held = nil
                send(answer, context)
                return
            }
            passOn(context)
        }
        context.fireChannelRead(data)
    }

    func channelReadComplete(context: ChannelHandlerContext) {
        if mustFlush {
            mustFlush = false
            context.flush()
        }
        context.fireChannelReadComplete()
    }

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        if case .end = unwrapOutboundIn(data) { otherCount -= 1 }
        context.write(data, promise: promise)
    }

    /// A reader who does not read is the other way's affair, which waits for him.
    private func mayAnswer(_ head: HTTPRequest, _ context: ChannelHandlerContext) -> Bool {
        guard head.method == .get, otherCount == 0, context.channel.isWritable,
            (head.path ?? "").utf8.starts(with: WirePath.prefix.utf8)
        else { return false }
        return !head.headerFields.contains { Self.others.contains($0.name) }
    }

    /// What asks for more than an answer.
    private static let others: [HTTPField.Name] = [
        .contentLength, .transferEncoding, .connection, .expect, .upgrade, .contentEncoding,
    ]

    private func passOn(_ context: ChannelHandlerContext) {
        guard let head = held else { return }
        held = nil
        otherCount += 1
        context.fireChannelRead(wrapInboundOut(.head(head)))
    }

    private func send(_ answer: (head: HTTPResponse, body: ByteBuffer), _ context: ChannelHandlerContext) {
        context.write(wrapOutboundOut(.head(answer.head)), promise: nil)
        if answer.body.readableBytes > 0 { context.write(wrapOutboundOut(.body(answer.body)), promise: nil) }
        context.write(wrapOutboundOut(.end(nil)), promise: nil)
        mustFlush = true
    }
}
