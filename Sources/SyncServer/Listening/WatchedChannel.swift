import HummingbirdCore
import Logging
import NIOCore
import NIOSSL
import NIOTLS

/// A connection that is closed when it takes too long to be encrypted, or carries nothing for too long.
///
/// Hummingbird looks after the time between requests; a client that does not get as far, or that reads nothing of what
/// it has asked for, would stay for ever.
struct WatchedChannel<Base: ServerChildChannel>: ServerChildChannel {
    private let base: Base
    private let limits: ConnectionWatch.Limits

    init(_ base: Base, limits: ConnectionWatch.Limits) { (self.base, self.limits) = (base, limits) }

    func setup(channel: any Channel, logger: Logger) -> EventLoopFuture<Base.Value> {
        do {
            try channel.pipeline.syncOperations.addHandler(IdleStateHandler(allTimeout: limits.silence))
            guard limits.handshake != nil else {
                try channel.pipeline.syncOperations.addHandler(ConnectionWatch(limits))
                return base.setup(channel: channel, logger: logger)
            }
            let result = base.setup(channel: channel, logger: logger)
            // Behind what encrypts, which tells when it is ready.
            let encryption = try channel.pipeline.syncOperations.handler(type: NIOSSLServerHandler.self)
            try channel.pipeline.syncOperations.addHandler(StreamEndings(), position: .after(encryption))
            try channel.pipeline.syncOperations.addHandler(ConnectionWatch(limits), position: .after(encryption))
            return result
        } catch {
            return channel.eventLoop.makeFailedFuture(error)
        }
    }

    func handle(value: Base.Value, logger: Logger) async {
        await withTaskExecutorPreference(LoopExecutor(value.channel.eventLoop)) {
            await base.handle(value: value, logger: logger)
        }
    }
}

/// Closes a connection for one of the reasons above, and one that is not encrypted yet when the server ends.
final class ConnectionWatch: ChannelInboundHandler {
    typealias InboundIn = NIOAny

    struct Limits: Sendable {
        var silence: TimeAmount
        /// `nil` where nothing is encrypted.
        var handshake: TimeAmount?

        init(_ configuration: ListenerConfiguration, isSecure: Bool) {
            silence = .seconds(configuration.silenceSeconds)
            handshake = isSecure ? .seconds(configuration.handshakeSeconds) : nil
        }
    }

    private let limits: Limits
    private var handshakeEnd: Scheduled<Void>?

    init(_ limits: Limits) { self.limits = limits }

    func handlerAdded(context: ChannelHandlerContext) {
        guard let handshake = limits.handshake else { return }
        let channel = context.channel
        handshakeEnd = context.eventLoop.scheduleTask(in: handshake) { channel.close(promise: nil) }
    }

    func handlerRemoved(context: ChannelHandlerContext) { handshakeEnd?.cancel() }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        switch event {
        case is IdleStateHandler.IdleStateEvent:
            context.close(promise: nil)
            return
        case TLSUserEvent.handshakeCompleted:
            handshakeEnd?.cancel()
            handshakeEnd = nil
        case is ChannelShouldQuiesceEvent where handshakeEnd != nil:
            context.close(promise: nil)
            return
        default: break
        }
        context.fireUserInboundEventTriggered(event)
    }
}
