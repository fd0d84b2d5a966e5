/// The length of paid time in the test environments `sandbox` and `xcode`.
///
/// The choice takes effect in replay. The terms in the ledger stay as sold, and other environments are not affected.
public enum SandboxTime: String, Hashable, Sendable, CaseIterable {
    /// Durations are as long as in production. The default.
    case asSold
    /// Durations follow the renewal rates of Apple's sandbox: a week lasts 3 minutes, a month 5 minutes and a year an
    /// hour.
    ///
    /// They apply to non-renewing products, to bonuses, and to auto-renewable products whose end the store does not
    /// state.
    case accelerated
}

extension Policy {
    /// Returns `true` if time is accelerated in `environment`.
    package func accelerates(_ environment: EnvironmentID) -> Bool {
        sandboxTime == .accelerated && (environment == .sandbox || environment == .xcode)
    }

    /// Returns the time that `duration` counts in `environment`.
    package func counted(_ duration: CalendarDuration, in environment: EnvironmentID) -> CalendarDuration {
        accelerates(environment) ? duration.accelerated : duration
    }
}

extension CalendarDuration {
    /// The duration in accelerated time, rounded up to seconds.
    ///
    /// Apple's table has a week, and 1, 2, 3, 6 and 12 months at 5 minutes each. A month counts as 30 days here.
    /// Between a week and a month the time grows evenly, and below a week and above a month in proportion. So a longer
    /// duration never ends earlier.
    fileprivate var accelerated: CalendarDuration {
        // Durations out of bounds are set aside later, and `forever` is not accelerated.
        guard isWithinBounds else { return self }
        let day: Int64 = 86_400
        let (week, month) = (7 * day, 30 * day)
        let sold = (months * 30 + days) * day + seconds
        func part(_ time: Int64, _ rate: (seconds: Int64, of: Int64)) -> Int64 {
            (time * rate.seconds + rate.of - 1) / rate.of
        }
        return CalendarDuration(
            seconds: sold <= week
                ? part(sold, (180, week))
                : sold <= month ? 180 + part(sold - week, (120, month - week)) : part(sold, (300, month)))
    }
}
