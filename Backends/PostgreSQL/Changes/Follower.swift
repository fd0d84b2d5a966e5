#if PostgreSQL
import SyncCore
import Synchronization

/// Follows the changes of all processes on a thread and a connection of its own: numbers pending changes, signals
/// subscribers, and removes superseded changes in small steps.
///
/// It asks the server every 50 ms while something changes, and less often when nothing has changed for a while or when
/// there are no subscribers.
final class Follower: Sendable {
    private struct State {
        var pipe: WakePipe?
        var isClosed = false
        /// True if a write of this process has made the pause shorter.
        var isAwake = false
    }

    private static let shortPause = Duration.milliseconds(50)
    private static let longPause = Duration.milliseconds(250)
    /// Without subscribers.
    private static let lonePause = Duration.seconds(1)
    /// The time without a change after which the pause is long.
    private static let calm = Duration.seconds(5)
    /// The number of changes that are swept in one step.
    private static let sweepCount: Int64 = 1_000

    private let state = Mutex(State())
    private let connector: Connector
    private let hub: SignalHub

    init(_ connector: Connector, hub: SignalHub) { (self.connector, self.hub) = (connector, hub) }

    /// Starts the thread unless it runs.
    func start() {
        state.withLock { state in
            guard state.pipe == nil, !state.isClosed, let pipe = try? WakePipe() else { return }
            // Without a thread there are no signals; the next call tries again.
            guard (try? startThread { self.run(pipe) }) != nil else { return }
            state.pipe = pipe
        }
    }

    /// Ends the thread.
    func close() {
        let pipe = state.withLock { state in
            state.isClosed = true
            return state.pipe
        }
        pipe?.wake()
    }

    /// Ends a long pause.
    func wake() {
        let pipe = state.withLock { state -> WakePipe? in
            guard !state.isAwake else { return nil }
            state.isAwake = true
            return state.pipe
        }
        pipe?.wake()
    }

    private func run(_ pipe: WakePipe) {
        let session = Session(connector, wake: pipe)
        let clock = ContinuousClock()
        var (changed, swept) = (clock.now, clock.now)
        // Nothing is known before the first look, and after a failure.
        var latest: ChangeCursor??
        while !state.withLock({ $0.isClosed }) {
            switch look(through: session) {
            case .success(let cursor):
                if latest != .some(cursor) {
                    changed = clock.now
                    hub.signal()
                }
                connector.remember(cursor)
                latest = .some(cursor)
            case .failure: latest = nil
            }
            let step = connector.configuration.retention / 144
            if swept.duration(to: clock.now) > min(step, .seconds(60)) {
                if !sweep(through: session) { swept = clock.now }
            }
            let isCalm = changed.duration(to: clock.now) > Self.calm
            state.withLock { $0.isAwake = !isCalm }
            session.rest(
                for: isCalm ? (hub.subscriberCount == 0 ? Self.lonePause : Self.longPause) : Self.shortPause)
            if state.withLock({ $0.isAwake }), isCalm { changed = clock.now }
        }
    }

    /// Numbers pending changes, and returns the latest change.
    private func look(through session: Session) -> Result<ChangeCursor?, BackendError> {
        do throws(BackendError) {
            let replies = try session.perform([[Statement(.sequence)], [Statement(.latest)]])
            for case .failure(let failure) in replies {
                throw BackendError(failure, label: session.label, isWrite: false)
            }
            guard case .success(let rows) = replies.last, let latest = rows.first else { return .success(nil) }
            return .success(ChangeQueries.cursor(in: latest, 0))
        } catch {
            return .failure(error)
        }
    }

    /// Removes some superseded changes. Returns `true` if there may be more.
    private func sweep(through session: Session) -> Bool {
        let retention = connector.configuration.retention.components.seconds
        let replies = try? session.perform([
            [Statement(.mark, .integer(max(1, retention / 144)))],
            [Statement(.sweep, .integer(retention), .integer(Self.sweepCount))],
        ])
        guard case .success(let rows) = replies?.last, let swept = rows.first, swept.count == 1 else { return false }
        return swept.integer(0, 0) >= Self.sweepCount
    }
}
#endif
