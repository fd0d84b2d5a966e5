/// A timer for host services whose time and pauses a test provides.
public struct TestTimer: Clock {
    /// A time since the start of the test.
    public struct Instant: InstantProtocol {
        let offset: Duration
        public func advanced(by duration: Duration) -> Instant { Instant(offset: offset + duration) }
        public func duration(to other: Instant) -> Duration { other.offset - offset }
        public static func < (left: Instant, right: Instant) -> Bool { left.offset < right.offset }
    }

    private let elapsed: @Sendable () -> Duration
    private let pause: @Sendable (_ deadline: Duration) async throws -> Void

    /// Creates a timer.
    ///
    /// - Parameters:
    ///   - elapsed: The time since the start of the test.
    ///   - pause: Returns at `deadline`, a time since the start of the test; throws if its task is cancelled.
    public init(
        elapsed: @escaping @Sendable () -> Duration,
        pause: @escaping @Sendable (_ deadline: Duration) async throws -> Void
    ) {
        (self.elapsed, self.pause) = (elapsed, pause)
    }

    public var now: Instant { Instant(offset: elapsed()) }
    public var minimumResolution: Duration { .zero }

    public func sleep(until deadline: Instant, tolerance: Duration?) async throws { try await pause(deadline.offset) }
}
