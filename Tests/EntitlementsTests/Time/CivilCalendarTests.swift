import Entitlements
import EntitlementsTestSupport
import Foundation
import Testing

/// Runs in one time zone: the module imports no code that reads the zone of the machine.
@Suite("CivilCalendar: months are added in the proleptic Gregorian calendar, in UTC")
struct CivilCalendarTests {
    @Test("For every day of 28 years the result is Foundation's, or 00:00 UTC of the next month without such a day")
    func agreesWithFoundation() throws {
        let calendar = FoundationCalendar()
        let timeOfDay: Int64 = 49_530_123  // 13:45:30.123
        var (existing, missing) = (0, 0)
        // 28 years around 2100, which has no leap day.
        for day in try calendar.days(from: "2085-01-01", to: "2113-01-01") {
            let start = Timestamp(milliseconds: day * 86_400_000 + timeOfDay)
            for months in [1, 2, 3, 6, 11, 12, 13, 48, 1_200] {
                let end = start.adding(CalendarDuration(months: Int64(months)))
                if let expected = calendar.day(day, plusMonths: months) {
                    try #require(end.milliseconds == expected * 86_400_000 + timeOfDay, "\(start) + \(months) months")
                    existing += 1
                } else {
                    let following = try #require(calendar.firstOfMonth(after: day, plusMonths: months))
                    try #require(end.milliseconds == following * 86_400_000, "\(start) + \(months) months")
                    missing += 1
                }
            }
            guard let expected = try calendar.adding(months: 1, to: start) else { continue }
            try #require(start.adding(CalendarDuration(months: 1)) == expected, "\(start) + 1")
        }
        #expect(existing + missing == 10_226 * 9 && missing > 700)
    }

    @Test(
        "Month ends, leap days, and dates before 1970 are handled",
        arguments: [
            ("2026-01-31T00:00:00.000Z", 1, "2026-03-01T00:00:00.000Z"),
            ("2026-01-31T18:30:00.000Z", 1, "2026-03-01T00:00:00.000Z"),
            ("2028-01-30T12:00:00.000Z", 1, "2028-03-01T00:00:00.000Z"),
            ("2028-01-29T12:00:00.000Z", 1, "2028-02-29T12:00:00.000Z"),
            ("2028-02-29T12:00:00.000Z", 12, "2029-03-01T00:00:00.000Z"),
            ("2028-02-29T12:00:00.000Z", 48, "2032-02-29T12:00:00.000Z"),
            ("2096-02-29T00:00:00.000Z", 48, "2100-03-01T00:00:00.000Z"),
            ("1996-02-29T00:00:00.000Z", 48, "2000-02-29T00:00:00.000Z"),
            ("2026-08-31T23:59:59.999Z", 1, "2026-10-01T00:00:00.000Z"),
            ("2026-12-31T23:59:59.999Z", 2, "2027-03-01T00:00:00.000Z"),
            ("2026-11-30T08:00:00.000Z", 1, "2026-12-30T08:00:00.000Z"),
            ("1969-12-31T23:59:59.999Z", 1, "1970-01-31T23:59:59.999Z"),
            ("1967-01-31T06:00:00.000Z", 1, "1967-03-01T00:00:00.000Z"),
            ("1968-02-29T06:00:00.000Z", 12, "1969-03-01T00:00:00.000Z"),
            ("0001-01-01T00:00:00.000Z", 12, "0002-01-01T00:00:00.000Z"),
            ("0004-02-29T00:00:00.000Z", 1, "0004-03-29T00:00:00.000Z"),
        ])
    func landmarks(start: String, months: Int64, end: String) throws {
        #expect(try Timestamp(start).adding(CalendarDuration(months: months)) == Timestamp(end))
    }

    @Test("Three times P1M is P3M, added at once: 31 January + 1 month × 3 is 1 May, not 1 April or 30 April")
    func quantitiesAreAddedAtOnce() throws {
        let bought = try CalendarDuration("P1M").multiplied(by: 3)
        #expect(bought == CalendarDuration(months: 3))
        #expect(try Timestamp("2026-01-31T10:00:00Z").adding(bought) == Timestamp("2026-05-01"))
        #expect(try Timestamp("2026-01-30T10:00:00Z").adding(bought) == Timestamp("2026-04-30T10:00:00Z"))
    }

