import SyncCore
import Testing

@Suite("Keys")
struct EntryKeyTests {
    @Test("compare and match prefixes by their bytes")
    func bytes() throws {
        let text = "accounts/alice/1/a-key-of-some-length/ö"
        let bytes = Array(text.utf8)
        let key = try EntryKey(text)
        #expect(try key == EntryKey(String(decoding: bytes, as: UTF8.self)) && key.hasPrefix(text))
        for (index, byte) in bytes.enumerated() where byte < 0x80 {
            var other = bytes
            other[index] = byte == UInt8(ascii: "x") ? UInt8(ascii: "y") : UInt8(ascii: "x")
            let otherText = String(decoding: other, as: UTF8.self)
            #expect(try key != EntryKey(otherText), "byte \(index)")
            #expect(!key.hasPrefix(otherText), "byte \(index)")
            let start = String(decoding: bytes[..<index], as: UTF8.self)
            #expect(key.hasPrefix(start) && (start.isEmpty || !key.hasPrefix(start + "~")), "byte \(index)")
            if !start.isEmpty { #expect(try key != EntryKey(start) && !EntryKey(start).hasPrefix(text)) }
        }
        // Equal as strings, but not as bytes.
        #expect(try EntryKey("o\u{308}") != EntryKey("ö") && !EntryKey("ö/1").hasPrefix("o\u{308}"))
    }

    @Test("Random bits of the system do not repeat, even for concurrent callers")
    func randomBits() async {
        let drawn = await withTaskGroup(of: [UInt64].self) { group in
            for _ in 0..<8 { group.addTask { (0..<1_000).map { _ in HostServices.system.randomBits() } } }
            return await group.reduce(into: Set<UInt64>()) { $0.formUnion($1) }
        }
        // By chance, one in 2^39 such tests draws an equal pair.
        #expect(drawn.count == 8_000)
        let ones = drawn.reduce(0) { $0 + $1.nonzeroBitCount }
        #expect(abs(ones - 256_000) < 3_000)
    }
}
