/// The virtual time of a run. It stands still while anything is ready to run, then jumps to the next moment that
/// somebody waits for.
public struct SimulationClock: Clock {
    /// Time since the beginning of the run.
    public struct Instant: InstantProtocol {
        /// The time since the beginning of the run.
        public var sinceBeginning: Duration

        /// The instant `duration` later.
        public func advanced(by duration: Duration) -> Instant { Instant(sinceBeginning: sinceBeginning + duration) }
        /// How long it is from here to `other`.
        public func duration(to other: Instant) -> Duration { other.sinceBeginning - sinceBeginning }
        /// Whether `left` is earlier.
        public static func < (left: Instant, right: Instant) -> Bool { left.sinceBeginning < right.sinceBeginning }
    }

    let scheduler: Scheduler

    /// The virtual time now.
    public var now: Instant { Instant(sinceBeginning: .microseconds(scheduler.now)) }
    /// Virtual time has a grain of a microsecond.
    public var minimumResolution: Duration { .microseconds(1) }

    /// Returns when virtual time has come to `deadline`, or throws when the task is cancelled.
    public func sleep(until deadline: Instant, tolerance: Duration?) async throws {
        try await scheduler.sleep(until: deadline.sinceBeginning.wholeMicroseconds)
    }
}

extension Duration {
    /// Microseconds, rounded up; what is longer than 10,000 years is cut.
    var wholeMicroseconds: Int64 {
        let (seconds, attoseconds) = components
        guard seconds < 315_576_000_000 else { return 315_576_000_000_000_000 }
        return seconds * 1_000_000 + (attoseconds + 999_999_999_999) / 1_000_000_000_000
    }
}
