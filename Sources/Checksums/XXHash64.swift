/// XXH64, a 64-bit checksum that detects accidental damage at close to the speed of reading the data.
///
/// Follows the published XXH64 specification (Yann Collet, "xxHash fast digest algorithm", version 0.1.1), so that any
/// other implementation can verify the stored checksums. It gives no protection against deliberate changes and must not
/// be used to establish trust.
package enum XXHash64 {
    private static let prime1: UInt64 = 0x9E37_79B1_85EB_CA87
    private static let prime2: UInt64 = 0xC2B2_AE3D_27D4_EB4F
    private static let prime3: UInt64 = 0x1656_67B1_9E37_79F9
    private static let prime4: UInt64 = 0x85EB_CA77_C2B2_AE63
    private static let prime5: UInt64 = 0x27D4_EB2F_1656_67C5

    /// The digest of `bytes`.
    ///
    /// - Complexity: O(*n*) in the number of bytes.
    package static func digest(of bytes: some Collection<UInt8>, seed: UInt64 = 0) -> UInt64 {
        bytes.withContiguousStorageIfAvailable { digest(of: UnsafeRawBufferPointer($0), seed: seed) }
            ?? Array(bytes).withUnsafeBytes { digest(of: $0, seed: seed) }
    }

    /// The digest of the bytes in `buffer`.
    package static func digest(of buffer: UnsafeRawBufferPointer, seed: UInt64 = 0) -> UInt64 {
        var offset = 0
        var accumulator: UInt64
        if buffer.count >= 32 {
            accumulator = consumeStripes(of: buffer, seed: seed, offset: &offset)
        } else {
            accumulator = seed &+ prime5
        }
        accumulator &+= UInt64(buffer.count)
        return finish(accumulator, with: buffer, from: offset)
    }

    private static func consumeStripes(of buffer: UnsafeRawBufferPointer, seed: UInt64, offset: inout Int) -> UInt64 {
        var lane1 = seed &+ prime1 &+ prime2
        var lane2 = seed &+ prime2
        var lane3 = seed
        var lane4 = seed &- prime1
        while offset <= buffer.count - 32 {
            lane1 = round(lane1, word(buffer, offset))
            lane2 = round(lane2, word(buffer, offset + 8))
            lane3 = round(lane3, word(buffer, offset + 16))
            lane4 = round(lane4, word(buffer, offset + 24))
            offset += 32
        }
        var accumulator = rotate(lane1, 1) &+ rotate(lane2, 7) &+ rotate(lane3, 12) &+ rotate(lane4, 18)
        for lane in [lane1, lane2, lane3, lane4] {
            accumulator = (accumulator ^ round(0, lane)) &* prime1 &+ prime4
        }
        return accumulator
    }

    private static func finish(_ start: UInt64, with buffer: UnsafeRawBufferPointer, from start0: Int) -> UInt64 {
        var accumulator = start
        var offset = start0
        while offset + 8 <= buffer.count {
            accumulator ^= round(0, word(buffer, offset))
            accumulator = rotate(accumulator, 27) &* prime1 &+ prime4
            offset += 8
        }
        if offset + 4 <= buffer.count {
            let half = UInt32(littleEndian: buffer.loadUnaligned(fromByteOffset: offset, as: UInt32.self))
            accumulator ^= UInt64(half) &* prime1
            accumulator = rotate(accumulator, 23) &* prime2 &+ prime3
            offset += 4
        }
        while offset < buffer.count {
            accumulator ^= UInt64(buffer[offset]) &* prime5
            accumulator = rotate(accumulator, 11) &* prime1
            offset += 1
        }
        accumulator = (accumulator ^ (accumulator >> 33)) &* prime2
        accumulator = (accumulator ^ (accumulator >> 29)) &* prime3
        return accumulator ^ (accumulator >> 32)
    }

    @inline(__always)
    private static func round(_ accumulator: UInt64, _ input: UInt64) -> UInt64 {
        rotate(accumulator &+ input &* prime2, 31) &* prime1
    }

    @inline(__always)
    private static func rotate(_ value: UInt64, _ count: UInt64) -> UInt64 {
        (value << count) | (value >> (64 - count))
    }

    @inline(__always)
    private static func word(_ buffer: UnsafeRawBufferPointer, _ offset: Int) -> UInt64 {
        UInt64(littleEndian: buffer.loadUnaligned(fromByteOffset: offset, as: UInt64.self))
    }
}
