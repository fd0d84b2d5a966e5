#if PostgreSQL
import SyncCore
import Synchronization

/// Asks each host of a store at short intervals, on a thread and a connection of its own, so that the store leaves a
/// server that does not answer, or that another one has replaced.
///
/// Neither shows on the other connections: a stopped server keeps them open, and so does a former primary that the
/// others have left.
final class HostWatch: Sendable {
    private static let pause = Duration.milliseconds(300)

    private struct State {
        var pipes: [WakePipe] = []
        var isStarted = false
        var isClosed = false
    }

    private let state = Mutex(State())
    private let connector: Connector

    init(_ connector: Connector) { self.connector = connector }

    /// Starts the threads unless they run.
    func start() {
        let pipes = state.withLock { state -> [WakePipe] in
            guard !state.isStarted, !state.isClosed else { return [] }
            state.isStarted = true
            state.pipes = connector.configuration.hosts.compactMap { _ in try? WakePipe() }
            return state.pipes
        }
        for (number, pipe) in pipes.enumerated() { try? startThread { self.run(number, pipe) } }
    }

    /// Ends the threads.
    func close() {
        let pipes = state.withLock { state in
            state.isClosed = true
            return state.pipes
        }
        for pipe in pipes { pipe.wake() }
    }

    private func run(_ number: Int, _ pipe: WakePipe) {
        var connection: Connection?
        while !state.withLock({ $0.isClosed }) {
            connection = connector.ask(host: number, over: connection)
            pipe.rest(for: Self.pause)
        }
    }
}
#endif
