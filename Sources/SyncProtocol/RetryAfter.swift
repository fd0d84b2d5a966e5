public import HTTPTypes

/// The header field `Retry-After` (RFC 9110, section 10.2.3): a number of seconds, or a date.
public enum RetryAfter {
    /// The longest pause that is honoured: a day.
    package static let maximum = Duration.seconds(86_400)

    /// The pause that the server asks for; `nil` if it asks for none. A date is compared with the response's own
    /// `Date`, so the client's clock does not matter.
    public static func pause(of response: HTTPResponse) -> Duration? {
        guard let field = response.headerFields[.retryAfter] else { return nil }
        if !field.isEmpty, field.utf8.allSatisfy({ (0x30...0x39).contains($0) }) {
            return min(.seconds(Int64(field) ?? .max), maximum)
        }
        guard let end = seconds(field), let start = response.headerFields[.date].flatMap(seconds) else { return nil }
        return min(max(.seconds(end - start), .zero), maximum)
    }

    /// The seconds since 1970 UTC of a date in the HTTP format: `Sun, 06 Nov 1994 08:49:37 GMT` (RFC 9110, section
    /// 5.6.7).
    package static func seconds(_ date: String) -> Int64? {
        let parts = date.split(separator: " ")
        guard parts.count == 6, parts[5] == "GMT", let month = months.firstIndex(of: String(parts[2])),
            let day = number(parts[1], in: 1...31), let year = number(parts[3], in: 1_970...9_999)
        else { return nil }
        let time = parts[4].split(separator: ":", omittingEmptySubsequences: false)
        guard time.count == 3, let hour = number(time[0], in: 0...23), let minute = number(time[1], in: 0...59),
            let second = number(time[2], in: 0...60)
        else { return nil }
        return days(year: year, month: Int64(month) + 1, day: day) * 86_400 + hour * 3_600 + minute * 60 + second
    }

    private static let months = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ]

    private static func number(_ text: Substring, in range: ClosedRange<Int64>) -> Int64? {
        guard text.utf8.allSatisfy({ (0x30...0x39).contains($0) }), let number = Int64(text), range.contains(number)
        else { return nil }
        return number
    }

    /// The number of days from 1970-01-01 in the Gregorian calendar. The computation starts years in March, so that a
    /// leap day is the last day of a year.
    private static func days(year: Int64, month: Int64, day: Int64) -> Int64 {
        let year = month <= 2 ? year - 1 : year
        let dayOfYear = (153 * ((month + 9) % 12) + 2) / 5 + day - 1
        return year * 365 + year / 4 - year / 100 + year / 400 + dayOfYear - 719_468
    }
}
