public import SyncCore
import SyncCoreTesting
import Synchronization

/// Host services with a clock that moves only when a test moves it, and with seeded randomness.
public final class TestHost: Sendable {
    /// The behaviour of pauses.
    public enum Pauses: Sendable {
        /// A pause ends immediately. It moves the timer, and not the wall clock.
        case endAtOnce
        /// A pause ends when a test has advanced the clock far enough, or when its task is cancelled.
        case endWhenAdvanced
    }

    private struct State {
        var now: Int64
        var elapsed = Duration.zero
        var generator: SeededGenerator
        var sleepers: [UInt64: (deadline: Duration, continuation: CheckedContinuation<Void, Never>)] = [:]
        var lastSleeper: UInt64 = 0
    }

    private let state: Mutex<State>
    private let mode: Pauses
    /// The length of each pause, sent when the pause begins.
    public let pauses: AsyncStream<Duration>
    private let begun: AsyncStream<Duration>.Continuation

    /// Creates a host whose wall clock shows `start`, in milliseconds since 1970 UTC.
    public init(at start: Int64, seed: UInt64 = 1, pauses mode: Pauses = .endAtOnce) {
        state = Mutex(State(now: start, generator: SeededGenerator(seed: seed)))
        self.mode = mode
        (pauses, begun) = AsyncStream.makeStream()
    }

    /// The host services for the code under test.
    public var host: HostServices {
        HostServices(
            now: { self.state.withLock { $0.now } },
            timer: TestTimer(elapsed: { self.elapsed }, pause: { try await self.pause(until: $0) }),
            randomBits: { self.state.withLock { $0.generator.next() } })
    }

    /// The wall clock, in milliseconds since 1970 UTC.
    public var milliseconds: Int64 { state.withLock { $0.now } }

    /// The time that is left of each pause.
    public var pending: [Duration] {
        state.withLock { state in state.sleepers.values.map { $0.deadline - state.elapsed } }
    }

    /// Sets the wall clock, forward or back, without moving the timer.
    public func set(_ milliseconds: Int64) { state.withLock { $0.now = milliseconds } }

    /// Advances the wall clock and the timer, and ends the pauses that are due.
    public func advance(by duration: Duration) {
        let due = state.withLock { state in
            state.elapsed += duration
            state.now += duration.components.seconds * 1_000 + duration.components.attoseconds / 1_000_000_000_000_000
            let due = state.sleepers.filter { $0.value.deadline <= state.elapsed }
            for id in due.keys { state.sleepers[id] = nil }
            return due
        }
        for id in due.keys.sorted() { due[id]?.continuation.resume() }
    }

    private var elapsed: Duration { state.withLock { $0.elapsed } }

    private func pause(until deadline: Duration) async throws {
        try Task.checkCancellation()
        guard mode == .endWhenAdvanced else {
            state.withLock { $0.elapsed = max($0.elapsed, deadline) }
            return await Task.yield()
        }
        let id = state.withLock { state in
            state.lastSleeper += 1
            return state.lastSleeper
        }
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let left = state.withLock { state -> Duration? in
                    guard !Task.isCancelled, deadline > state.elapsed else { return nil }
                    state.sleepers[id] = (deadline, continuation)
                    return deadline - state.elapsed
                }
                if let left { begun.yield(left) } else { continuation.resume() }
            }
        } onCancel: {
            state.withLock { $0.sleepers.removeValue(forKey: id) }?.continuation.resume()
        }
        try Task.checkCancellation()
    }
}
