/// The pauses between attempts to reach a remote that does not answer.
///
/// In the first minute of an outage pauses double from 1 s to 5 s, so that a device is current soon after a short
/// outage. Then they double up to ``longest``. Each is shortened at random by up to half, so that devices that lost
/// their server together do not return together.
package struct OutagePauses: Sendable {
    /// The upper bound of a pause, unless the remote asks for a longer one.
    package var longest: Duration
    /// The number of pauses since the last success.
    package private(set) var count = 0
    /// The sum of the pauses since the last success.
    private var waited = Duration.zero
    private var ceiling = Duration.seconds(1)

    /// - Parameter longest: The upper bound of a pause; more than zero.
    package init(longest: Duration) { self.longest = longest }

    /// Starts again with the shortest pause, after a success.
    package mutating func reset() { self = OutagePauses(longest: longest) }

    /// Returns the next pause.
    ///
    /// - Parameters:
    ///   - asked: The time that the remote has asked for; it is added in full, up to one day.
    ///   - first: The upper bound of the first pause, if the remote has named one.
    ///   - generator: The source of randomness.
    package mutating func next(
        asked: Duration? = nil, first: Duration? = nil, using generator: inout some RandomNumberGenerator
    ) -> Duration {
        if count == 0, let first { ceiling = first }
        let pause = min(ceiling, longest) * Double.random(in: 0.5...1, using: &generator)
        count += 1
        waited += pause
        let limit = waited < .seconds(60) ? .seconds(5) : longest
        ceiling = max(min(ceiling * 2, limit), min(ceiling, longest))
        return pause + min(max(asked ?? .zero, .zero), .seconds(86_400))
    }
}

extension HostServices {
    /// Returns a function that returns the time since now by ``timer``.
    package func stopwatch() -> @Sendable () -> Duration {
        func start(_ clock: some Clock<Duration>) -> @Sendable () -> Duration {
            let start = clock.now
            return { start.duration(to: clock.now) }
        }
        return start(timer)
    }
}
