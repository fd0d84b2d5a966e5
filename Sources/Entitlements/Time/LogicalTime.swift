/// When a fact was made, as a hybrid logical clock tells it: later than everything its maker had seen.
///
/// The physical part is milliseconds since 1970 as the maker's clock had it, the counter tells facts of one
/// millisecond apart. It orders facts; it is never used as a date, because the clock may have been wrong.
/// Source: Kulkarni et al., "Logical Physical Clocks", 2014.
public struct LogicalTime: Hashable, Comparable, Sendable {
    /// The physical part in the upper 48 bits, the counter in the lower 16.
    public let rawValue: UInt64

    /// Before every fact.
    public static let zero = LogicalTime(rawValue: 0)

    /// A logical time as it was stored.
    public init(rawValue: UInt64) {
        self.rawValue = rawValue
    }

    /// The physical part: milliseconds since 1970 by the maker's clock.
    public var physicalMilliseconds: Int64 { Int64(rawValue >> 16) }

    /// Facts with the same physical part, counted.
    public var counter: UInt16 { UInt16(truncatingIfNeeded: rawValue) }

    /// The time of a fact made at `now` by someone who has seen facts up to this time: later than both, where the range
    /// allows it.
    public func next(at now: Timestamp) -> LogicalTime {
        let physical = UInt64(clamping: now.milliseconds) & 0xFFFF_FFFF_FFFF
        let (successor, overflow) = rawValue.addingReportingOverflow(1)
        return LogicalTime(rawValue: max(physical << 16, overflow ? rawValue : successor))
    }

    /// Whether `left` comes before `right`.
    public static func < (left: LogicalTime, right: LogicalTime) -> Bool {
        left.rawValue < right.rawValue
    }
}
