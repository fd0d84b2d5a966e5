import NIOCore
import NIOPosix

/// One request over a connection of its own, and its answer: for what prepares a run and is not measured.
package struct Exchange: Sendable {
    package let head: AnswerHead
    package let body: [UInt8]

    /// Sends `request` and waits for the whole answer, for at most a minute.
    ///
    /// - Throws: `AnswerReader.Malformed`, ``Closed``, ``TimedOut``, or the error of connecting.
    package static func perform(_ request: RequestBytes, at target: LoadTarget) async throws -> Exchange {
        let eventLoop = MultiThreadedEventLoopGroup.singleton.next()
        let promise = eventLoop.makePromise(of: Exchange.self)
        let channel: any Channel
        do {
            channel = try await LoadLoop.connect(to: target, on: eventLoop) { channel in
                var request = request
                try channel.pipeline.syncOperations.addHandler(Handler(request.bytes(), promise))
            }.get()
        } catch {
            promise.fail(error)
            throw error
        }
        let timer = eventLoop.scheduleTask(in: .seconds(60)) { promise.fail(TimedOut()) }
        defer {
            timer.cancel()
            channel.close(promise: nil)
        }
        return try await promise.futureResult.get()
    }

    /// The server closed the connection before the answer was complete.
    package struct Closed: Error {}

    /// The answer was not complete after a minute.
    package struct TimedOut: Error {}

    private final class Handler: ChannelInboundHandler {
        typealias InboundIn = ByteBuffer
        typealias OutboundOut = ByteBuffer

        private let request: ByteBuffer
        private let promise: EventLoopPromise<Exchange>
        private var reader = AnswerReader()
        private var head: AnswerHead?
        private var body: [UInt8] = []

        init(_ request: ByteBuffer, _ promise: EventLoopPromise<Exchange>) {
            (self.request, self.promise) = (request, promise)
        }

        func channelActive(context: ChannelHandlerContext) {
            context.writeAndFlush(wrapOutboundOut(request), promise: nil)
        }

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            reader.feed(unwrapInboundIn(data))
            do throws(AnswerReader.Malformed) {
                while let part = try reader.next() {
                    switch part {
                    case .head(let head): self.head = head
                    case .body(let piece): body += piece.readableBytesView
                    case .end: if let head { promise.succeed(Exchange(head: head, body: body)) }
                    }
                }
            } catch {
                promise.fail(error)
            }
        }

        func channelInactive(context: ChannelHandlerContext) { promise.fail(Closed()) }

        func errorCaught(context: ChannelHandlerContext, error: any Error) { promise.fail(error) }
    }
}
