import SyncCoreTesting

/// Random decisions that do not depend on each other: which numbers come for one place and occasion depends on the
/// seed, the place and the occasion alone. So a step that is left out changes nothing for the others.
struct Dice: Sendable {
    let seed: UInt64

    func generator(for place: Int, _ occasion: Int, _ purpose: Purpose) -> SeededGenerator {
        var mixer = SeededGenerator(seed: seed ^ (UInt64(truncatingIfNeeded: place) &* 0xD6E8_FEB8_6659_FD93))
        mixer = SeededGenerator(seed: mixer.next() ^ UInt64(truncatingIfNeeded: occasion) &* 0xA076_1D64_78BD_642F)
        return SeededGenerator(seed: mixer.next() &+ UInt64(purpose.rawValue))
    }

    enum Purpose: Int {
        case message = 1
        case disk
        case host
        case remote
        case drawing
    }
}

extension SeededGenerator {
    /// Whether something happens that happens in so many of a thousand cases.
    mutating func happens(perMille rate: Int) -> Bool {
        rate > 0 && next() % 1_000 < UInt64(rate)
    }

    /// A number in `range`, which no toolchain decides: a seed is to mean the same run for ever.
    mutating func pick(_ range: ClosedRange<Int64>) -> Int64 {
        let count = UInt64(bitPattern: range.upperBound &- range.lowerBound) &+ 1
        guard count > 0 else { return Int64(bitPattern: next()) }
        // The high word of random × count is even once the lowest (2^64 mod count) low words are left out.
        var product = next().multipliedFullWidth(by: count)
        let surplus = (0 &- count) % count
        while product.low < surplus { product = next().multipliedFullWidth(by: count) }
        return range.lowerBound &+ Int64(bitPattern: product.high)
    }
}
