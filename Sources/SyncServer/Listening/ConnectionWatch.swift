import NIOCore
import NIOTLS
import SyncService

/// Closes a connection that is one too many, that takes too long to be encrypted or to bring a header, that carries
/// nothing or whose reader takes nothing for too long; and one that is not encrypted yet when the server ends.
final class ConnectionWatch: ChannelDuplexHandler {
    typealias InboundIn = NIOAny
    typealias OutboundIn = NIOAny

    struct Limits: Sendable {
        var silence: TimeAmount
        /// Between two requests of HTTP/1; Hummingbird counts it for HTTP/2.
        var idle: TimeAmount
        /// `nil` where nothing is encrypted.
        var handshake: TimeAmount?
        var header: TimeAmount
        var write: TimeAmount
        /// For what is under way when a connection is told to end.
        var closing: TimeAmount
        var gate: WorkGate
        var proxies: TrustedProxies
        var rounds = WatchRounds()

        init(_ configuration: ListenerConfiguration, gate: WorkGate) {
            silence = .seconds(configuration.silenceSeconds)
            idle = .seconds(configuration.idleSeconds)
            handshake = configuration.certificate == nil ? nil : .seconds(configuration.handshakeSeconds)
            header = .seconds(configuration.headerSeconds)
            write = .seconds(configuration.writeSeconds)
            closing = .seconds(configuration.shutdownSeconds)
            (self.gate, proxies) = (gate, configuration.trustedProxies)
        }
    }

    /// How long a client may take to say that he has heard of the connection's end.
    private static let answerTime = TimeAmount.seconds(2)

    private let limits: Limits
    private var channel: (any Channel)?
    private var handshakeEnd: NIODeadline?
    private var headerEnd: NIODeadline?
    /// When whatever waits to be read has waited for too long.
    private var stallEnd: NIODeadline?
    /// Whether something has come, or was to go, since the last look; and when something was seen to come or go.
    private var (hasRead, hasFlushed) = (false, false)
    private var latestMove = NIODeadline.now()
    private var isInLine = false
    private var address: ClientAddress?
    private var isCounted = false
    private var isHTTP1 = true
    private var isHeaderAwaited = true
    /// Whether something has come since the last request was whole.
    private var hasBytes = false
    private var isWithinRequest = false
    /// How many requests are not answered yet.
    private var openCount = 0

    /// The streams of HTTP/2 that are open.
    private var streams: Set<ObjectIdentifier> = []
    /// Those of them whose answers are written, and when their readers must have taken these.
    private var answered: [ObjectIdentifier: (channel: any Channel, end: NIODeadline)] = [:]

