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
        #expect(XXHash64Vectors.all.count == 98)
        for vector in XXHash64Vectors.all {
            let bytes = XXHash64Vectors.bytes(vector.count)
            #expect(XXHash64.digest(of: bytes, seed: vector.seed) == vector.digest, "\(vector.count) bytes")
        }
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
