import Entitlements
import TestSupport

extension TestHost {
    /// Creates a host whose wall clock shows an ISO 8601 date and time.
    convenience init(at start: String, seed: UInt64 = 1, pauses: Pauses = .endAtOnce) throws {
        self.init(at: try Timestamp(start).milliseconds, seed: seed, pauses: pauses)
    }

    /// The wall clock.
    var now: Timestamp { Timestamp(milliseconds: milliseconds) }

    /// Sets the wall clock to an ISO 8601 date and time, forward or back, without moving the timer.
    func set(_ text: String) throws { set(try Timestamp(text).milliseconds) }
}
