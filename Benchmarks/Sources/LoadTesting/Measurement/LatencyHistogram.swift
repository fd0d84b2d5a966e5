/// A histogram of latencies in nanoseconds, of constant size.
///
/// Values below 256 have a bucket each. Above that every power of two is divided into 128 buckets of equal width, so
/// that a percentile, which is the middle of a bucket, is at most 0.4 % off.
package struct LatencyHistogram: Sendable {
    private static let partBits = 7
    private static let exactCount = 1 << (partBits + 1)
    private static let bucketCount = exactCount + (63 - partBits) << partBits

    private var counts = [UInt64](repeating: 0, count: bucketCount)
    /// The number of recorded values.
    package private(set) var count: UInt64 = 0
    /// The largest value, exactly; 0 without values.
    package private(set) var maximum: UInt64 = 0

    package init() {}

    package mutating func record(_ nanoseconds: Int64) {
        let value = UInt64(max(0, nanoseconds))
        counts[Self.bucket(of: value)] += 1
        count += 1
        maximum = max(maximum, value)
    }

    package mutating func add(_ other: LatencyHistogram) {
        for index in other.counts.indices { counts[index] += other.counts[index] }
        count += other.count
        maximum = max(maximum, other.maximum)
    }

    /// The smallest value that at least `fraction` of the values do not exceed; `nil` without values.
    ///
    /// - Parameter fraction: 0 to 1; 0.5 for the median.
    package func percentile(_ fraction: Double) -> UInt64? {
        guard count > 0 else { return nil }
        let rank = min(count, max(1, UInt64((Double(count) * fraction).rounded(.up))))
        var seen: UInt64 = 0
        for (index, number) in counts.enumerated() where number > 0 {
            seen += number
            // The middle of the last bucket may exceed the largest value.
            if seen >= rank { return min(maximum, Self.middle(of: index)) }
        }
        return maximum
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
        "\(count) latencies, median \(percentile(0.5) ?? 0) ns, \(maximum) ns at most"
    }
}
