/// A clock whose sleeps end only when their task is cancelled. It signals the start of the first sleep.
public struct EndlessClock: Clock {
    /// The instants of ``ContinuousClock``.
    public typealias Instant = ContinuousClock.Instant

    /// A stream that yields once when the first sleep starts, and then finishes.
    public let pauses: AsyncStream<Void>
    private let startSignal: AsyncStream<Void>.Continuation

    /// Creates a clock.
    public init() { (pauses, startSignal) = AsyncStream.makeStream() }

    /// The current time of ``ContinuousClock``.
    public var now: Instant { ContinuousClock.now }
    /// The finest possible resolution.
    public var minimumResolution: Duration { .zero }

    /// Waits until the task is cancelled.
    public func sleep(until deadline: Instant, tolerance: Duration?) async throws {
        startSignal.yield()
        startSignal.finish()
        let (stream, continuation) = AsyncStream.makeStream(of: Void.self)
        for await _ in stream {}
        withExtendedLifetime(continuation) {}
        try Task.checkCancellation()
    }
}
