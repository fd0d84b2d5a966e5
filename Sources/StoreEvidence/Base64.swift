#if Evidence
/// Strict base64 (RFC 4648): one text for each byte string, nothing is skipped.
struct Base64: Sendable {
    /// The usual alphabet. Padding is required.
    static let standard = Base64(last: "+/", isPadded: true)
    /// The alphabet for URLs, without padding, as in JSON web signatures.
    static let url = Base64(last: "-_", isPadded: false)

    private static let invalid: UInt8 = 0xFF
    private let values: [UInt8]
    private let isPadded: Bool

    private init(last: String, isPadded: Bool) {
        let alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789" + last
        var values = [UInt8](repeating: Self.invalid, count: 256)
        for (value, byte) in alphabet.utf8.enumerated() { values[Int(byte)] = UInt8(value) }
        (self.values, self.isPadded) = (values, isPadded)
    }

    /// Returns the bytes that `text` encodes; `nil` if it is not canonical.
    func decode(_ text: some Collection<UInt8>) -> [UInt8]? {
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
#endif
