/// A clock whose sleeps end only by cancellation, and which signals when the first sleep starts.
public struct EndlessClock: Clock {
    /// The instants of the machine's own clock.
    public typealias Instant = ContinuousClock.Instant

    /// Yields once when the first sleep starts, and ends.
    public let pauses: AsyncStream<Void>
    private let begun: AsyncStream<Void>.Continuation

    /// Creates a clock.
    public init() { (pauses, begun) = AsyncStream.makeStream() }

    /// The time of the machine's own clock.
    public var now: Instant { ContinuousClock.now }
    /// The finest possible resolution.
    public var minimumResolution: Duration { .zero }

    /// Waits until the task is cancelled.
    public func sleep(until deadline: Instant, tolerance: Duration?) async throws {
        begun.yield()
        begun.finish()
        let (stream, continuation) = AsyncStream.makeStream(of: Void.self)
        for await _ in stream {}
        withExtendedLifetime(continuation) {}
        try Task.checkCancellation()
    }
}
