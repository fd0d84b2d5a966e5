/// A duration of calendar time: months, days and seconds, each 0 or more.
///
/// The parts are stored separately because they cannot be converted: a month has no fixed number of days.
public struct CalendarDuration: Hashable, Sendable {
    /// The number of calendar months.
    public let months: Int64
    /// The number of days of 24 hours.
    public let days: Int64
    /// The number of seconds.
    public let seconds: Int64

    /// Creates a duration.
    ///
    /// - Precondition: No part is negative.
    public init(months: Int64 = 0, days: Int64 = 0, seconds: Int64 = 0) {
        precondition(months >= 0 && days >= 0 && seconds >= 0, "the parts of a duration must not be negative")
        self.months = months
        self.days = days
        self.seconds = seconds
    }

    /// The empty duration.
    public static let zero = CalendarDuration()

    /// The time of a purchase that never ends: ``Timestamp/latest``, whatever it is added to.
    ///
    /// Only a non-renewing product can have it. It is not within the bound of 100 years, which applies to all other
    /// durations.
    public static let forever = CalendarDuration(months: .max)

    /// The maximum duration that counts, in years, in any mix of units. It is a bound against forged and mistaken
    /// input.
    package static let longestYears: Int64 = 100

    /// A Boolean value that indicates whether the duration is at most 100 years.
    package var isWithinBounds: Bool {
        // Each part is checked first, so that the sum below cannot overflow.
        let years = Self.longestYears
        guard months <= years * 12, days <= years * 366, seconds <= years * 366 * 86_400 else { return false }
        return Timestamp(milliseconds: 0).adding(self) <= Timestamp(milliseconds: 0).adding(Self(months: years * 12))
    }

    /// Returns the duration multiplied by `count`. `P1M` × 3 is `P3M`, which is added in one step. Parts that overflow
    /// saturate.
    ///
    /// - Precondition: `count` is not negative.
    package func multiplied(by count: Int64) -> CalendarDuration {
        precondition(count >= 0, "a duration cannot be multiplied by \(count), which is negative")
        func times(_ part: Int64) -> Int64 {
            let (product, overflow) = part.multipliedReportingOverflow(by: count)
            return overflow ? .max : product
        }
        return CalendarDuration(months: times(months), days: times(days), seconds: times(seconds))
    }
}

extension CalendarDuration: CustomStringConvertible {
    /// The duration in ISO 8601, for example `P3M` or `P1Y2M3DT4S`, or `forever`. Weeks are written as days, and 12
    /// months as a year.
    public var description: String {
        if self == .forever { return Self.foreverText }
        var text = "P"
        if months >= 12 { text += "\(months / 12)Y" }
        if months % 12 > 0 { text += "\(months % 12)M" }
        if days > 0 { text += "\(days)D" }
        if seconds > 0 { text += "T\(seconds)S" }
        return text == "P" ? "P0D" : text
    }

    private static let foreverText = "forever"

    /// Parses an ISO 8601 duration of whole numbers: `P3M`, `P1W`, `P1Y6M`, `P1DT12H`; or `forever`.
    ///
    /// - Throws: ``DurationError`` if the text is not a valid duration or exceeds 100 years.
    public init(_ text: String) throws(DurationError) {
        guard text != Self.foreverText else {
            self = .forever
            return
        }
        var rest = text[...].utf8
        guard rest.popFirst() == UInt8(ascii: "P") else {
            throw DurationError(text: text, reason: "it must begin with P")
        }
        var units: [(letter: UInt8, months: Int64, days: Int64, seconds: Int64)] = [
            (UInt8(ascii: "Y"), 12, 0, 0), (UInt8(ascii: "M"), 1, 0, 0),
            (UInt8(ascii: "W"), 0, 7, 0), (UInt8(ascii: "D"), 0, 1, 0),
        ]
        var sum = CalendarDuration.zero
        var parts = 0
        var inTime = false
        while let first = rest.first {
            if first == UInt8(ascii: "T"), !inTime {
                rest.removeFirst()
                inTime = true
                parts = 0
                units = [
                    (UInt8(ascii: "H"), 0, 0, 3_600), (UInt8(ascii: "M"), 0, 0, 60), (UInt8(ascii: "S"), 0, 0, 1),
                ]
                continue
            }
            let digits = rest.prefix { (0x30...0x39).contains($0) }
            guard let count = Int64(String(Substring(digits))), count <= 10_000_000_000 else {
                throw DurationError(text: text, reason: "a whole number is missing or too large")
            }
            rest = rest.dropFirst(digits.count)
            guard let letter = rest.popFirst(), let index = units.firstIndex(where: { $0.letter == letter }) else {
                throw DurationError(text: text, reason: "a number is followed by Y, M, W or D, after T by H, M or S")
            }
            let unit = units[index]
            units.removeFirst(index + 1)
            parts += 1
            sum = CalendarDuration(
                months: sum.months + count * unit.months, days: sum.days + count * unit.days,
                seconds: sum.seconds + count * unit.seconds)
        }
        guard parts > 0 else { throw DurationError(text: text, reason: "it contains no number") }
        guard sum.isWithinBounds else { throw DurationError(text: text, reason: "it is longer than 100 years") }
        self = sum
    }
}

/// An error that is thrown when a text is not a valid duration.
public struct DurationError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The rejected text.
    public let text: String
    /// The reason for the error.
    public let reason: String

    /// The text, the reason and examples of valid durations, on one line.
    public var description: String {
        "\"\(text.singleLine)\" is not a duration: \(reason) (write P3M, P1W or P1D)"
    }
}
