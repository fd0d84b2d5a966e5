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
            now: { 0 },
            timer: TestTimer(
                elapsed: { self.elapsed },
                pause: { deadline in
                    try Task.checkCancellation()
                    self.pause(deadline - self.elapsed)
                    await Task.yield()
                }),
            randomBits: { self.state.withLock { $0.generator.next() } })
    }

    private var elapsed: Duration { state.withLock { $0.elapsed } }

    private func pause(_ duration: Duration) {
        state.withLock { state in
            state.elapsed += duration
            state.pauses.append(duration)
        }
    }
}
