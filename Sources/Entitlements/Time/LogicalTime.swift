/// A timestamp of a hybrid logical clock. It is later than every fact that its replica had seen.
///
/// The physical part is milliseconds since 1970 by the replica's clock; the counter distinguishes facts of the same
/// millisecond. A logical time orders facts. Never use it as a date, because the clock may have been wrong.
public struct LogicalTime: Hashable, Comparable, Sendable {
    /// The physical part in the upper 48 bits, the counter in the lower 16.
    public let rawValue: UInt64

    /// The logical time before every fact.
    public static let zero = LogicalTime(rawValue: 0)

    /// Creates a logical time from its stored value.
    public init(rawValue: UInt64) {
        self.rawValue = rawValue
    }

    /// The physical part in milliseconds since 1970, by the replica's clock.
    package var physicalMilliseconds: Int64 { Int64(rawValue >> 16) }

    /// The counter of facts with the same physical part.
    package var counter: UInt16 { UInt16(truncatingIfNeeded: rawValue) }

    /// Returns the time of a new fact, made at `now` by a replica whose latest known fact has this time.
    ///
    /// The result is later than this time, and not earlier than `now`, as far as the range allows.
    public func next(at now: Timestamp) -> LogicalTime {
        let physical = UInt64(clamping: now.milliseconds) & 0xFFFF_FFFF_FFFF
        let (successor, overflow) = rawValue.addingReportingOverflow(1)
        return LogicalTime(rawValue: max(physical << 16, overflow ? rawValue : successor))
    }

    /// Returns `true` if `left` is before `right`.
    public static func < (left: LogicalTime, right: LogicalTime) -> Bool {
        left.rawValue < right.rawValue
    }
}
