import EntitlementsTestSupport
import Testing

@testable import Entitlements

@Suite("Dates are read and written as RFC 3339")
struct TimestampTextTests {
    @Test("Every instant reads back from the text that it is written as")
    func roundTrips() throws {
        try forAll("dates round-trip", cases: 20_000) { random, place in
            let instant = Timestamp.random(using: &random)
            try #require(try Timestamp("\(instant)") == instant, "\(place)")
            try #require("\(instant)".utf8.count == 24, "\(place)")
        }
    }

    @Test(
        "Offsets, fractions, lower case, a blank for the T, and a plain date are read",
        arguments: [
            ("2026-01-31", 1_769_817_600_000),
            ("2026-01-31T00:00:00Z", 1_769_817_600_000),
            ("2026-01-31T00:00:00.5Z", 1_769_817_600_500),
            ("2026-01-31T00:00:00.05Z", 1_769_817_600_050),
            ("2026-01-31T00:00:00.123456789Z", 1_769_817_600_123),
            ("2026-01-31T00:00:00.99999999999999999999999999Z", 1_769_817_600_999),
            ("2026-01-31T01:00:00+01:00", 1_769_817_600_000),
            ("2026-01-30T18:30:00-05:30", 1_769_817_600_000),
            ("2026-01-31T23:59:00+23:59", 1_769_817_600_000),
            ("2026-01-31T00:00:00-00:00", 1_769_817_600_000),
            ("2026-01-31t00:00:00z", 1_769_817_600_000),
            ("2026-01-31 00:00:00Z", 1_769_817_600_000),
            ("1970-01-01", 0),
            ("1969-12-31T23:59:59.999Z", -1),
            ("0001-01-01", -62_135_596_800_000),
            ("9999-12-31T23:59:59.999Z", 253_402_300_799_999),
            ("9999-12-31T22:59:59.999-01:00", 253_402_300_799_999),
            ("2000-02-29", 951_782_400_000),
        ] as [(String, Int64)])
    func reads(text: String, milliseconds: Int64) throws {
        #expect(try Timestamp(text).milliseconds == milliseconds)
    }

    @Test(
        "An invalid date is rejected with the reason",
        arguments: [
            ("", "the year needs 4 digits"),
            ("yesterday", "the year needs 4 digits"),
            ("202-01-31", "the year needs 4 digits"),
            ("-2026-01-31", "the year needs 4 digits"),
            ("２０２６-01-31", "the year needs 4 digits"),
            ("0000-01-01", "the year is 0, not 1 to 9999"),
            ("20260131", "\"-\" is missing"),
            ("2026/01/31", "\"-\" is missing"),
            ("2026-1-31", "the month needs 2 digits"),
            ("2026-00-31", "the month is 0, not 1 to 12"),
            ("2026-13-31", "the month is 13, not 1 to 12"),
            ("2026-01", "\"-\" is missing"),
            ("2026-01-00", "the day is 0, not 1 to 31"),
            ("2026-01-32", "the day is 32, not 1 to 31"),
            ("2026-02-29", "the day is 29, not 1 to 28"),
            ("1900-02-29", "the day is 29, not 1 to 28"),
            ("2026-04-31", "the day is 31, not 1 to 30"),
            ("2026-01-31x", "after the day comes T and a time"),
            ("2026-01-31T", "the hour needs 2 digits"),
            ("2026-01-31T24:00:00Z", "the hour is 24, not 0 to 23"),
            ("2026-01-31T12", "\":\" is missing"),
            ("2026-01-31T12:60:00Z", "the minute is 60, not 0 to 59"),
            ("2026-01-31T12:30Z", "\":\" is missing"),
            ("2026-06-30T23:59:60Z", "the second is 60, not 0 to 59"),
            ("2026-01-31T12:00:00", "the time zone is missing (Z, or +01:00)"),
            ("2026-01-31T12:00:00.Z", "a fraction needs digits"),
            ("2026-01-31T12:00:00,5Z", "the time zone is missing (Z, or +01:00)"),
            ("2026-01-31T12:00:00+1", "the offset needs 2 digits"),
            ("2026-01-31T12:00:00+0100", "\":\" is missing"),
            ("2026-01-31T12:00:00+24:00", "the offset is 24, not 0 to 23"),
            ("2026-01-31T12:00:00+01:60", "the offset is 60, not 0 to 59"),
            ("2026-01-31T12:00:00Z ", "unexpected text after the date"),
            ("2026-01-31T12:00:00ZZ", "unexpected text after the date"),
            ("0001-01-01T00:00:00+00:01", "it is outside the years 1 to 9999"),
            ("9999-12-31T23:59:00-00:01", "it is outside the years 1 to 9999"),
        ])
    func refuses(text: String, reason: String) {
        #expect(throws: TimestampError(text: text, reason: reason)) { try Timestamp(text) }
    }

    @Test("The message is one line for any text")
    func messagesAreOneLine() {
        let text = "2026\n\u{0}\u{1B}[31m" + String(repeating: "9", count: 10_000)
        do {
            _ = try Timestamp(text)
            Issue.record("\(text.prefix(10)) is not a date")
        } catch {
            #expect(!error.description.utf8.contains { $0 < 0x20 })
            #expect(error.description.utf8.count < 300)
        }
    }

    @Test("Random text never crashes the parser, and accepted dates are accepted again as written")
    func survivesRandomTexts() throws {
        let letters = Array("0123456789-:TZ+. tz") + ["é", "\u{0}"]
        try forAll("random dates", cases: 20_000) { random, place in
            var text = Array("2026-01-31T12:00:00.000Z")
            for _ in 0..<random.int(1...3) {
                text[Int(random.int(0...Int64(text.count - 1)))] = random.pick(letters)
            }
            let cut = String(text.prefix(random.chance(1, in: 4) ? Int(random.int(0...24)) : 24))
            guard let instant = try? Timestamp(cut) else { return }
            try #require(try Timestamp("\(instant)") == instant, "\(place)")
        }
    }
}
