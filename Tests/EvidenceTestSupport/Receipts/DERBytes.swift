/// Writers of DER, without checks, so that tests can write invalid documents as well.
package enum DERBytes {
    /// An element with a tag and a content.
    package static func element(_ tag: UInt8, _ content: [UInt8]) -> [UInt8] {
        [tag] + length(content.count) + content
    }

    /// A constructed element with the indefinite length of BER, which ends at two zero bytes.
    package static func indefinite(_ tag: UInt8, _ content: [UInt8]) -> [UInt8] { [tag, 0x80] + content + [0, 0] }

    package static func sequence(_ elements: [UInt8]...) -> [UInt8] { element(0x30, elements.flatMap(\.self)) }
    package static func set(_ elements: [[UInt8]]) -> [UInt8] { element(0x31, elements.flatMap(\.self)) }
    package static func octets(_ content: [UInt8]) -> [UInt8] { element(0x04, content) }
    package static func utf8(_ text: String) -> [UInt8] { element(0x0C, Array(text.utf8)) }
    package static func ascii(_ text: String) -> [UInt8] { element(0x16, Array(text.utf8)) }
    /// The element with the constructed, context-specific tag `[number]`.
    package static func context(_ number: UInt8, _ content: [UInt8]) -> [UInt8] { element(0xA0 | number, content) }

    /// An integer that is not negative.
    package static func integer(_ value: Int) -> [UInt8] {
        var bytes: [UInt8] = []
        var rest = value
        repeat {
            bytes.insert(UInt8(rest & 0xFF), at: 0)
            rest >>= 8
        } while rest > 0
        return element(0x02, bytes[0] & 0x80 == 0 ? bytes : [0] + bytes)
    }

    private static func length(_ count: Int) -> [UInt8] {
        guard count >= 0x80 else { return [UInt8(count)] }
        var bytes: [UInt8] = []
        var rest = count
        while rest > 0 {
            bytes.insert(UInt8(rest & 0xFF), at: 0)
            rest >>= 8
        }
        return [0x80 | UInt8(bytes.count)] + bytes
    }
}
