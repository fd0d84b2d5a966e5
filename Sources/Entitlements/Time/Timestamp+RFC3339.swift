extension Timestamp: CustomStringConvertible {
    /// The instant in RFC 3339, in UTC with milliseconds: `2026-01-01T00:00:00.000Z`.
    public var description: String {
        let dayNumber = milliseconds.flooredQuotient(by: Self.millisecondsPerDay)
        let timeOfDay = milliseconds - dayNumber * Self.millisecondsPerDay
        let date = CivilDate(daysSince1970: dayNumber)
        let day = "\(padded(date.year, 4))-\(padded(Int64(date.month), 2))-\(padded(Int64(date.day), 2))"
        let hour = padded(timeOfDay / 3_600_000, 2)
        let minute = padded(timeOfDay / 60_000 % 60, 2)
        let second = padded(timeOfDay / 1_000 % 60, 2)
        return "\(day)T\(hour):\(minute):\(second).\(padded(timeOfDay % 1_000, 3))Z"
    }

    /// Parses an RFC 3339 date and time (`2026-01-31T12:30:00Z`), optionally with an offset and fractions of a second,
    /// or a plain date (`2026-01-31`), which means 00:00 UTC of that day.
    ///
    /// Digits beyond the millisecond are truncated. A leap second (`:60`) is rejected.
    ///
    /// - Throws: ``TimestampError`` with the text and the reason.
    public init(_ text: String) throws(TimestampError) {
        var scanner = DateScanner(text)
        self = try scanner.timestamp()
    }
}

private func padded(_ number: Int64, _ width: Int) -> String {
    let digits = String(number)
    return String(repeating: "0", count: max(0, width - digits.count)) + digits
}

/// An error that is thrown when a text is not a valid date.
public struct TimestampError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The rejected text.
    public let text: String
    /// The reason for the error.
    public let reason: String

    /// The text, the reason and examples of valid dates, on one line.
    public var description: String {
        "\"\(text.singleLine)\" is not a date: \(reason) (write 2026-01-31T12:00:00Z or 2026-01-31)"
    }
}

private struct DateScanner {
    private let text: String
    private var rest: Substring.UTF8View

    init(_ text: String) {
        self.text = text
        rest = text[...].utf8
    }

    mutating func timestamp() throws(TimestampError) -> Timestamp {
        let day = try date()
        guard !rest.isEmpty else { return Timestamp(milliseconds: day * Timestamp.millisecondsPerDay) }
        guard take(anyOf: "Tt ") != nil else { throw failure("after the day comes T and a time") }
        let hour = try number(digits: 2, in: 0...23, "hour")
        try expect(":")
        let minute = try number(digits: 2, in: 0...59, "minute")
        try expect(":")
        let second = try number(digits: 2, in: 0...59, "second")
        let fraction = take(anyOf: ".") == nil ? 0 : try fractionOfSecond()
        let offset = try zoneOffset()
        guard rest.isEmpty else { throw failure("unexpected text after the date") }
        let timeOfDay = (hour * 3_600 + minute * 60 + second - offset) * 1_000 + fraction
        let milliseconds = day * Timestamp.millisecondsPerDay + timeOfDay
        let timestamp = Timestamp(milliseconds: milliseconds)
        guard timestamp.milliseconds == milliseconds else { throw failure("it is outside the years 1 to 9999") }
        return timestamp
    }

    private mutating func date() throws(TimestampError) -> Int64 {
        let year = try number(digits: 4, in: 1...9_999, "year")
        try expect("-")
        let month = Int(try number(digits: 2, in: 1...12, "month"))
        try expect("-")
        let dayCount = CivilDate.dayCount(year: year, month: month)
        let day = Int(try number(digits: 2, in: 1...Int64(dayCount), "day"))
        return CivilDate(year: year, month: month, day: day).daysSince1970
    }

    private mutating func fractionOfSecond() throws(TimestampError) -> Int64 {
        var milliseconds: Int64 = 0
        var weight: Int64 = 100
        var digits = 0
        while let byte = rest.first, (0x30...0x39).contains(byte) {
            rest.removeFirst()
            milliseconds += Int64(byte - 0x30) * weight
            weight /= 10
            digits += 1
        }
        guard digits > 0 else { throw failure("a fraction needs digits") }
        return milliseconds
    }

    /// Parses the zone offset, in seconds east of UTC.
    private mutating func zoneOffset() throws(TimestampError) -> Int64 {
        guard let sign = take(anyOf: "Zz+-") else { throw failure("the time zone is missing (Z, or +01:00)") }
        guard sign == "+" || sign == "-" else { return 0 }
        let hours = try number(digits: 2, in: 0...23, "offset")
        try expect(":")
        let minutes = try number(digits: 2, in: 0...59, "offset")
        return (sign == "-" ? -1 : 1) * (hours * 3_600 + minutes * 60)
    }

    private mutating func number(digits: Int, in range: ClosedRange<Int64>, _ name: String) throws(TimestampError)
        -> Int64
    {
        var value: Int64 = 0
        for _ in 0..<digits {
            guard let byte = rest.first, (0x30...0x39).contains(byte) else {
                throw failure("the \(name) needs \(digits) digits")
            }
            rest.removeFirst()
            value = value * 10 + Int64(byte - 0x30)
        }
        guard range.contains(value) else {
            throw failure("the \(name) is \(value), not \(range.lowerBound) to \(range.upperBound)")
        }
        return value
    }

    private mutating func expect(_ character: Character) throws(TimestampError) {
        guard take(anyOf: String(character)) != nil else { throw failure("\"\(character)\" is missing") }
    }

    private mutating func take(anyOf characters: String) -> Character? {
        guard let byte = rest.first, characters.utf8.contains(byte) else { return nil }
        rest.removeFirst()
        return Character(UnicodeScalar(byte))
    }

    private func failure(_ reason: String) -> TimestampError {
        TimestampError(text: text, reason: reason)
    }
}
