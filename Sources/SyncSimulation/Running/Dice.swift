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

    /// A number in `range`.
    mutating func pick(_ range: ClosedRange<Int64>) -> Int64 {
        Int64.random(in: range, using: &self)
    }
}
