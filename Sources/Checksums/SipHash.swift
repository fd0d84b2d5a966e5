/// SipHash-2-4 (Aumasson and Bernstein, 2012), a keyed hash.
///
/// Without the key an attacker cannot construct many inputs with the same hash, which ``XXHash64`` allows for any seed.
/// It is slower than ``XXHash64``.
package enum SipHash {
    private typealias State = (UInt64, UInt64, UInt64, UInt64)

    /// The hash of `bytes` under a 128-bit key, given as two halves.
    ///
    /// - Complexity: O(*n*) in the number of bytes.
    package static func digest(of bytes: [UInt8], key: (UInt64, UInt64)) -> UInt64 {
        var state: State = (
            key.0 ^ 0x736F_6D65_7073_6575, key.1 ^ 0x646F_7261_6E64_6F6D, key.0 ^ 0x6C79_6765_6E65_7261,
            key.1 ^ 0x7465_6462_7974_6573
        )
        for start in stride(from: 0, through: bytes.count - bytes.count % 8, by: 8) {
            var word: UInt64 = 0
            for (place, byte) in bytes[start..<min(start + 8, bytes.count)].enumerated() {
                word |= UInt64(byte) << (8 * UInt64(place))
            }
            // The top byte of the last word is the length modulo 256.
            if bytes.count - start < 8 { word |= UInt64(UInt8(truncatingIfNeeded: bytes.count)) << 56 }
            state.3 ^= word
            for _ in 0..<2 { round(&state) }
            state.0 ^= word
        }
        state.2 ^= 0xFF
        for _ in 0..<4 { round(&state) }
        return state.0 ^ state.1 ^ state.2 ^ state.3
    }

    private static func round(_ state: inout State) {
        state.0 &+= state.1
        state.1 = rotate(state.1, 13) ^ state.0
        state.0 = rotate(state.0, 32)
        state.2 &+= state.3
        state.3 = rotate(state.3, 16) ^ state.2
        state.0 &+= state.3
        state.3 = rotate(state.3, 21) ^ state.0
        state.2 &+= state.1
        state.1 = rotate(state.1, 17) ^ state.2
        state.2 = rotate(state.2, 32)
    }

    private static func rotate(_ word: UInt64, _ count: UInt64) -> UInt64 { word << count | word >> (64 - count) }
}
