import NIOCore
import SyncService

/// Applies the timeouts of a TLS connection: the handshake and, for HTTP/2, the time without open streams and the
/// shutdown. A ``ConnectionHandler`` handles each HTTP/2 stream, or an HTTP/1 connection as a whole.
final class SecureConnectionHandler: ChannelInboundHandler, RemovableChannelHandler, Ticking {
    typealias InboundIn = NIOAny
    typealias InboundOut = NIOAny

    /// The state of a TLS connection. Each of its streams has a ``ConnectionState``.
    struct State {
        enum Action: Equatable {
            case none
            case close
            case closeSlow
            /// Send GOAWAY: no more streams are accepted.
            case goAway
        }

        private enum Phase {
            case handshaking(end: NIODeadline)
            case open(idleSince: NIODeadline?)
            /// GOAWAY was sent.
            case ending(idleSince: NIODeadline?, end: NIODeadline)
        }

        /// The time for a client without open streams to close the connection after GOAWAY. libcurl closes it only at
        /// its next request.
        static let answerTime = TimeAmount.seconds(2)

        private let timeouts: ConnectionState.Timeouts
        private var phase: Phase
        private var stallEnd: NIODeadline?

        init(_ timeouts: ConnectionState.Timeouts, now: NIODeadline) {
            self.timeouts = timeouts
            phase = .handshaking(end: now + timeouts.handshake)
        }

        mutating func open(_ now: NIODeadline) { phase = .open(idleSince: now) }

        /// Records that streams are open, or that none is.
        mutating func record(hasStreams: Bool, _ now: NIODeadline) {
            let idleSince = hasStreams ? nil : now
            switch phase {
            case .handshaking: break
            case .open: phase = .open(idleSince: idleSince)
            case .ending(_, let end): phase = .ending(idleSince: idleSince, end: end)
            }
        }

        /// Records a change of writability.
        mutating func changeWritability(_ isWritable: Bool, _ now: NIODeadline) {
            stallEnd = isWritable ? nil : now + timeouts.write
        }

        var isEnding: Bool { if case .ending = phase { true } else { false } }

        mutating func quiesce(_ now: NIODeadline) -> Action {
            switch phase {
            case .handshaking: return .close
            case .open(let idleSince):
                phase = .ending(idleSince: idleSince == nil ? nil : now, end: now + timeouts.shutdown)
                return .goAway
            case .ending: return .none
            }
        }

        mutating func tick(_ now: NIODeadline) -> Action {
            if let stallEnd, stallEnd <= now { return .closeSlow }
            switch phase {
            case .handshaking(let end): return end <= now ? .closeSlow : .none
            case .open(let idleSince):
                guard let idleSince else { return .none }
                if idleSince + timeouts.silence <= now { return .closeSlow }
                return idleSince + timeouts.idle <= now ? quiesce(now) : .none
            case .ending(let idleSince, let end):
                let isSilent = idleSince.map { $0 + Self.answerTime <= now } ?? false
                return isSilent || end <= now ? .close : .none
            }
        }
    }

    private let door: ListenerContext
    private var state: State
    private var context: ChannelHandlerContext?
    private var streams: [ObjectIdentifier: ConnectionHandler] = [:]

    init(_ door: ListenerContext) {
        self.door = door
        state = State(door.timeouts, now: NIODeadline.now())
    }

    func handlerAdded(context: ChannelHandlerContext) {
        self.context = context
        door.parts(of: context.eventLoop).ticker.add(self)
    }

    func handlerRemoved(context: ChannelHandlerContext) { end(context) }

    func channelInactive(context: ChannelHandlerContext) {
        end(context)
        context.fireChannelInactive()
    }

    private func end(_ context: ChannelHandlerContext) {
        door.parts(of: context.eventLoop).ticker.remove(self)
        self.context = nil
        streams = [:]
    }

    /// Removes this handler: an HTTP/1 connection has a ``ConnectionHandler`` of its own.
    func becomeHTTP1() { context?.pipeline.syncOperations.removeHandler(self, promise: nil) }

    func becomeHTTP2() { state.open(NIODeadline.now()) }

    /// Registers the handler of a new stream.
    func add(_ handler: ConnectionHandler, on stream: any Channel) {
        let id = ObjectIdentifier(handler)
        streams[id] = handler
        state.record(hasStreams: true, NIODeadline.now())
        let bound = NIOLoopBound(self, eventLoop: stream.eventLoop)
        stream.closeFuture.whenComplete { _ in bound.value.remove(id) }
        // The client opened the stream before it received GOAWAY.
        if state.isEnding { handler.quiesce() }
    }

    private func remove(_ id: ObjectIdentifier) {
        guard streams.removeValue(forKey: id) != nil, streams.isEmpty else { return }
        state.record(hasStreams: false, NIODeadline.now())
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        switch event {
        case is ChannelShouldQuiesceEvent:
            perform(state.quiesce(NIODeadline.now()))
            for stream in streams.values { stream.quiesce() }
        // HTTP/2 does not support half-closed connections.
        case ChannelEvent.inputClosed: context.close(promise: nil)
        default: context.fireUserInboundEventTriggered(event)
        }
    }

    func channelWritabilityChanged(context: ChannelHandlerContext) {
        state.changeWritability(context.channel.isWritable, NIODeadline.now())
        context.fireChannelWritabilityChanged()
    }

    func tick(_ now: NIODeadline) { perform(state.tick(now)) }

    private func perform(_ action: State.Action) {
        guard let context else { return }
        switch action {
        case .none: break
        case .close, .closeSlow:
            if action == .closeSlow { door.admission.count(.slow) }
            end(context)
            context.close(promise: nil)
        // NIO's connection management handler, next in the pipeline, sends GOAWAY.
        case .goAway: context.fireUserInboundEventTriggered(ChannelShouldQuiesceEvent())
        }
    }
}
