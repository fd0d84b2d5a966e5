package import SyncCoreTesting

/// Derives independent random streams from a seed. A stream depends only on the seed, the place, the occasion and the
/// purpose, so leaving out a step of a scenario does not change the decisions of the others.
package struct RandomSource: Sendable {
    package let seed: UInt64

    package init(seed: UInt64) { self.seed = seed }

    package func generator(for place: Int, _ occasion: Int, _ purpose: Purpose) -> SeededGenerator {
        var mixer = SeededGenerator(seed: seed ^ (UInt64(truncatingIfNeeded: place) &* 0xD6E8_FEB8_6659_FD93))
        mixer = SeededGenerator(seed: mixer.next() ^ UInt64(truncatingIfNeeded: occasion) &* 0xA076_1D64_78BD_642F)
        return SeededGenerator(seed: mixer.next() &+ UInt64(purpose.rawValue))
    }

    package enum Purpose: Int {
        case message = 1
        case disk
        case host
        case remote
        case scenario
        case cluster
    }
}

extension SeededGenerator {
    /// Returns `true` with a probability of `rate` per mille.
    package mutating func happens(perMille rate: Int) -> Bool {
        rate > 0 && next() % 1_000 < UInt64(rate)
    }

    /// A uniformly distributed number in `range`. It is implemented here, since a seed must give the same run with
    /// every toolchain.
    package mutating func pick(_ range: ClosedRange<Int64>) -> Int64 {
        let count = UInt64(bitPattern: range.upperBound &- range.lowerBound) &+ 1
        guard count > 0 else { return Int64(bitPattern: next()) }
        // The high word of random × count is uniform once the lowest (2^64 mod count) low words are rejected.
        var product = next().multipliedFullWidth(by: count)
        let surplus = (0 &- count) % count
        while product.low < surplus { product = next().multipliedFullWidth(by: count) }
        return range.lowerBound &+ Int64(bitPattern: product.high)
    }
    /// One of `elements`, of which there must be at least one.
    package mutating func pick<Element>(_ elements: [Element]) -> Element {
        elements[Int(pick(0...Int64(elements.count - 1)))]
    }
}
