import LoadTesting
import SyncCoreTesting
import Testing

@Suite("The histogram of latencies")
struct LatencyHistogramTests {
    @Test(
        "A percentile is at most 0.4 % from the sorted values, from nanoseconds to hours",
        arguments: [1, 2, 3] as [UInt64])
    func percentilesAreClose(seed: UInt64) throws {
        var generator = SeededGenerator(seed: seed)
        var histogram = LatencyHistogram()
        var values: [Int64] = []
        for _ in 0..<50_000 {
            let bits = Int.random(in: 0...43, using: &generator)
            let value = Int64.random(in: 0...(1 << bits), using: &generator)
            values.append(value)
            histogram.record(value)
        }
        values.sort()
        for fraction in [0.001, 0.1, 0.5, 0.9, 0.99, 0.999, 1] {
            let exact = Double(values[max(0, Int((Double(values.count) * fraction).rounded(.up)) - 1)])
            let told = Double(try #require(histogram.percentile(fraction)))
            #expect(abs(told - exact) <= exact * 0.004, "seed \(seed), \(fraction): \(told) for \(exact)")
        }
        #expect(histogram.maximum == values.last.map(UInt64.init))
        #expect(histogram.count == 50_000)
    }

    @Test("Small values and the largest possible one are exact")
    func endsAreExact() {
        var histogram = LatencyHistogram()
        #expect(histogram.percentile(0.5) == nil)
        for value in 0..<256 { histogram.record(Int64(value)) }
        #expect(histogram.percentile(0.5) == 127)
        #expect(histogram.percentile(0) == 0)
        #expect(histogram.percentile(1) == 255)
        histogram.record(.max)
        #expect(histogram.maximum == UInt64(Int64.max))
        #expect(histogram.percentile(1).map { $0 > UInt64(Int64.max) / 250 * 249 } == true)
        // A clock that was set back must not crash.
        histogram.record(-5)
        #expect(histogram.count == 258)
    }

    @Test("The sum of two histograms is the histogram of all values")
    func unionIsBoth() {
        var (left, right, both) = (LatencyHistogram(), LatencyHistogram(), LatencyHistogram())
        for value in stride(from: Int64(1), to: 5_000_000, by: 997) {
            if value % 2 == 0 { left.record(value) } else { right.record(value) }
            both.record(value)
        }
        left.add(right)
        for fraction in [0.01, 0.5, 0.99, 1] { #expect(left.percentile(fraction) == both.percentile(fraction)) }
        #expect((left.count, left.maximum) == (both.count, both.maximum))
    }
}
