/// A day of the proleptic Gregorian calendar.
///
/// The conversions count days in 400-year eras that begin on 1 March, so that the leap day is the last day of a year.
/// The rules are those of ISO 8601.
struct CivilDate: Hashable {
    var year: Int64
    /// The month, 1 to 12.
    var month: Int
    /// The day of the month, 1 to 31.
    var day: Int

    private static let daysPerEra: Int64 = 146_097
    /// The number of days from 0000-03-01 to 1970-01-01.
    private static let epochOffset: Int64 = 719_468

    init(year: Int64, month: Int, day: Int) {
        self.year = year
        self.month = month
        self.day = day
    }

    init(daysSince1970 days: Int64) {
        let shifted = days + Self.epochOffset
        let era = shifted.flooredQuotient(by: Self.daysPerEra)
        let dayOfEra = shifted - era * Self.daysPerEra
        let leapDays = dayOfEra / 1_460 - dayOfEra / 36_524 + dayOfEra / 146_096
        let yearOfEra = (dayOfEra - leapDays) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let monthFromMarch = (5 * dayOfYear + 2) / 153
        day = Int(dayOfYear - (153 * monthFromMarch + 2) / 5) + 1
        month = Int(monthFromMarch < 10 ? monthFromMarch + 3 : monthFromMarch - 9)
        year = era * 400 + yearOfEra + (month <= 2 ? 1 : 0)
    }

    var daysSince1970: Int64 {
        let marchYear = month <= 2 ? year - 1 : year
        let era = marchYear.flooredQuotient(by: 400)
        let yearOfEra = marchYear - era * 400
        let monthFromMarch = Int64(month > 2 ? month - 3 : month + 9)
        let dayOfYear = (153 * monthFromMarch + 2) / 5 + Int64(day) - 1
        let dayOfEra = yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear
        return era * Self.daysPerEra + dayOfEra - Self.epochOffset
    }

    static func isLeap(_ year: Int64) -> Bool {
        year.isMultiple(of: 4) && (!year.isMultiple(of: 100) || year.isMultiple(of: 400))
    }

    static func dayCount(year: Int64, month: Int) -> Int {
        switch month {
        case 2: isLeap(year) ? 29 : 28
        case 4, 6, 9, 11: 30
        default: 31
        }
    }
}
