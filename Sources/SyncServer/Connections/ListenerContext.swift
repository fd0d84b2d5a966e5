import NIOCore
import Synchronization

/// The objects that the connections of a listener share.
final class ListenerContext: Sendable {
    let responder: Responder
    /// `nil` for plain HTTP.
    let tls: TLSContext?
    let limits: ListenerConfiguration
    let timeouts: ConnectionState.Timeouts
    let tasks = RequestTasks()
    let connections = OpenConnections()
    private let loops = Mutex<[ObjectIdentifier: NIOLoopBound<Loop>]>([:])

    var admission: Admission { responder.admission }

    /// The objects of one event loop.
    final class Loop {
        let ticker: Ticker
        let executor: LoopExecutor

        init(_ loop: any EventLoop) { (ticker, executor) = (Ticker(loop), LoopExecutor(loop)) }
    }

    init(_ responder: Responder, tls: TLSContext? = nil) {
        (self.responder, self.tls, limits) = (responder, tls, responder.limits)
        timeouts = ConnectionState.Timeouts(responder.limits)
    }

    /// The objects of `loop`. Must be called on `loop`.
    func parts(of loop: any EventLoop) -> Loop {
        loops.withLock { loops in
            if let known = loops[ObjectIdentifier(loop)] { return known }
            let made = NIOLoopBound(Loop(loop), eventLoop: loop)
            loops[ObjectIdentifier(loop)] = made
            return made
        }.value
    }

    /// Waits until no connection is open and no request is in flight.
    func waitForAll() async {
        await connections.waitForAll()
        await tasks.waitForAll()
    }

    /// Cancels all requests and closes all connections.
    func endAll() {
        tasks.cancelAll()
        connections.closeAll()
    }
}

/// The context of new connections, and those of former connections that have not ended.
final class ListenerContexts: Sendable {
    private let state: Mutex<(current: ListenerContext, former: [ListenerContext])>

    init(_ context: ListenerContext) { state = Mutex((context, [])) }

    var current: ListenerContext { state.withLock { $0.current } }

    var all: [ListenerContext] { state.withLock { $0.former + [$0.current] } }

    /// Uses `context` for new connections. Returns the context that they had so far.
    func replace(by context: ListenerContext) -> ListenerContext {
        state.withLock { state in
            let former = state.current
            state.former.append(former)
            state.current = context
            return former
        }
    }

    /// Forgets a former context.
    func remove(_ context: ListenerContext) {
        state.withLock { state in state.former.removeAll { $0 === context } }
    }
}
