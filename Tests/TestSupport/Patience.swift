public import Testing

/// The patience of tests on a machine that may be busy.
public enum Patience {
    /// The time after which a test gives up a wait for something that must happen. It only guards against hanging, so
    /// it is longer than the slowest machine needs.
    public static let limit = Duration.seconds(300)
    /// ``limit`` in seconds.
    public static let seconds = 300
    /// ``limit`` in milliseconds, for `poll`.
    public static let milliseconds: Int32 = 300_000

    /// A timeout that a test lets pass: 2 seconds, or more if the machine is so busy that an exchange since `start`
    /// took long. Another exchange ends within it.
    public static func timeout(scaledBy start: ContinuousClock.Instant) -> Duration {
        min(max(.seconds(2), (ContinuousClock.now - start) * 20), limit)
    }
}

/// Checks a bound on a time or on a share of the machine, if the machine has no other load (``Soak/checksFigures``).
/// Otherwise the figure is only printed, by the caller.
public func expectFigure(
    _ isKept: Bool, _ comment: Comment? = nil, sourceLocation: SourceLocation = #_sourceLocation
) {
    guard Soak.checksFigures else { return }
    #expect(isKept, comment, sourceLocation: sourceLocation)
}