    /// Whether the server is about to end.
    var isEnding: Bool { endingStart != nil }
    private var endingStart: NIODeadline?
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
        (channel, latestMove) = (context.channel, NIODeadline.now())
        if let handshake = limits.handshake {
            handshakeEnd = latestMove + handshake
        } else {
            headerEnd = latestMove + limits.header
        }
        limits.rounds.add(self, on: context.eventLoop)
        context.fireChannelActive()
    }

    func channelInactive(context: ChannelHandlerContext) {
        end(context)
        context.fireChannelInactive()
    }

    func handlerRemoved(context: ChannelHandlerContext) { end(context) }

    private func end(_ context: ChannelHandlerContext) {
        guard isCounted else { return }
        isCounted = false
        channel = nil
        limits.rounds.remove(self, on: context.eventLoop)
        limits.gate.disconnect(address)
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        (hasBytes, hasRead) = (true, true)
        context.fireChannelRead(data)
    }

    func channelReadComplete(context: ChannelHandlerContext) {
        if isHeaderAwaited, hasBytes, headerEnd == nil, handshakeEnd == nil {
            headerEnd = NIODeadline.now() + limits.header
        }
        context.fireChannelReadComplete()
    }

    func flush(context: ChannelHandlerContext) {
        hasFlushed = true
        context.flush()
    }

    func channelWritabilityChanged(context: ChannelHandlerContext) {
        stallEnd = context.channel.isWritable ? nil : NIODeadline.now() + limits.write
        context.fireChannelWritabilityChanged()
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        switch event {
        case TLSUserEvent.handshakeCompleted(let negotiated):
            handshakeEnd = nil
            // Of HTTP/2 the time between requests is watched, which is when no stream is open.
            isHTTP1 = negotiated != "h2"
            isHeaderAwaited = isHTTP1
            if isHTTP1 { headerEnd = NIODeadline.now() + limits.header }
        case is ChannelShouldQuiesceEvent:
            guard handshakeEnd == nil else {
                context.close(promise: nil)
                return
            }
            endingStart = NIODeadline.now()
            for body in onEnding.values { body() }
        default: break
        }
        context.fireUserInboundEventTriggered(event)
    }

    /// Whether one of its times is over, for the first time since it was said last that it is in line to be closed.
    func becomesOverdue(at now: NIODeadline) -> Bool {
        for (stream, end) in answered.values where end <= now {
            limits.gate.noteSlow()
            answered[ObjectIdentifier(stream)] = nil
            stream.close(promise: nil)
        }
        guard !isInLine else { return false }
        isInLine = delay(at: now) != nil
        return isInLine
    }

    /// Closes it, unless something has come while it was in line.
    func closeIfOverdue(at now: NIODeadline) {
        isInLine = false
        guard let channel, let delay = delay(at: now) else { return }
        if delay == .slow { limits.gate.noteSlow() }
        self.channel = nil
        UnsentAnswers.closeAtOnce(channel)
    }

    private enum Delay {
        /// Who should send or take something, and does not.
        case slow
        /// Who may take his time.
        case usual
    }

    /// Which of its times is over.
    private func delay(at now: NIODeadline) -> Delay? {
        guard let channel else { return nil }
        // What is only kept for a reader who takes nothing has not gone.
        if hasRead || hasFlushed && Self.hasAllGone(channel) { (hasRead, hasFlushed, latestMove) = (false, false, now) }
        if headerEnd.map({ $0 <= now }) ?? false { return .slow }
        if stallEnd.map({ $0 <= now }) ?? false { return .slow }
        if latestMove + limits.silence <= now { return .slow }
        if let handshakeEnd { return handshakeEnd <= now ? .usual : nil }
        if !isHTTP1 { return isForgotten(at: now) ? .usual : nil }
        // Who is still sending a request has an answer to come, but nothing is done for it.
        let isIdle = (openCount <= 0 || isWithinRequest) && latestMove + limits.idle <= now
        return isIdle ? .usual : nil
    }

    /// Whether it is a connection of HTTP/2 that was told to end, carries nothing, and whose client has said nothing to
    /// that. Hummingbird waits for his word, which a library that works only while it is asked for something, as
    /// libcurl, gives with its next request.
    private func isForgotten(at now: NIODeadline) -> Bool {
        guard let endingStart, streams.isEmpty else { return false }
        return max(endingStart, latestMove) + Self.answerTime <= now
    }

    /// Whether the kernel has all that was sent over a connection, which is no stream of one.
    static func hasAllGone(_ channel: any Channel) -> Bool {
        (try? channel.syncOptions?.getOption(.bufferedWritableBytes)) ?? 0 == 0
    }
}

extension ConnectionWatch {
    /// A header has come.
    func noteHeader() {
        (isHeaderAwaited, headerEnd, isWithinRequest) = (false, nil, true)
        openCount += 1
    }

    /// All of a request has come.
    func noteRequest() { (isHeaderAwaited, hasBytes, isWithinRequest) = (true, false, false) }

    /// All of an answer has gone.
    func noteAnswer() { openCount -= 1 }

    /// All of the answer over a stream of HTTP/2 is written. NIO says nothing of a reader who makes no room for it.
    func noteAnswer(over stream: any Channel) {
        answered[ObjectIdentifier(stream)] = (stream, NIODeadline.now() + limits.write)
    }

    /// A stream of HTTP/2 has begun.
    func noteBegin(of stream: any Channel) { streams.insert(ObjectIdentifier(stream)) }

    /// A stream of HTTP/2 has ended.
    func noteEnd(of stream: any Channel) {
        streams.remove(ObjectIdentifier(stream))
        answered[ObjectIdentifier(stream)] = nil
    }

    /// Calls `body` when the server is about to end, unless `owner` takes it back before.
    func whenEnding(_ owner: AnyObject, _ body: (() -> Void)?) { onEnding[ObjectIdentifier(owner)] = body }
}
