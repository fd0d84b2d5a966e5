/// A timer for host services whose time and pauses a test provides.
package struct TestTimer: Clock {
    /// A time since the start of the test.
    package struct Instant: InstantProtocol {
        let offset: Duration
        package func advanced(by duration: Duration) -> Instant { Instant(offset: offset + duration) }
        package func duration(to other: Instant) -> Duration { other.offset - offset }
        package static func < (left: Instant, right: Instant) -> Bool { left.offset < right.offset }
    }

    private let elapsed: @Sendable () -> Duration
    private let pause: @Sendable (_ deadline: Duration) async throws -> Void

    /// Creates a timer.
    ///
    /// - Parameters:
    ///   - elapsed: The time since the start of the test.
    ///   - pause: Returns at `deadline`, a time since the start of the test; throws if its task is cancelled.
    package init(
        elapsed: @escaping @Sendable () -> Duration,
        pause: @escaping @Sendable (_ deadline: Duration) async throws -> Void
    ) {
        (self.elapsed, self.pause) = (elapsed, pause)
    }

    package var now: Instant { Instant(offset: elapsed()) }
    package var minimumResolution: Duration { .zero }

    package func sleep(until deadline: Instant, tolerance: Duration?) async throws { try await pause(deadline.offset) }
}
