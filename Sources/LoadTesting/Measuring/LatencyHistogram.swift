/// How often which latency was seen, in nanoseconds, in memory that does not grow.
///
/// Values below 256 are counted each by itself. Above that every power of two is divided into 128 equal parts, so a
/// percentile is told with an error of less than 0.4 %: the middle of a part that is at most 1/128 of its value wide.
package struct LatencyHistogram: Sendable {
    private static let partBits = 7
    private static let exactCount = 1 << (partBits + 1)
    private static let bucketCount = exactCount + (63 - partBits) << partBits

    private var counts = [UInt64](repeating: 0, count: bucketCount)
    /// How many there are.
    package private(set) var count: UInt64 = 0
    /// The largest, exactly; 0 where there is none.
    package private(set) var most: UInt64 = 0

    package init() {}

    /// Counts one more.
    package mutating func record(_ nanoseconds: Int64) {
        let value = UInt64(max(0, nanoseconds))
        counts[Self.bucket(of: value)] += 1
        count += 1
        most = max(most, value)
    }

    /// Counts all of `other`.
    package mutating func add(_ other: LatencyHistogram) {
        for index in other.counts.indices { counts[index] += other.counts[index] }
        count += other.count
        most = max(most, other.most)
    }

    /// The smallest value that at least `fraction` of all do not exceed; `nil` where there is none.
    ///
    /// - Parameter fraction: 0.5 for the median; from 0 to 1.
    package func percentile(_ fraction: Double) -> UInt64? {
        guard count > 0 else { return nil }
        let rank = min(count, max(1, UInt64((Double(count) * fraction).rounded(.up))))
        var seen: UInt64 = 0
        for (index, number) in counts.enumerated() where number > 0 {
            seen += number
            // No value is told that is larger than all of them.
            if seen >= rank { return min(most, Self.middle(of: index)) }
        }
        return most
    }

    private static func bucket(of value: UInt64) -> Int {
        if value < exactCount { return Int(value) }
        let shift = 63 - value.leadingZeroBitCount - partBits
        return exactCount + (shift - 1) << partBits + Int(value >> UInt64(shift)) - 1 << partBits
    }

    private static func middle(of bucket: Int) -> UInt64 {
        if bucket < exactCount { return UInt64(bucket) }
        let place = bucket - exactCount
        let shift = UInt64(place >> partBits + 1)
        let part = UInt64(place & (1 << partBits - 1) + 1 << partBits)
        return part << shift + (1 << shift) / 2
    }
}

extension LatencyHistogram: CustomStringConvertible {
    package var description: String {
        "\(count) latencies, median \(percentile(0.5) ?? 0) ns, \(most) ns at most"
    }
}
