/// Strict base64 (RFC 4648): one text for each byte string, nothing is skipped.
package struct Base64: Sendable {
    /// The usual alphabet, with padding.
    package static let standard = Base64(last: "+/", isPadded: true)
    /// The usual alphabet without padding, as in password hashes.
    package static let unpadded = Base64(last: "+/", isPadded: false)
    /// The alphabet for URLs, without padding, as in JSON web signatures.
    package static let url = Base64(last: "-_", isPadded: false)

    private static let invalid: UInt8 = 0xFF
    private let digits: [UInt8]
    private let values: [UInt8]
    private let isPadded: Bool

    private init(last: String, isPadded: Bool) {
        digits = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789\(last)".utf8)
        var values = [UInt8](repeating: Self.invalid, count: 256)
        for (value, byte) in digits.enumerated() { values[Int(byte)] = UInt8(value) }
        (self.values, self.isPadded) = (values, isPadded)
    }

    /// Returns the text for `bytes`.
    package func encode(_ bytes: some Collection<UInt8>) -> String {
        var text: [UInt8] = []
        text.reserveCapacity((bytes.count + 2) / 3 * 4)
        var (buffer, bitCount) = (UInt32(0), UInt32(0))
        for byte in bytes {
            buffer = buffer << 8 | UInt32(byte)
            bitCount += 8
            while bitCount >= 6 {
                bitCount -= 6
                text.append(digits[Int(buffer >> bitCount & 63)])
            }
        }
        if bitCount > 0 { text.append(digits[Int(buffer << (6 - bitCount) & 63)]) }
        while isPadded, !text.count.isMultiple(of: 4) { text.append(UInt8(ascii: "=")) }
        return String(decoding: text, as: UTF8.self)
    }

    /// Returns the bytes that `text` encodes; `nil` if it is not canonical.
    package func decode(_ text: some Collection<UInt8>) -> [UInt8]? {
        var digits = Array(text)
        if isPadded {
            guard digits.count.isMultiple(of: 4) else { return nil }
            for _ in 0..<2 where digits.last == UInt8(ascii: "=") { digits.removeLast() }
        }
        guard digits.count % 4 != 1 else { return nil }
        var bytes: [UInt8] = []
        bytes.reserveCapacity(digits.count / 4 * 3 + 2)
        var (buffer, bitCount) = (UInt32(0), 0)
        for digit in digits {
            let value = values[Int(digit)]
            guard value != Self.invalid else { return nil }
            buffer = buffer << 6 | UInt32(value)
            bitCount += 6
            if bitCount >= 8 {
                bitCount -= 8
                bytes.append(UInt8(truncatingIfNeeded: buffer >> UInt32(bitCount)))
            }
        }
        // The bits after the last byte must be zero; otherwise several texts would encode the same bytes.
        guard buffer & (1 << UInt32(bitCount) - 1) == 0 else { return nil }
        return bytes
    }
}

extension Sequence<UInt8> {
    /// The bytes as text: two lower-case hexadecimal digits each.
    package var hexadecimal: String {
        map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
    }
}
