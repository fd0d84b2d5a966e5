/// An instant in UTC, in whole milliseconds, between the years 1 and 9999.
///
/// Arithmetic saturates at ``earliest`` and ``latest`` instead of overflowing, so that no sum of paid durations can
/// trap or turn negative.
public struct Timestamp: Hashable, Comparable, Sendable {
    /// Milliseconds since 1970-01-01T00:00:00Z, leap seconds not counted.
    public let milliseconds: Int64

    /// 0001-01-01T00:00:00.000Z.
    public static let earliest = Timestamp(unchecked: -62_135_596_800_000)
    /// 9999-12-31T23:59:59.999Z.
    public static let latest = Timestamp(unchecked: 253_402_300_799_999)

    /// The instant so many milliseconds after 1970-01-01T00:00:00Z, or the nearest one in range.
    public init(milliseconds: Int64) {
        self = Timestamp(
            unchecked: min(max(milliseconds, Self.earliest.milliseconds), Self.latest.milliseconds))
    }

    private init(unchecked milliseconds: Int64) {
        self.milliseconds = milliseconds
    }

    /// Whether `left` is before `right`.
    public static func < (left: Timestamp, right: Timestamp) -> Bool {
        left.milliseconds < right.milliseconds
    }
}

extension Timestamp {
    static let millisecondsPerDay: Int64 = 86_400_000

    /// The instant `duration` later: months first, then days and seconds.
    ///
    /// Months are those of the proleptic Gregorian calendar in UTC and keep the time of day. A day that does not exist
    /// becomes 00:00 of the following day: 31 January + 1 month is 1 March 00:00. Clamping to the end of February, as
    /// calendars do, is not monotone: a later start, or more paid months, could end sooner.
    public func adding(_ duration: CalendarDuration) -> Timestamp {
        let (seconds, secondsOverflow) = duration.seconds.multipliedReportingOverflow(by: 1_000)
        let (days, daysOverflow) = duration.days.multipliedReportingOverflow(by: Self.millisecondsPerDay)
        let (exact, exactOverflow) = days.addingReportingOverflow(seconds)
        guard !secondsOverflow, !daysOverflow, !exactOverflow else { return .latest }
        let (sum, overflow) = addingMonths(duration.months).milliseconds.addingReportingOverflow(exact)
        return overflow ? .latest : Timestamp(milliseconds: sum)
    }

    private func addingMonths(_ months: Int64) -> Timestamp {
        guard months != 0 else { return self }
        let dayNumber = milliseconds.flooredQuotient(by: Self.millisecondsPerDay)
        let timeOfDay = milliseconds - dayNumber * Self.millisecondsPerDay
        let date = CivilDate(daysSince1970: dayNumber)
        let (monthIndex, overflow) = (date.year * 12 + Int64(date.month - 1)).addingReportingOverflow(months)
        guard !overflow, monthIndex < 10_000 * 12 else { return .latest }
        let year = monthIndex.flooredQuotient(by: 12)
        let month = Int(monthIndex - year * 12) + 1
        if date.day <= CivilDate.dayCount(year: year, month: month) {
            let day = CivilDate(year: year, month: month, day: date.day).daysSince1970
            return Timestamp(milliseconds: day * Self.millisecondsPerDay + timeOfDay)
        }
        let lastDay = CivilDate(year: year, month: month, day: CivilDate.dayCount(year: year, month: month))
        return Timestamp(milliseconds: (lastDay.daysSince1970 + 1) * Self.millisecondsPerDay)
    }

    /// Whole days from this instant to `end`, rounded up; 0 when `end` is not later.
    ///
    /// Rounding down, as the tutorials do, tells a payer on the last day that nothing is left.
    public func daysRemaining(until end: Timestamp) -> Int {
        guard end > self else { return 0 }
        return Int((end.milliseconds - milliseconds - 1) / Self.millisecondsPerDay) + 1
    }
}

extension Int64 {
    /// The quotient rounded toward negative infinity.
    func flooredQuotient(by divisor: Int64) -> Int64 {
        let (quotient, remainder) = quotientAndRemainder(dividingBy: divisor)
        return remainder < 0 ? quotient - 1 : quotient
    }
}
