/// Detects patterns in a few hundred versions or tags, in the order of their creation, that random bits or digests
/// would not show.
///
/// The thresholds are far beyond chance. For 256 samples of 64 random bits or more, in binary or in any encoding, each
/// finding has a probability below one in a thousand million.
package enum Regularity {
    /// The least number of bits that must vary. In so many samples a counter varies in about 8 bits, a time in
    /// nanoseconds in about 30, and a random number of 64 bits in 57.
    private static let leastBits = 48.0

    /// Returns one line that describes the pattern, or `nil` if there is none.
    ///
    /// - Parameter samples: 200 or more.
    package static func found(in samples: [[UInt8]]) -> String? {
        precondition(samples.count >= 200, "at least 200 samples are required")
        let distinct = Set(samples).count
        guard distinct == samples.count else { return "only \(distinct) of \(samples.count) differ" }
        let steps = zip(samples, samples.dropFirst())
        let orders: [(String, ([UInt8], [UInt8]) -> Bool)] = [
            ("byte by byte", { $0.lexicographicallyPrecedes($1) }),
            ("byte by byte from the last", { $0.reversed().lexicographicallyPrecedes($1.reversed()) }),
        ]
        for (name, precedes) in orders {
            let rising = steps.count { precedes($0, $1) }
            for (count, word) in [(rising, "larger"), (samples.count - 1 - rising, "smaller")]
            where count * 4 > samples.count * 3 {
                return "compared \(name), \(count) of \(samples.count - 1) are \(word) than the one before"
            }
        }
        let bits = varyingBits(of: samples)
        guard bits >= leastBits else { return "only about \(Int(bits.rounded())) of their bits vary" }
        for (name, reversed) in [("", false), (" (from the last byte)", true)] {
            var counts: [[UInt8]: Int] = [:]
            for (first, second) in steps where first.count == second.count {
                let bigEndian = reversed ? (first.reversed(), second.reversed()) : (first, second)
                counts[difference(bigEndian.1, bigEndian.0), default: 0] += 1
            }
            let most = counts.values.max() ?? 0
            if most > 3 {
                return "\(most) of \(samples.count - 1) differ by the same amount from the one before\(name)"
            }
        }
        return nil
    }

    /// The sum of the entropies of all byte positions, as far as the samples show them.
    private static func varyingBits(of samples: [[UInt8]]) -> Double {
        let length = samples.map(\.count).max() ?? 0
        return (0..<length).reduce(0) { sum, place in
            var counts = [Int](repeating: 0, count: 257)
            for sample in samples { counts[place < sample.count ? Int(sample[place]) : 256] += 1 }
            return sum
                + counts.reduce(0) { sum, count in
                    let share = Double(count) / Double(samples.count)
                    return count == 0 ? sum : sum - share * logarithm(share)
                }
        }
    }

    /// The logarithm to base 2 of a number above 0 and up to 1. The standard library without Foundation has none.
    private static func logarithm(_ value: Double) -> Double {
        var (mantissa, result, step) = (value.significand, Double(value.exponent), 0.5)
        for _ in 0..<40 {
            mantissa *= mantissa
            if mantissa >= 2 {
                mantissa /= 2
                result += step
            }
            step /= 2
        }
        return result
    }

    /// Returns `left - right` for two numbers of the same length, the most significant byte first, modulo their range.
    private static func difference(_ left: [UInt8], _ right: [UInt8]) -> [UInt8] {
        var result = left
        var borrow = 0
        for index in left.indices.reversed() {
            let digit = Int(left[index]) - Int(right[index]) - borrow
            borrow = digit < 0 ? 1 : 0
            result[index] = UInt8(truncatingIfNeeded: digit)
        }
        return result
    }
}
