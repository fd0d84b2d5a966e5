import NIOCore
import NIOTLS
import SyncService

/// Closes a connection that is one too many, that takes too long to be encrypted or to bring a header, that carries
/// nothing or whose reader takes nothing for too long; and one that is not encrypted yet when the server ends.
final class ConnectionWatch: ChannelInboundHandler {
    typealias InboundIn = NIOAny

    struct Limits: Sendable {
        var silence: TimeAmount
        /// `nil` where nothing is encrypted.
        var handshake: TimeAmount?
        var header: TimeAmount
        var write: TimeAmount
        /// For what is under way when a connection is told to end.
        var closing: TimeAmount
        var gate: WorkGate
        var proxies: TrustedProxies

        init(_ configuration: ListenerConfiguration, isSecure: Bool, gate: WorkGate) {
            silence = .seconds(configuration.silenceSeconds)
            handshake = isSecure ? .seconds(configuration.handshakeSeconds) : nil
            header = .seconds(configuration.headerSeconds)
            write = .seconds(configuration.writeSeconds)
            closing = .seconds(configuration.shutdownSeconds)
            (self.gate, proxies) = (gate, configuration.trustedProxies)
        }
    }

    private let limits: Limits
    private var handshakeEnd: Scheduled<Void>?
    private var headerEnd: Scheduled<Void>?
    private var stall: Scheduled<Void>?
    private var address: ClientAddress?
    private var isCounted = false
    private var isHeaderAwaited = true
    /// Whether something has come since the last request was whole.
    private var hasBytes = false

    /// Whether the server is about to end.
    private(set) var isEnding = false
    private var onEnding: [ObjectIdentifier: () -> Void] = [:]

    init(_ limits: Limits) { self.limits = limits }

    func channelActive(context: ChannelHandlerContext) {
        let peer = Peer.address(of: context.channel)
        address = limits.proxies.contains(peer) ? nil : ClientAddress(peer)
        guard limits.gate.connect(address) else {
            context.close(promise: nil)
            return
        }
        isCounted = true
        if let handshake = limits.handshake {
            let channel = context.channel
            handshakeEnd = context.eventLoop.scheduleTask(in: handshake) { channel.close(promise: nil) }
        } else {
            awaitHeader(context)
        }
        context.fireChannelActive()
    }

    func channelInactive(context: ChannelHandlerContext) {
        endTimers()
        if isCounted { limits.gate.disconnect(address) }
        isCounted = false
        context.fireChannelInactive()
    }

    func handlerRemoved(context: ChannelHandlerContext) {
        endTimers()
        if isCounted { limits.gate.disconnect(address) }
        isCounted = false
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        hasBytes = true
        context.fireChannelRead(data)
    }

    func channelReadComplete(context: ChannelHandlerContext) {
        if isHeaderAwaited, hasBytes, headerEnd == nil, handshakeEnd == nil { awaitHeader(context) }
        context.fireChannelReadComplete()
    }

    func channelWritabilityChanged(context: ChannelHandlerContext) {
        stall?.cancel()
        stall = nil
        if !context.channel.isWritable {
            let (channel, gate) = (context.channel, limits.gate)
            stall = context.eventLoop.scheduleTask(in: limits.write) {
                gate.noteSlow()
                channel.close(promise: nil)
            }
        }
        context.fireChannelWritabilityChanged()
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        switch event {
        case is IdleStateHandler.IdleStateEvent:
            limits.gate.noteSlow()
            context.close(promise: nil)
            return
        case TLSUserEvent.handshakeCompleted(let negotiated):
            handshakeEnd?.cancel()
            handshakeEnd = nil
            // Of HTTP/2 the time between requests is watched, which is when no stream is open.
            isHeaderAwaited = negotiated != "h2"
            if isHeaderAwaited { awaitHeader(context) }
        case is ChannelShouldQuiesceEvent:
            guard handshakeEnd == nil else {
                context.close(promise: nil)
                return
            }
            isEnding = true
            for body in onEnding.values { body() }
        default: break
        }
        context.fireUserInboundEventTriggered(event)
    }

    private func awaitHeader(_ context: ChannelHandlerContext) {
        let (channel, gate) = (context.channel, limits.gate)
        headerEnd = context.eventLoop.scheduleTask(in: limits.header) {
            gate.noteSlow()
            channel.close(promise: nil)
        }
    }

    private func endTimers() {
        for timer in [handshakeEnd, headerEnd, stall] { timer?.cancel() }
        (handshakeEnd, headerEnd, stall) = (nil, nil, nil)
    }
}

extension ConnectionWatch {
    /// A header has come.
    func noteHeader() {
        isHeaderAwaited = false
        headerEnd?.cancel()
        headerEnd = nil
    }

    /// All of a request has come.
    func noteRequest() { (isHeaderAwaited, hasBytes) = (true, false) }

    /// Calls `body` when the server is about to end, unless `owner` takes it back before.
    func whenEnding(_ owner: AnyObject, _ body: (() -> Void)?) { onEnding[ObjectIdentifier(owner)] = body }
}
