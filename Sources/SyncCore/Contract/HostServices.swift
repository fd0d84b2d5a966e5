/// The wall clock, timer and randomness of the machine, which tests and simulations replace.
///
/// The libraries take these from here only and never ask the system directly.
public struct HostServices: Sendable {
    /// The wall clock, in milliseconds since 1970 UTC. It may jump in both directions.
    public var now: @Sendable () -> Int64
    /// The clock for waiting. It is never used as a date.
    public var timer: any Clock<Duration>
    /// Returns 64 random bits.
    public var randomBits: @Sendable () -> UInt64

    /// Creates a host from the given parts.
    public init(
        now: @escaping @Sendable () -> Int64, timer: any Clock<Duration>,
        randomBits: @escaping @Sendable () -> UInt64
    ) {
        self.now = now
        self.timer = timer
        self.randomBits = randomBits
    }

    /// A random number generator that draws from ``randomBits``.
    public var generator: HostRandomness { HostRandomness(host: self) }

    /// Waits for `duration`.
    ///
    /// - Throws: `CancellationError` if the task is cancelled.
    public func sleep(for duration: Duration) async throws {
        try await timer.sleep(for: duration)
    }
}

/// A random number generator that draws from a host.
public struct HostRandomness: RandomNumberGenerator, Sendable {
    let host: HostServices

    /// Returns the next 64 random bits.
    public mutating func next() -> UInt64 { host.randomBits() }
}
