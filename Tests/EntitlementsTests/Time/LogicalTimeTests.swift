import Entitlements
import EntitlementsTestSupport
import Testing

@Suite("A logical time is later than every fact that its replica had seen")
struct LogicalTimeTests {
    @Test("The next time takes the clock's milliseconds when the clock is ahead, with the counter at 0")
    func followsTheClock() {
        let next = LogicalTime.zero.next(at: Timestamp(milliseconds: 1_700_000_000_000))
        #expect(next.physicalMilliseconds == 1_700_000_000_000)
        #expect(next.counter == 0)
    }

    @Test("While the clock stands still or runs behind, the counter distinguishes facts")
    func countsWithinOneMillisecond() {
        let now = Timestamp(milliseconds: 1_700_000_000_000)
        let first = LogicalTime.zero.next(at: now)
        let second = first.next(at: now)
        let third = second.next(at: Timestamp(milliseconds: 0))
        #expect(second.physicalMilliseconds == 1_700_000_000_000)
        #expect(second.counter == 1)
        #expect(third.physicalMilliseconds == 1_700_000_000_000)
        #expect(third.counter == 2)
    }

    @Test("A full counter carries into the milliseconds")
    func carries() {
        let full = LogicalTime(rawValue: 5 << 16 | 0xFFFF)
        #expect(full.next(at: .earliest) == LogicalTime(rawValue: 6 << 16))
    }

    @Test("A clock before 1970 counts as 1970, and the range is not exceeded")
    func staysInRange() {
        #expect(LogicalTime.zero.next(at: .earliest) == LogicalTime(rawValue: 1))
        #expect(LogicalTime(rawValue: .max).next(at: .latest) == LogicalTime(rawValue: .max))
        #expect(LogicalTime.zero.next(at: .latest).physicalMilliseconds == Timestamp.latest.milliseconds)
    }

    @Test("The next time is later than every known fact and the previous millisecond of the clock")
    func isLaterThanBoth() throws {
        try forAll("logical time advances", cases: 10_000) { random, place in
            let seen = LogicalTime(rawValue: random.next() >> 1)
            let now = Timestamp.near(Timestamp(milliseconds: 0), using: &random)
            let next = seen.next(at: now)
            try #require(next > seen, "\(place)")
            try #require(next.physicalMilliseconds >= now.milliseconds, "\(place)")
        }
    }
}
