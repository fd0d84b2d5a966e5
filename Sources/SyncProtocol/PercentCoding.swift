import SyncCore

/// Percent-encoding (RFC 3986, section 2.1): `%` and two hexadecimal digits for each byte that is not unreserved.
package enum PercentCoding {
    private static let digits = Array("0123456789ABCDEF".utf8)
    private static let percent = UInt8(ascii: "%")

    /// Returns `true` if `byte` needs no encoding in any part of a URI (RFC 3986, section 2.3).
    static func isUnreserved(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"),
            UInt8(ascii: "~"):
            true
        default: false
        }
    }

    static func encoded(_ byte: UInt8) -> [UInt8] { [percent, digits[Int(byte >> 4)], digits[Int(byte & 0xF)]] }

    /// The decoded bytes of `text`; `nil` if a percent sign is not followed by two hexadecimal digits.
    package static func decoded(_ text: some Sequence<UInt8>) -> [UInt8]? {
        var decoded: [UInt8] = []
        var iterator = text.makeIterator()
        while let byte = iterator.next() {
            guard byte == percent else {
                decoded.append(byte)
                continue
            }
            guard let high = iterator.next().flatMap(Hexadecimal.value),
                let low = iterator.next().flatMap(Hexadecimal.value)
            else { return nil }
            decoded.append(high << 4 | low)
        }
        return decoded
    }
}
