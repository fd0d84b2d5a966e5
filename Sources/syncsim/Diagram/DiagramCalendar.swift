import Entitlements

/// Formats virtual times: dates in UTC, and durations in their two largest units.
struct DiagramCalendar: Sendable {
    /// The start of the run in milliseconds since 1970 UTC.
    let epoch: Int64

    /// `2026-01-31T12:00:00.000Z`.
    func full(_ at: Int64) -> String { instant(at).description }

    /// `2026-01-31`.
    func date(_ at: Int64) -> String { Self.date(instant(at)) }

    /// `12:00:00.000`.
    func time(_ at: Int64) -> String { String(full(at).dropFirst(11).dropLast()) }

    /// `2026-01-31 12:00`, for end times in the lanes.
    func minute(_ at: Int64) -> String { "\(date(at)) \(time(at).prefix(5))" }

    /// The date of an instant in milliseconds since 1970 UTC.
    static func date(since1970 milliseconds: Int64) -> String { date(Timestamp(milliseconds: milliseconds)) }

    private static func date(_ instant: Timestamp) -> String { String(instant.description.prefix(10)) }

    private func instant(_ at: Int64) -> Timestamp {
        let (sum, overflow) = epoch.addingReportingOverflow(at)
        return overflow ? (at < 0 ? .earliest : .latest) : Timestamp(milliseconds: sum)
    }

    /// `12 days 3 h`, `5 min 10 s`, `340 ms`: the largest unit and the next smaller one, truncated.
    static func length(_ milliseconds: Int64, day: String = "day", days: String = "days") -> String {
        let total = milliseconds.magnitude
        let units: [(size: UInt64, name: String)] = [
            (86_400_000, day), (3_600_000, "h"), (60_000, "min"), (1_000, "s"),
        ]
        guard let first = units.firstIndex(where: { total >= $0.size }) else { return "\(total) ms" }
        let count = total / units[first].size
        let name = first == 0 && count != 1 ? days : units[first].name
        let rest = total % units[first].size
        guard first + 1 < units.count, rest / units[first + 1].size > 0 else { return "\(count) \(name)" }
        return "\(count) \(name) \(rest / units[first + 1].size) \(units[first + 1].name)"
    }

    /// `+1 d`, `−2 h 5 min`.
    static func shift(_ milliseconds: Int64) -> String {
        (milliseconds < 0 ? "\u{2212}" : "+") + length(milliseconds, day: "d", days: "d")
    }

    /// The time from one instant to another, clamped to the range of `Int64`.
    static func difference(from start: Int64, to end: Int64) -> Int64 {
        let (difference, overflow) = end.subtractingReportingOverflow(start)
        return overflow ? (end > start ? .max : .min) : difference
    }
}
