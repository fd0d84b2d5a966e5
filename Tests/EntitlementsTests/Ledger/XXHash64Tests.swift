import Checksums
import EntitlementsTestSupport
import Testing

@Suite("XXH64 gives the digests of the reference implementation")
struct XXHash64Tests {
    @Test("Digests of the empty input and of published examples match")
    func published() {
        #expect(XXHash64.digest(of: []) == 0xEF46_DB37_51D8_E999)
        #expect(XXHash64.digest(of: "abc".utf8) == 0x44BC_2CF5_AD77_0999)
    }

    @Test("Digests of 0 to 300 bytes with two seeds match")
    func vectors() {
        // The digest of all digests by the reference implementation (xxHash 0.8.4), big-endian.
        var digests: [UInt8] = []
        for count in 0...300 {
            let bytes = (0..<count).map { UInt8(truncatingIfNeeded: $0 * 167 + 13) ^ UInt8($0 / 256) }
            for seed in [0, 0x9E37_79B1_85EB_CA87] as [UInt64] {
                withUnsafeBytes(of: XXHash64.digest(of: bytes, seed: seed).bigEndian) { digests += $0 }
            }
        }
        #expect(XXHash64.digest(of: digests) == 0x3BF4_CF17_4E5D_BE94)
    }

    @Test("Digests match for any alignment and for collections that are not contiguous")
    func places() throws {
        try forAll("places of bytes", cases: 500) { random, place in
            let bytes = random.bytes(0...300)
            let offset = Int(random.int(0...9))
            let moved = [UInt8](repeating: 0xAA, count: offset) + bytes + [0xAA]
            let digest = XXHash64.digest(of: bytes)
            try #require(XXHash64.digest(of: moved[offset..<offset + bytes.count]) == digest, "\(place)")
            try #require(XXHash64.digest(of: bytes.lazy.map { $0 }) == digest, "\(place)")
            moved.withUnsafeBytes { buffer in
                let part = UnsafeRawBufferPointer(rebasing: buffer[offset..<offset + bytes.count])
                #expect(XXHash64.digest(of: part) == digest, "\(place)")
            }
        }
    }
}