    @Test("Months come first, then days and seconds: 31 January + P1M1D is 2 March")
    func monthsComeBeforeDays() throws {
        #expect(try Timestamp("2026-01-31").adding(CalendarDuration("P1M1D")) == Timestamp("2026-03-02"))
        #expect(
            try Timestamp("2026-01-31T10:00:00Z").adding(CalendarDuration("P1M1DT12H"))
                == Timestamp("2026-03-02T12:00:00Z"))
        #expect(
            try Timestamp("2026-02-28T10:00:00Z").adding(CalendarDuration("P1W")) == Timestamp("2026-03-07T10:00:00Z"))
    }

    @Test("A later start never ends sooner, and a longer duration never ends sooner")
    func additionIsMonotone() throws {
        try forAll("addition is monotone", cases: 50_000) { random, place in
            let early = Timestamp.random(using: &random)
            let late = Timestamp(
                milliseconds: early.milliseconds + random.int(0...random.pick([1, 86_400_000, 40 * 86_400_000])))
            let short = CalendarDuration.random(using: &random)
            let long = CalendarDuration(
                months: short.months + random.int(0...2), days: short.days + random.int(0...2),
                seconds: short.seconds + random.int(0...2))
            try #require(early.adding(short) <= late.adding(short), "\(place)")
            try #require(early.adding(short) <= early.adding(long), "\(place)")
            try #require(early <= early.adding(short), "\(place)")
        }
    }

    @Test("Sums saturate at the last millisecond of the year 9999")
    func sumsSaturate() throws {
        let start = try Timestamp("9999-11-15")
        #expect(start.adding(CalendarDuration(months: 1)) == (try Timestamp("9999-12-15")))
        for duration in [
            CalendarDuration(months: 2), CalendarDuration(months: .max), CalendarDuration(days: 47),
            CalendarDuration(days: .max), CalendarDuration(seconds: .max),
            CalendarDuration(months: .max, days: .max, seconds: .max),
            CalendarDuration(days: .max / 86_400_000, seconds: .max / 1_000),
        ] {
            #expect(start.adding(duration) == .latest, "\(duration)")
            #expect(Timestamp.latest.adding(duration) == .latest, "\(duration)")
        }
        #expect(Timestamp.latest.adding(.zero) == .latest)
        #expect(Timestamp(milliseconds: .max) == .latest)
        #expect(Timestamp(milliseconds: .min) == .earliest)
    }

    @Test("A digest over many additions and their texts has a known value")
    func digest() throws {
        var random = SplitMix64(seed: 1)
        var digest: UInt64 = 0
        for _ in 0..<10_000 {
            let start = Timestamp.random(using: &random)
            let end = start.adding(CalendarDuration.random(using: &random))
            digest = (digest &* 31) ^ UInt64(bitPattern: end.milliseconds)
            digest = "\(end)".utf8.reduce(digest) { ($0 &* 31) ^ UInt64($1) }
        }
        #expect(digest == 1_309_750_462_269_567_903)
    }
}

/// The days of Foundation's Gregorian calendar in UTC, as a table.
private struct FoundationCalendar {
    private struct Day: Hashable {
        var year: Int
        var month: Int
        var day: Int
    }

    private let calendar: Calendar
    private var dates: [Int64: Day] = [:]
    private var numbers: [Day: Int64] = [:]

    init() {
        var gregorian = Calendar(identifier: .gregorian)
        gregorian.timeZone = .gmt
        calendar = gregorian
        for number in Int64(42_000)...90_000 {  // 2084 to 2216
            let date = Date(timeIntervalSince1970: Double(number) * 86_400)
            let parts = gregorian.dateComponents([.year, .month, .day], from: date)
            let day = Day(year: parts.year ?? 0, month: parts.month ?? 0, day: parts.day ?? 0)
            dates[number] = day
            numbers[day] = number
        }
    }

    func days(from first: String, to end: String) throws -> Range<Int64> {
        let (first, end) = (try Timestamp(first), try Timestamp(end))
        return first.milliseconds / 86_400_000..<end.milliseconds / 86_400_000
    }

    /// The same day a number of months later; `nil` if there is none.
    func day(_ number: Int64, plusMonths months: Int) -> Int64? {
        guard let day = dates[number] else { return nil }
        return numbers[moved(day, by: months)]
    }

    /// The first day of the month that follows the month a number of months later.
    func firstOfMonth(after number: Int64, plusMonths months: Int) -> Int64? {
        guard let day = dates[number] else { return nil }
        let target = moved(day, by: months + 1)
        return numbers[Day(year: target.year, month: target.month, day: 1)]
    }

    private func moved(_ day: Day, by months: Int) -> Day {
        let index = day.month - 1 + months
        return Day(year: day.year + index / 12, month: index % 12 + 1, day: day.day)
    }

    /// The result of Foundation's addition; `nil` if it clamped to the end of a month.
    func adding(months: Int, to start: Timestamp) throws -> Timestamp? {
        let date = Date(timeIntervalSince1970: Double(start.milliseconds) / 1_000)
        let sum = try #require(calendar.date(byAdding: .month, value: months, to: date))
        guard calendar.component(.day, from: sum) == calendar.component(.day, from: date) else { return nil }
        return Timestamp(milliseconds: Int64((sum.timeIntervalSince1970 * 1_000).rounded()))
    }
}
