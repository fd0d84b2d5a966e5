import Entitlements
import EntitlementsTestSupport
import Testing

@testable import SyncSimulation

/// The calendar of production agrees with Foundation's, see `CivilCalendarTests`.
@Suite("The model's calendar")
struct ModelCalendarTests {
    @Test("Sums agree with production's calendar, at month ends, on leap days and at the limits too")
    func agreement() throws {
        let landmarks = [Int64.min, -1, 0, 951_782_400_000, 4_107_542_399_999, ModelCalendar.latest]
        try forAll("calendars agree", cases: 50_000) { random, place in
            let start =
                random.chance(1, in: 8) ? Timestamp(milliseconds: random.pick(landmarks)) : .random(using: &random)
            let usual = CalendarDuration.random(using: &random)
            let duration = CalendarDuration(
                months: random.chance(1, in: 20) ? .max - 1 : usual.months,
                days: random.chance(1, in: 20) ? .max : usual.days,
                seconds: random.chance(1, in: 20) ? .max : usual.seconds)
            let sum = ModelCalendar.add(
                months: duration.months, days: duration.days, seconds: duration.seconds, to: start.milliseconds)
            try #require(sum == start.adding(duration).milliseconds, "\(start) + \(duration), \(place)")
        }
    }

    @Test("Known days have their timestamps")
    func knownDays() {
        #expect(ModelCalendar.milliseconds(year: 1970, month: 1, day: 1) == 0)
        #expect(ModelCalendar.milliseconds(year: 2026, month: 1, day: 1) == 1_767_225_600_000)
        #expect(ModelCalendar.milliseconds(year: 1, month: 1, day: 1) == ModelCalendar.earliest)
        #expect(ModelCalendar.milliseconds(year: 9999, month: 12, day: 31) + 86_399_999 == ModelCalendar.latest)
    }
}
