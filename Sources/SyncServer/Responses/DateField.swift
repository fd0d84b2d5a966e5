import Synchronization

/// Formats the `Date` of an answer (RFC 9110, section 5.6.7): `Sun, 06 Nov 1994 08:49:37 GMT`.
enum DateField {
    private static let latest = Mutex((second: Int64.min, text: ""))

    /// The date field for a time in milliseconds since 1970 UTC. The text is cached for its second.
    static func text(milliseconds: Int64) -> String {
        let second = max(0, milliseconds) / 1_000
        return latest.withLock { latest in
            if latest.second != second { latest = (second, make(milliseconds: milliseconds)) }
            return latest.text
        }
    }

    private static let days = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"]
    private static let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]

    /// - Parameter milliseconds: the time since 1970 UTC; a negative one counts as 0.
    private static func make(milliseconds: Int64) -> String {
        let seconds = Int(max(0, milliseconds) / 1_000)
        let (day, second) = (seconds / 86_400, seconds % 86_400)
        // Computed in years that begin in March, so that the leap day is the last day of a year.
        let shifted = day + 719_468
        let era = shifted / 146_097
        let dayOfEra = shifted % 146_097
        let yearOfEra = (dayOfEra - dayOfEra / 1_460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let shiftedMonth = (5 * dayOfYear + 2) / 153
        let dayOfMonth = dayOfYear - (153 * shiftedMonth + 2) / 5 + 1
        let month = (shiftedMonth + 2) % 12
        let year = yearOfEra + era * 400 + (month < 2 ? 1 : 0)
        let date = "\(days[day % 7]), \(twoDigits(dayOfMonth)) \(months[month]) \(fourDigits(year))"
        return "\(date) \(twoDigits(second / 3_600)):\(twoDigits(second / 60 % 60)):\(twoDigits(second % 60)) GMT"
    }

    private static func twoDigits(_ number: Int) -> String { number < 10 ? "0\(number)" : "\(number)" }

    private static func fourDigits(_ number: Int) -> String {
        String(repeating: "0", count: max(0, 4 - "\(number)".utf8.count)) + "\(number)"
    }
}
