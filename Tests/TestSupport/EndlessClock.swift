/// A clock on which a pause ends by cancellation only, and that tells when the first has begun.
public struct EndlessClock: Clock {
    /// As on the machine's own clock.
    public typealias Instant = ContinuousClock.Instant

    /// Yields once, when the first pause has begun, and ends.
    public let pauses: AsyncStream<Void>
    private let begun: AsyncStream<Void>.Continuation

    /// A clock on which nobody has paused yet.
    public init() { (pauses, begun) = AsyncStream.makeStream() }

    /// The machine's time.
    public var now: Instant { ContinuousClock.now }
    /// As fine as can be.
    public var minimumResolution: Duration { .zero }

    /// Waits for cancellation.
    public func sleep(until deadline: Instant, tolerance: Duration?) async throws {
        begun.yield()
        begun.finish()
        let (stream, continuation) = AsyncStream.makeStream(of: Void.self)
        for await _ in stream {}
        withExtendedLifetime(continuation) {}
        try Task.checkCancellation()
    }
}
