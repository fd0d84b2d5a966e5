import NIOCore
import Synchronization

/// Looks after the times of all connections, a few times a second for each event loop, and closes those whose time is
/// over, a few at once.
///
/// These have no timers: NIO looks for one that is cancelled among all of its loop, so that the end of each connection
/// would cost the more the more there are. And thousands that came together are over together: whoever is
/// served by the same loop would wait until all of them are closed.
final class WatchRounds: Sendable {
    private let rounds = Mutex<[ObjectIdentifier: NIOLoopBound<Round>]>([:])

    /// Looks at `watch` from now on. To be called on the event loop of its connection, as ``remove(_:on:)`` is.
    func add(_ watch: ConnectionWatch, on loop: any EventLoop) { round(of: loop).add(watch) }

    /// Does not any more.
    func remove(_ watch: ConnectionWatch, on loop: any EventLoop) { round(of: loop).remove(watch) }

    private func round(of loop: any EventLoop) -> Round {
        rounds.withLock { rounds in
            if let round = rounds[ObjectIdentifier(loop)] { return round }
            let round = NIOLoopBound(Round(loop), eventLoop: loop)
            rounds[ObjectIdentifier(loop)] = round
            return round
        }.value
    }
}

/// The round of one event loop. Stays on it.
private final class Round {
    /// How long it is between two looks; what is over is seen so much later.
    private static let interval: TimeAmount = .milliseconds(250)
    /// How long connections are closed before the loop looks after others, and how long it does that. Less, and what
    /// the ends of connections bring with them would fill it: a loop does everything that is due before it looks
    /// whether something has come.
    private static let (share, pause): (TimeAmount, TimeAmount) = (.milliseconds(1), .milliseconds(4))

    private let loop: any EventLoop
    private var watches: [ObjectIdentifier: ConnectionWatch] = [:]
    private var overdue = CircularBuffer<ConnectionWatch>()
    private var isUnderWay = false
    private var nextLook = NIODeadline.distantPast

    init(_ loop: any EventLoop) { self.loop = loop }

    func add(_ watch: ConnectionWatch) {
        watches[ObjectIdentifier(watch)] = watch
        guard !isUnderWay else { return }
        isUnderWay = true
        goOn(in: Self.interval)
    }

    func remove(_ watch: ConnectionWatch) { watches[ObjectIdentifier(watch)] = nil }

    private func goOn(in time: TimeAmount) {
        let bound = NIOLoopBound(self, eventLoop: loop)
        loop.scheduleTask(in: time) { bound.value.walk() }
    }

    private func walk() {
        let start = NIODeadline.now()
        if nextLook <= start {
            for watch in watches.values where watch.becomesOverdue(at: start) { overdue.append(watch) }
            nextLook = start + Self.interval
        }
        var now = start
        while now - start < Self.share, let watch = overdue.popFirst() {
            watch.closeIfOverdue(at: now)
            now = NIODeadline.now()
        }
        guard !watches.isEmpty || !overdue.isEmpty else {
            isUnderWay = false
            return
        }
        goOn(in: overdue.isEmpty ? Self.interval : Self.pause)
    }
}
