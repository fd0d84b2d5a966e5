/// A length of calendar time as a store sells it: months, days and seconds, each 0 or more.
///
/// Kept apart because they are not convertible: a month has no fixed number of days.
public struct CalendarDuration: Hashable, Sendable {
    /// Calendar months.
    public let months: Int64
    /// Days of 24 hours.
    public let days: Int64
    /// Seconds.
    public let seconds: Int64

    /// A duration of the given parts, each 0 or more.
    public init(months: Int64 = 0, days: Int64 = 0, seconds: Int64 = 0) {
        precondition(months >= 0 && days >= 0 && seconds >= 0, "the parts of a duration are never negative")
        self.months = months
        self.days = days
        self.seconds = seconds
    }

    /// No time at all.
    public static let zero = CalendarDuration()

    /// The longest duration that counts, a bound against forged and mistaken input: 100 years, in any mix of units.
    public static let longestYears: Int64 = 100

    /// Whether the duration is at most 100 years.
    public var isWithinBounds: Bool {
        // Each part is bounded first, so that the sum below cannot overflow.
        let years = Self.longestYears
        guard months <= years * 12, days <= years * 366, seconds <= years * 366 * 86_400 else { return false }
        return Timestamp(milliseconds: 0).adding(self) <= Timestamp(milliseconds: 0).adding(Self(months: years * 12))
    }

    /// The duration `count` times over; parts saturate. `P1M` × 3 is `P3M`, which is added at once.
    public func multiplied(by count: Int64) -> CalendarDuration {
        precondition(count >= 0, "a duration is not multiplied by \(count)")
        func times(_ part: Int64) -> Int64 {
            let (product, overflow) = part.multipliedReportingOverflow(by: count)
            return overflow ? .max : product
        }
        return CalendarDuration(months: times(months), days: times(days), seconds: times(seconds))
    }
}

extension CalendarDuration: CustomStringConvertible {
    /// The duration in ISO 8601: `P3M`, `P1Y2M3DT4S`; weeks appear as days, and years as months beyond whole years.
    public var description: String {
        var text = "P"
        if months >= 12 { text += "\(months / 12)Y" }
        if months % 12 > 0 { text += "\(months % 12)M" }
        if days > 0 { text += "\(days)D" }
        if seconds > 0 { text += "T\(seconds)S" }
        return text == "P" ? "P0D" : text
    }

    /// Reads an ISO 8601 duration: `P3M`, `P1W`, `P1Y6M`, `P1DT12H`. Whole numbers only.
    ///
    /// - Throws: ``DurationError`` when the text is no such duration, or longer than 100 years.
    public init(_ text: String) throws(DurationError) {
        var rest = text[...].utf8
        guard rest.popFirst() == UInt8(ascii: "P") else { throw DurationError(text: text, reason: "it begins with P") }
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
        guard parts > 0 else { throw DurationError(text: text, reason: "it names no length") }
        guard sum.isWithinBounds else { throw DurationError(text: text, reason: "it is longer than 100 years") }
        self = sum
    }
}

/// A text is not a duration.
public struct DurationError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The text as it was given.
    public let text: String
    /// What is wrong with it.
    public let reason: String

    /// One line: the text, the reason, and what a duration looks like.
    public var description: String {
        "\"\(text.singleLine)\" is not a duration: \(reason) (write P3M, P1W or P1D)"
    }
}
