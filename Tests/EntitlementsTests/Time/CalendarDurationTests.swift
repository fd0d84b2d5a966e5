import EntitlementsTestSupport
import Testing

@testable import Entitlements

@Suite("Durations are read and written as ISO 8601")
struct CalendarDurationTests {
    @Test("Every duration within bounds reads back from the text that it is written as")
    func roundTrips() throws {
        try forAll("durations round-trip", cases: 10_000) { random, place in
            let duration = CalendarDuration.random(using: &random)
            try #require(try !duration.isWithinBounds || CalendarDuration("\(duration)") == duration, "\(place)")
        }
    }

    @Test(
        "The durations that stores sell are read",
        arguments: [
            ("P3M", 3, 0, 0, "P3M"), ("P1W", 0, 7, 0, "P7D"), ("P1Y", 12, 0, 0, "P1Y"), ("P1Y6M", 18, 0, 0, "P1Y6M"),
            ("P18M", 18, 0, 0, "P1Y6M"), ("P1D", 0, 1, 0, "P1D"), ("PT1H", 0, 0, 3_600, "PT3600S"),
            ("PT5M", 0, 0, 300, "PT300S"), ("P1Y2M3W4DT5H6M7S", 14, 25, 18_367, "P1Y2M25DT18367S"),
            ("P0D", 0, 0, 0, "P0D"), ("PT0S", 0, 0, 0, "P0D"), ("P100Y", 1_200, 0, 0, "P100Y"),
            ("P36525D", 0, 36_525, 0, "P36525D"), ("P003M", 3, 0, 0, "P3M"),
        ] as [(String, Int64, Int64, Int64, String)])
    func reads(text: String, months: Int64, days: Int64, seconds: Int64, written: String) throws {
        let duration = try CalendarDuration(text)
        #expect(duration == CalendarDuration(months: months, days: days, seconds: seconds))
        #expect("\(duration)" == written)
    }

    @Test(
        "An invalid duration is rejected with the reason",
        arguments: [
            ("", "it must begin with P"), ("3M", "it must begin with P"), ("p3m", "it must begin with P"),
            ("-P3M", "it must begin with P"), ("P", "it contains no number"), ("PT", "it contains no number"),
            ("P1YT", "it contains no number"), ("P-3M", "a whole number is missing or too large"),
            ("P+3M", "a whole number is missing or too large"), ("PM", "a whole number is missing or too large"),
            ("P3", "a number is followed by Y, M, W or D, after T by H, M or S"),
            ("P1.5M", "a number is followed by Y, M, W or D, after T by H, M or S"),
            ("P1,5M", "a number is followed by Y, M, W or D, after T by H, M or S"),
            ("P1H", "a number is followed by Y, M, W or D, after T by H, M or S"),
            ("P1M1Y", "a number is followed by Y, M, W or D, after T by H, M or S"),
            ("P1M1M", "a number is followed by Y, M, W or D, after T by H, M or S"),
            ("PT1D", "a number is followed by Y, M, W or D, after T by H, M or S"),
            ("P3M ", "a whole number is missing or too large"),
            ("PT1HT1M", "a whole number is missing or too large"),
            ("P٣M", "a whole number is missing or too large"),
            ("P10000000001D", "a whole number is missing or too large"),
            ("P99999999999999999999Y", "a whole number is missing or too large"),
            ("P101Y", "it is longer than 100 years"), ("P1201M", "it is longer than 100 years"),
            ("P100Y1D", "it is longer than 100 years"), ("P100YT1S", "it is longer than 100 years"),
            ("P36526D", "it is longer than 100 years"), ("P10000000000Y", "it is longer than 100 years"),
            ("P10000000000W", "it is longer than 100 years"), ("PT10000000000H", "it is longer than 100 years"),
        ])
    func refuses(text: String, reason: String) {
        #expect(throws: DurationError(text: text, reason: reason)) { try CalendarDuration(text) }
    }

    @Test("Multiplication saturates, so no quantity makes a duration negative")
    func multiplicationSaturates() {
        let long = CalendarDuration(months: .max / 2, days: 3, seconds: .max)
        #expect(long.multiplied(by: 3) == CalendarDuration(months: .max, days: 9, seconds: .max))
        #expect(long.multiplied(by: 0) == .zero)
        #expect(
            CalendarDuration(months: 1, days: 2, seconds: 3).multiplied(by: 10_000)
                == CalendarDuration(months: 10_000, days: 20_000, seconds: 30_000))
    }

    @Test("The limit is 100 years in any mix of units")
    func bounds() {
        #expect(CalendarDuration(months: 1_200).isWithinBounds)
        #expect(CalendarDuration(months: 1_199, days: 30).isWithinBounds)
        #expect(!CalendarDuration(months: 1_200, seconds: 1).isWithinBounds)
        #expect(!CalendarDuration(days: .max).isWithinBounds)
        #expect(!CalendarDuration(months: .max, days: .max, seconds: .max).isWithinBounds)
        #expect(!CalendarDuration(seconds: 36_525 * 86_400 + 1).isWithinBounds)
    }
}
