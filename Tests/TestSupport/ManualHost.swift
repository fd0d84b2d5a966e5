public import SyncCore
import SyncCoreTesting
import Synchronization

/// A host with simulated time: sleeps end at once and are recorded, and random numbers come from a seed.
public final class ManualHost: Sendable {
    private struct State {
        var generator: SeededGenerator
        var elapsed = Duration.zero
        var pauses: [Duration] = []
    }

    private let state: Mutex<State>

    /// Creates a host at time 0.
    public init(seed: UInt64) {
        state = Mutex(State(generator: SeededGenerator(seed: seed)))
    }

    /// The durations of all sleeps so far.
    public var pauses: [Duration] { state.withLock { $0.pauses } }

    /// The host services for the code under test.
    public var host: HostServices {
        HostServices(
            now: { 0 }, timer: ManualClock(host: self),
            randomBits: { self.state.withLock { $0.generator.next() } })
    }

    fileprivate var elapsed: Duration { state.withLock { $0.elapsed } }

    fileprivate func pause(_ duration: Duration) {
        state.withLock { state in
            state.elapsed += duration
            state.pauses.append(duration)
        }
    }
}

private struct ManualClock: Clock {
    struct Instant: InstantProtocol {
        var offset: Duration
        func advanced(by duration: Duration) -> Instant { Instant(offset: offset + duration) }
        func duration(to other: Instant) -> Duration { other.offset - offset }
        static func < (left: Instant, right: Instant) -> Bool { left.offset < right.offset }
    }

    let host: ManualHost
    var now: Instant { Instant(offset: host.elapsed) }
    var minimumResolution: Duration { .zero }

    func sleep(until deadline: Instant, tolerance: Duration?) async throws {
        try Task.checkCancellation()
        host.pause(deadline.offset - host.elapsed)
        await Task.yield()
    }
}
