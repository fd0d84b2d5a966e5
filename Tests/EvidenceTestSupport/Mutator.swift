import TestSupport

/// Changes documents at random places: bits, bytes, lengths, copies of parts, and cuts.
package struct Mutator: RandomNumberGenerator {
    /// The number of mutants of each test.
    package static let count = Soak.mutantCount

    private var state: UInt64

    /// Creates a mutator. Equal seeds give equal mutants.
    package init(seed: UInt64) { state = seed }

    /// The generator xorshift64*.
    package mutating func next() -> UInt64 {
        state ^= state >> 12
        state ^= state << 25
        state ^= state >> 27
        return state &* 0x2545_F491_4F6C_DD1D
    }

    /// Returns a changed copy, which differs from `bytes`.
    package mutating func mutant(of bytes: [UInt8]) -> [UInt8] {
        var mutant = bytes
        repeat {
            for _ in 0..<Int.random(in: 1...3, using: &self) { change(&mutant) }
        } while mutant == bytes
        return mutant
    }

    private mutating func change(_ bytes: inout [UInt8]) {
        guard !bytes.isEmpty else { return bytes.append(0) }
        let place = Int.random(in: 0..<bytes.count, using: &self)
        switch Int.random(in: 0..<6, using: &self) {
        case 0: bytes[place] ^= 1 << UInt8.random(in: 0..<8, using: &self)
        case 1: bytes[place] = UInt8.random(in: 0...255, using: &self)
        case 2: bytes[place] = [0x00, 0x30, 0x31, 0x7F, 0x80, 0x84, 0xFF].randomElement(using: &self) ?? 0
        case 3: bytes.remove(at: place)
        case 4:
            let end = min(bytes.count, place + Int.random(in: 1...40, using: &self))
            bytes.insert(contentsOf: bytes[place..<end], at: Int.random(in: 0...bytes.count, using: &self))
        default: bytes.removeSubrange(place..<min(bytes.count, place + Int.random(in: 1...40, using: &self)))
        }
    }
}
