/// A random number generator that is determined by its seed, so that a failing test can be reproduced.
///
/// SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014): fast and well
/// distributed, but not suitable for secrets.
///
/// ```swift
/// var generator = SeededGenerator(seed: 42)
/// let roll = Int.random(in: 1...6, using: &generator)
/// ```
public struct SeededGenerator: RandomNumberGenerator, Sendable {
    private var state: UInt64

    /// Creates a generator that returns the same numbers for the same `seed`.
    public init(seed: UInt64) {
        state = seed
    }

    /// Returns the next 64 bits.
    public mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return mixed ^ (mixed >> 31)
    }

    /// Returns random bytes; their number is drawn from `counts`.
    public mutating func bytes(count counts: ClosedRange<Int>) -> [UInt8] {
        let count = Int.random(in: counts, using: &self)
        // Return early: for a capacity of 0 the standard library writes to the empty array that all threads share.
        guard count > 0 else { return [] }
        return [UInt8](unsafeUninitializedCapacity: count) { buffer, filled in
            while filled < count {
                var word = next()
                for offset in filled..<Swift.min(filled + 8, count) {
                    buffer.initializeElement(at: offset, to: UInt8(truncatingIfNeeded: word))
                    word >>= 8
                }
                filled = Swift.min(filled + 8, count)
            }
        }
    }

    /// Returns an independent generator for a part of the work, so that parts can be reordered without affecting each
    /// other.
    package mutating func split() -> SeededGenerator {
        SeededGenerator(seed: next())
    }
}
