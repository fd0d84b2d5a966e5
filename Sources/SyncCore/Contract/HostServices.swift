/// What the machine supplies and a test or a simulation replaces: the wall clock, a timer and randomness.
///
/// Nothing in the libraries asks the system for these by itself.
public struct HostServices: Sendable {
    /// The wall clock: milliseconds since 1970 UTC. It may jump in both directions.
    public var now: @Sendable () -> Int64
    /// Measures waiting; never a date.
    public var timer: any Clock<Duration>
    /// 64 random bits a call.
    public var randomBits: @Sendable () -> UInt64

    /// A host of the given parts.
    public init(
        now: @escaping @Sendable () -> Int64, timer: any Clock<Duration>,
        randomBits: @escaping @Sendable () -> UInt64
    ) {
        self.now = now
        self.timer = timer
        self.randomBits = randomBits
    }

    /// A generator that draws from ``randomBits``.
    public var generator: HostRandomness { HostRandomness(host: self) }

    /// Waits, or throws when the task is cancelled.
    public func sleep(for duration: Duration) async throws {
        try await timer.sleep(for: duration)
    }
}

/// Random numbers from a host.
public struct HostRandomness: RandomNumberGenerator, Sendable {
    let host: HostServices

    /// The next 64 random bits.
    public mutating func next() -> UInt64 { host.randomBits() }
}
