/// How often and after which pauses a failed request is tried again.
///
/// Pauses follow exponential backoff with full jitter: before the second attempt a random time up to `firstDelay`,
/// then up to twice that, and so on, so that many clients that failed together do not come back together.
///
/// ```swift
/// let patient = RetryPolicy(maximumAttempts: 8, maximumTotalDelay: .seconds(120))
/// ```
public struct RetryPolicy: Hashable, Sendable {
    /// How often a request is sent at most, the first time included; 1 or more.
    public var maximumAttempts: Int
    /// The upper bound of the first pause.
    public var firstDelay: Duration
    /// No single pause is longer, unless a store asks for it (``BackendError/retryAfter``).
    public var maximumDelay: Duration
    /// All pauses of one call together are no longer; a pause that would be is not begun.
    public var maximumTotalDelay: Duration

    /// A policy; by default four attempts, pauses of up to 0.1, 0.2 and 0.4 seconds.
    ///
    /// - Parameters:
    ///   - maximumAttempts: 1 or more; 1 never tries again.
    ///   - firstDelay: not negative.
    ///   - maximumDelay: not negative.
    ///   - maximumTotalDelay: not negative.
    public init(
        maximumAttempts: Int = 4, firstDelay: Duration = .milliseconds(100), maximumDelay: Duration = .seconds(5),
        maximumTotalDelay: Duration = .seconds(30)
    ) {
        precondition(maximumAttempts >= 1, "a request is sent once or more")
        precondition(
            firstDelay >= .zero && maximumDelay >= .zero && maximumTotalDelay >= .zero, "a pause is not negative")
        self.maximumAttempts = maximumAttempts
        self.firstDelay = firstDelay
        self.maximumDelay = maximumDelay
        self.maximumTotalDelay = maximumTotalDelay
    }

    /// The pause after so many failed attempts, or `nil` to give up.
    ///
    /// - Parameters:
    ///   - failedAttempts: 1 or more.
    ///   - waited: the sum of the pauses of this call so far.
    ///   - generator: where the randomness of the pause comes from.
    public func delay(
        afterFailedAttempts failedAttempts: Int, waited: Duration, using generator: inout some RandomNumberGenerator
    ) -> Duration? {
        guard failedAttempts < maximumAttempts else { return nil }
        // 2 to the 40th of any useful first delay is beyond every maximum; the bound keeps the shift from overflowing.
        let doublings = min(failedAttempts - 1, 40)
        let ceiling = min(maximumDelay, firstDelay * Double(UInt64(1) << UInt64(doublings)))
        let delay = ceiling * Double.random(in: 0...1, using: &generator)
        return waited + delay <= maximumTotalDelay ? delay : nil
    }
}
