/// The Gregorian calendar in UTC. It counts years and months one by one, so that its correctness is evident.
package enum ModelCalendar {
    /// 0001-01-01T00:00:00.000Z. Earlier dates are clamped to it.
    static let earliest: Int64 = -62_135_596_800_000
    /// 9999-12-31T23:59:59.999Z. Later dates and sums are clamped to it.
    static let latest: Int64 = 253_402_300_799_999

    private static let millisecondsPerDay: Int64 = 86_400_000

    static func clamped(_ milliseconds: Int64) -> Int64 { min(max(milliseconds, earliest), latest) }

    /// Adds months to `milliseconds` (since 1970 UTC) at the same time of day, then days and seconds.
    ///
    /// A day that the month does not have becomes 00:00 of the day after the month's last.
    package static func add(months: Int64 = 0, days: Int64 = 0, seconds: Int64 = 0, to milliseconds: Int64) -> Int64 {
        var (year, month, day, timeOfDay) = date(of: milliseconds)
        var rest = months
        while rest >= 12, year <= 9999 { (year, rest) = (year + 1, rest - 12) }
        while rest > 0, year <= 9999 {
            (month, rest) = (month + 1, rest - 1)
            if month == 13 { (year, month) = (year + 1, 1) }
        }
        if year > 9999 { return latest }
        if day > dayCount(of: month, in: year) {
            (day, timeOfDay) = (1, 0)
            // December has all 31 days.
            month += 1
        }
        let start = self.milliseconds(year: year, month: month, day: day) + timeOfDay
        let sum = Int128(start) + Int128(days) * Int128(millisecondsPerDay) + Int128(seconds) * 1_000
        return Int64(min(sum, Int128(latest)))
    }

    static func isLeap(_ year: Int) -> Bool {
        if year % 400 == 0 { return true }
        if year % 100 == 0 { return false }
        return year % 4 == 0
    }

    static func dayCount(of month: Int, in year: Int) -> Int {
        if month == 2 { return isLeap(year) ? 29 : 28 }
        return [4, 6, 9, 11].contains(month) ? 30 : 31
    }

    static func dayCount(of year: Int) -> Int { isLeap(year) ? 366 : 365 }

    /// 00:00 of a day, in milliseconds since 1970 UTC.
    static func milliseconds(year: Int, month: Int, day: Int) -> Int64 {
        var days = day - 1
        var (walkedYear, walkedMonth) = (1970, 1)
        while walkedYear < year {
            days += dayCount(of: walkedYear)
            walkedYear += 1
        }
        while walkedYear > year {
            walkedYear -= 1
            days -= dayCount(of: walkedYear)
        }
        while walkedMonth < month {
            days += dayCount(of: walkedMonth, in: year)
            walkedMonth += 1
        }
        return Int64(days) * millisecondsPerDay
    }

    private static func date(of milliseconds: Int64) -> (year: Int, month: Int, day: Int, timeOfDay: Int64) {
        var timeOfDay = milliseconds % millisecondsPerDay
        var days = Int(milliseconds / millisecondsPerDay)
        if timeOfDay < 0 {
            timeOfDay += millisecondsPerDay
            days -= 1
        }
        var (year, month) = (1970, 1)
        while days < 0 {
            year -= 1
            days += dayCount(of: year)
        }
        while days >= dayCount(of: year) {
            days -= dayCount(of: year)
            year += 1
        }
        while days >= dayCount(of: month, in: year) {
            days -= dayCount(of: month, in: year)
            month += 1
        }
        return (year, month, days + 1, timeOfDay)
    }
}
