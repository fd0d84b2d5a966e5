import NIOCore
import NIOHTTP1
import NIOPosix
import Synchronization

/// A local HTTP server whose answers are chosen by a test.
final class ScriptedServer: Sendable {
    /// The answer to a request.
    enum Reply: Sendable {
        case answer(Int, tag: String? = nil)
        /// An answer after a delay.
        case delayed(Duration, Int)
        /// Closes the connection.
        case hangUp
        /// No answer.
        case silence
        /// An event stream with a reconnection time in milliseconds.
        case stream(retry: Int? = 100)
        /// An answer, after which all event streams end.
        case ending(Int)
    }

    struct Request: Sendable {
        var method: String
        var path: String
        var condition: String?
        var authorization: String?
    }

    private let channel: any Channel
    let port: Int

    /// - Parameter reply: called for every request with the number of requests before it.
    static func start(
        _ reply: @escaping @Sendable (Request, Int) -> Reply
    ) async throws -> ScriptedServer {
        let hub = Hub()
        let channel = try await ServerBootstrap(group: .singletonMultiThreadedEventLoopGroup)
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            .serverChannelOption(.backlog, value: 1_024)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.configureHTTPServerPipeline(withPipeliningAssistance: false)
                    try channel.pipeline.syncOperations.addHandler(Handler(reply, hub))
                }
            }
            .bind(host: "127.0.0.1", port: 0).get()
        return ScriptedServer(channel, hub)
    }

    private let hub: Hub

    private init(_ channel: any Channel, _ hub: Hub) {
        (self.channel, self.hub) = (channel, hub)
        port = channel.localAddress?.port ?? 0
    }

    func stop() async throws { try await channel.close() }

    /// The open streams and the number of requests.
    final class Hub: Sendable {
        let streams = Mutex<[any Channel]>([])
        let count = Mutex(0)

        /// Sends a change to all streams.
        func sendChange() {
            for channel in streams.withLock({ $0 }) {
                let piece = ByteBuffer(string: "event: change\ndata: {}\n\n")
                channel.writeAndFlush(HTTPServerResponsePart.body(.byteBuffer(piece)), promise: nil)
            }
        }
    }

    private final class Handler: ChannelInboundHandler {
        typealias InboundIn = HTTPServerRequestPart
        typealias OutboundOut = HTTPServerResponsePart

        private let reply: @Sendable (Request, Int) -> Reply
        private let hub: Hub
        private var request: Request?

        init(_ reply: @escaping @Sendable (Request, Int) -> Reply, _ hub: Hub) { (self.reply, self.hub) = (reply, hub) }

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            switch unwrapInboundIn(data) {
            case .head(let head):
                request = Request(
                    method: head.method.rawValue, path: head.uri, condition: head.headers.first(name: "If-Match"),
                    authorization: head.headers.first(name: "Authorization"))
            case .body: break
            case .end:
                guard let request else { return }
                let number = hub.count.withLock { count in
                    defer { count += 1 }
                    return count
                }
                perform(reply(request, number), context)
            }
        }

        private func perform(_ reply: Reply, _ context: ChannelHandlerContext) {
            switch reply {
            case .answer(let status, let tag): send(status, tag, context)
            case .delayed(let delay, let status):
                let bound = NIOLoopBound((self, context), eventLoop: context.eventLoop)
                context.eventLoop.scheduleTask(in: TimeAmount(delay)) {
                    let (handler, context) = bound.value
                    handler.send(status, nil, context)
                }
            case .hangUp: context.close(promise: nil)
            case .silence: break
            case .ending(let status):
                send(status, "\"1\"", context)
                for channel in hub.streams.withLock({ $0 }) { channel.close(promise: nil) }
            case .stream(let retry):
                let head = HTTPResponseHead(version: .http1_1, status: .ok, headers: ["Transfer-Encoding": "chunked"])
                context.writeAndFlush(wrapOutboundOut(.head(head)), promise: nil)
                if let retry {
                    let piece = ByteBuffer(string: "retry: \(retry)\n\n")
                    context.writeAndFlush(wrapOutboundOut(.body(.byteBuffer(piece))), promise: nil)
                }
                hub.streams.withLock { $0.append(context.channel) }
            }
        }

        private func send(_ status: Int, _ tag: String?, _ context: ChannelHandlerContext) {
            // The event precedes the answer, as on a server that pushes immediately.
            if request?.method == "PUT", status == 200 { hub.sendChange() }
            var headers: HTTPHeaders = ["Content-Length": "2"]
            if let tag { headers.add(name: "ETag", value: tag) }
            let head = HTTPResponseHead(
                version: .http1_1, status: HTTPResponseStatus(statusCode: status), headers: headers)
            context.write(wrapOutboundOut(.head(head)), promise: nil)
            context.write(wrapOutboundOut(.body(.byteBuffer(ByteBuffer(string: "ok")))), promise: nil)
            context.writeAndFlush(wrapOutboundOut(.end(nil)), promise: nil)
        }

        func channelInactive(context: ChannelHandlerContext) {
            hub.streams.withLock { streams in streams.removeAll { $0 === context.channel } }
        }

        func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }
    }
}
