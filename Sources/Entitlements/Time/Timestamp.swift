/// An instant in UTC with millisecond precision, in the years 1 to 9999.
///
/// Arithmetic saturates at ``earliest`` and ``latest``, so a sum of paid durations cannot overflow.
public struct Timestamp: Hashable, Comparable, Sendable {
    /// The number of milliseconds since 1970-01-01T00:00:00Z, without leap seconds.
    public let milliseconds: Int64

    /// The earliest instant, 0001-01-01T00:00:00.000Z.
    public static let earliest = Timestamp(unchecked: -62_135_596_800_000)
    /// The latest instant, 9999-12-31T23:59:59.999Z. As the end of a period it means that the period never ends.
    public static let latest = Timestamp(unchecked: 253_402_300_799_999)

    /// Creates the instant `milliseconds` after 1970-01-01T00:00:00Z, or the nearest instant in range.
    public init(milliseconds: Int64) {
        self = Timestamp(
            unchecked: min(max(milliseconds, Self.earliest.milliseconds), Self.latest.milliseconds))
    }

    private init(unchecked milliseconds: Int64) {
        self.milliseconds = milliseconds
    }

    /// Returns `true` if `left` is before `right`.
    public static func < (left: Timestamp, right: Timestamp) -> Bool {
        left.milliseconds < right.milliseconds
    }
}

extension Timestamp {
    static let millisecondsPerDay: Int64 = 86_400_000

    /// Returns the instant `duration` later. Months are added first, then days and seconds.
    ///
    /// Months follow the proleptic Gregorian calendar in UTC and keep the time of day. A day that does not exist
    /// becomes 00:00 of the following day: 31 January + 1 month is 1 March 00:00. Clamping to the end of February, as
    /// most calendar libraries do, is not monotonic: a later start or more paid months could end sooner.
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

    /// The instant as the end of a period; `nil` if it never ends.
    package var asEnd: Timestamp? { self == .latest ? nil : self }

    /// Returns the number of whole days from this instant to `end`, rounded up; 0 if `end` is not later.
    ///
    /// Rounding down would tell a buyer on the last day that no time is left.
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
