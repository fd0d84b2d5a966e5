import EntitlementsTestSupport
import Foundation
import Testing

@testable import SyncSimulation

@Suite("The model's calendar")
struct ModelCalendarTests {
    private static let utc: Calendar = {
        var calendar = Calendar(identifier: .gregorian)
        calendar.timeZone = .gmt
        return calendar
    }()

    private func date(_ year: Int, _ month: Int, _ day: Int, hour: Int = 0) -> Int64 {
        ModelCalendar.milliseconds(year: year, month: month, day: day) + Int64(hour) * 3_600_000
    }

    @Test("A day that does not exist becomes 00:00 of the following day")
    func missingDays() {
        #expect(ModelCalendar.add(months: 1, to: date(2026, 1, 31, hour: 9)) == date(2026, 3, 1))
        #expect(ModelCalendar.add(months: 1, to: date(2026, 1, 28, hour: 9)) == date(2026, 2, 28, hour: 9))
        #expect(ModelCalendar.add(months: 3, to: date(2026, 1, 31, hour: 9)) == date(2026, 5, 1))
        #expect(ModelCalendar.add(months: 12, to: date(2028, 2, 29, hour: 9)) == date(2029, 3, 1))
        #expect(ModelCalendar.add(months: 48, to: date(2028, 2, 29, hour: 9)) == date(2032, 2, 29, hour: 9))
        #expect(ModelCalendar.add(months: 1, days: 1, to: date(2026, 1, 31, hour: 9)) == date(2026, 3, 2))
    }

    @Test("Known days have their timestamps, and sums are clamped to the year 9999")
    func knownDays() {
        #expect(date(1970, 1, 1) == 0)
        #expect(date(2026, 1, 1) == 1_767_225_600_000)
        #expect(date(1, 1, 1) == ModelCalendar.earliest)
        #expect(date(9999, 12, 31) + 86_399_999 == ModelCalendar.latest)
        #expect(ModelCalendar.add(months: 12, to: date(9999, 1, 1)) == ModelCalendar.latest)
        #expect(ModelCalendar.add(months: 11, to: date(9999, 1, 31)) == date(9999, 12, 31))
        #expect(ModelCalendar.add(months: .max, days: .max, seconds: .max, to: 0) == ModelCalendar.latest)
        #expect(ModelCalendar.add(days: .max, seconds: .max, to: date(1, 1, 1)) == ModelCalendar.latest)
        #expect(ModelCalendar.add(seconds: 1, to: -1) == 999)
    }

    /// Foundation clamps to the month's last day, which shows that the day does not exist.
    @Test("1900–2100: adding months agrees with Foundation's calendar, including month ends and times of day")
    func foundation() throws {
        try forAll("calendars agree", cases: 1) { random, place in
            for month in 0..<(200 * 12) {
                let start = Int64(Self.monthStart(month).timeIntervalSince1970) * 1_000
                for day: Int64 in [0, 27, 28, 29, 30] {
                    let instant = start + day * 86_400_000 + random.pick([0, 1_000, 43_200_000, 86_399_000])
                    let months: Int64 = random.pick([1, 1, 2, 3, 6, 12, 13, random.int(0...600)])
                    let days: Int64 = random.pick([0, 0, 1, 40])
                    let sum = ModelCalendar.add(months: months, days: days, to: instant)
                    try #require(
                        sum == (try Self.adding(months, to: instant)) + days * 86_400_000,
                        "\(instant) + \(months) months, \(place)")
                }
            }
        }
    }

    private static func monthStart(_ month: Int) -> Date {
        utc.date(from: DateComponents(year: 1900 + month / 12, month: 1 + month % 12, day: 1)) ?? .distantPast
    }

    private static func adding(_ months: Int64, to instant: Int64) throws -> Int64 {
        let date = Date(timeIntervalSince1970: Double(instant) / 1_000)
        let sum = try #require(utc.date(byAdding: .month, value: Int(months), to: date))
        guard utc.component(.day, from: sum) != utc.component(.day, from: date) else {
            return Int64(sum.timeIntervalSince1970) * 1_000
        }
        let following = try #require(utc.date(byAdding: .day, value: 1, to: utc.startOfDay(for: sum)))
        return Int64(following.timeIntervalSince1970) * 1_000
    }
}
