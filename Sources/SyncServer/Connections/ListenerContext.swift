import NIOCore
import Synchronization

/// The objects that all connections of a listener share.
final class ListenerContext: Sendable {
    let responder: Responder
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

    init(_ responder: Responder) {
        (self.responder, limits) = (responder, responder.limits)
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
}
