/// The number of attempts for a request, and the pauses between them.
///
/// Pauses follow exponential back-off with full jitter: before the second attempt a random time up to `firstDelay`,
/// before the third up to twice that, and so on. Clients that failed together therefore do not return together.
///
/// ```swift
/// let patient = RetryPolicy(maximumAttempts: 8, maximumTotalDelay: .seconds(120))
/// ```
public struct RetryPolicy: Hashable, Sendable {
    /// The maximum number of attempts, the first one included; 1 or more.
    public var maximumAttempts: Int
    /// The upper bound of the first pause.
    public var firstDelay: Duration
    /// The upper bound of a single pause, unless the store asks for a longer one (``BackendError/retryAfter``).
    public var maximumDelay: Duration
    /// The upper bound of all pauses of one call together. A pause that would exceed it is not started.
    public var maximumTotalDelay: Duration

    /// Creates a policy. The default is four attempts with pauses of up to 0.1, 0.2 and 0.4 seconds.
    ///
    /// - Parameters:
    ///   - maximumAttempts: The maximum number of attempts, 1 or more; 1 disables retries.
    ///   - firstDelay: The upper bound of the first pause, 0 or more.
    ///   - maximumDelay: The upper bound of a single pause, 0 or more.
    ///   - maximumTotalDelay: The upper bound of all pauses together, 0 or more.
    public init(
        maximumAttempts: Int = 4, firstDelay: Duration = .milliseconds(100), maximumDelay: Duration = .seconds(5),
        maximumTotalDelay: Duration = .seconds(30)
    ) {
        precondition(maximumAttempts >= 1, "maximumAttempts must be 1 or more, not \(maximumAttempts)")
        precondition(
            firstDelay >= .zero && maximumDelay >= .zero && maximumTotalDelay >= .zero, "a delay must not be negative")
        self.maximumAttempts = maximumAttempts
        self.firstDelay = firstDelay
        self.maximumDelay = maximumDelay
        self.maximumTotalDelay = maximumTotalDelay
    }

    /// Returns the pause after a number of failed attempts, or `nil` to give up.
    ///
    /// - Parameters:
    ///   - failedAttempts: The number of failed attempts, 1 or more.
    ///   - waited: The sum of the pauses of this call so far.
    ///   - generator: The source of randomness for the pause.
    package func delay(
        afterFailedAttempts failedAttempts: Int, waited: Duration, using generator: inout some RandomNumberGenerator
    ) -> Duration? {
        guard failedAttempts < maximumAttempts else { return nil }
        // 2 to the 40th times any sensible first delay exceeds every maximum; the bound keeps the shift from
        // overflowing.
        let doublings = min(failedAttempts - 1, 40)
        let ceiling = min(maximumDelay, firstDelay * Double(UInt64(1) << UInt64(doublings)))
        let delay = ceiling * Double.random(in: 0...1, using: &generator)
        return waited + delay <= maximumTotalDelay ? delay : nil
    }
}
