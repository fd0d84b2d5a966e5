/// The virtual time of a run. It stands still while any job is ready to run, then jumps to the next timer.
package struct SimulationClock: Clock {
    /// An instant, as the time since the start of the run.
    package struct Instant: InstantProtocol {
        /// The time since the start of the run.
        package var sinceBeginning: Duration

        /// The instant `duration` later.
        package func advanced(by duration: Duration) -> Instant { Instant(sinceBeginning: sinceBeginning + duration) }
        /// The time from this instant to `other`.
        package func duration(to other: Instant) -> Duration { other.sinceBeginning - sinceBeginning }
        /// Returns `true` if `left` is earlier.
        package static func < (left: Instant, right: Instant) -> Bool { left.sinceBeginning < right.sinceBeginning }
    }

    let scheduler: Scheduler

    package init(scheduler: Scheduler) { self.scheduler = scheduler }

    /// The virtual time now.
    package var now: Instant { Instant(sinceBeginning: .microseconds(scheduler.now)) }
    /// Virtual time has a resolution of one microsecond.
    package var minimumResolution: Duration { .microseconds(1) }

    /// Sleeps until virtual time reaches `deadline`. Throws if the task is cancelled.
    package func sleep(until deadline: Instant, tolerance: Duration?) async throws {
        try await scheduler.sleep(until: deadline.sinceBeginning.wholeMicroseconds)
    }
}

extension Duration {
    /// Microseconds, rounded up and capped at 10,000 years.
    package var wholeMicroseconds: Int64 {
        let (seconds, attoseconds) = components
        guard seconds < 315_576_000_000 else { return 315_576_000_000_000_000 }
        return seconds * 1_000_000 + (attoseconds + 999_999_999_999) / 1_000_000_000_000
    }
}
