/// The numeric IP address of a client.
///
/// An IPv4 address is stored as an IPv4-mapped IPv6 address (`::ffff:0:0/96`), so that both versions share one
/// representation.
package struct ClientAddress: Hashable, Sendable {
    /// The upper and the lower 64 bits.
    package let high: UInt64
    package let low: UInt64

    package init(high: UInt64, low: UInt64) { (self.high, self.low) = (high, low) }

    /// The lower half of the IPv4-mapped range.
    private static let mapped: UInt64 = 0xFFFF_0000_0000

    /// Parses an IPv4 address in dotted decimal form, or an IPv6 address (RFC 4291, section 2.2). Ignores an IPv6 zone
    /// after `%`. Returns `nil` for any other text.
    package init?(_ text: some StringProtocol) {
        let isVersion6 = text.utf8.contains(UInt8(ascii: ":"))
        if isVersion6 {
            guard let parts = Self.parts(of: text.prefix { $0 != "%" }) else { return nil }
            high = parts[..<4].reduce(0) { $0 << 16 | UInt64($1) }
            low = parts[4...].reduce(0) { $0 << 16 | UInt64($1) }
        } else {
            guard let number = Self.number(of: text.utf8) else { return nil }
            (high, low) = (0, Self.mapped | UInt64(number))
        }
    }

    /// True for an IPv4 or IPv4-mapped address.
    package var isVersion4: Bool { high == 0 && low >> 32 == 0xFFFF }

    /// True for a loopback address.
    package var isLoopback: Bool {
        isVersion4 ? low >> 24 & 0xFF == 127 : high == 0 && low == 1
    }

    /// The network of one subscriber: the address itself for IPv4, and its /64 for IPv6, because a subscriber can use
    /// any address in it.
    package var network: ClientAddress { isVersion4 ? self : ClientAddress(high: high, low: 0) }

    /// Returns the address with all but the first `count` of its 128 bits set to 0.
    package func prefix(_ count: Int) -> ClientAddress {
        let highMask: UInt64 = count >= 64 ? .max : count <= 0 ? 0 : ~(.max >> UInt64(count))
        let lowMask: UInt64 = count >= 128 ? .max : count <= 64 ? 0 : ~(.max >> UInt64(count - 64))
        return ClientAddress(high: high & highMask, low: low & lowMask)
    }

    /// Returns the key for counting wrong guesses: the /64 of an IPv6 address, or an IPv4 address in dotted decimal
    /// form, also if `peer` is IPv4-mapped. For any other text it is `peer` itself.
    static func guessKey(_ peer: String) -> String {
        guard let address = ClientAddress(peer) else { return peer }
        guard !address.isVersion4 else {
            return [24, 16, 8, 0].map { "\(address.low >> $0 & 0xFF)" }.joined(separator: ".")
        }
        return String(address.network.high, radix: 16) + "::/64"
    }

    /// Parses four decimal numbers with dots.
    private static func number(of text: some Sequence<UInt8>) -> UInt32? {
        var (value, part, digits, dots): (UInt32, UInt32, Int, Int) = (0, 0, 0, 0)
        for byte in text {
            if byte == UInt8(ascii: ".") {
                guard digits > 0, dots < 3 else { return nil }
                (value, part, digits, dots) = (value << 8 | part, 0, 0, dots + 1)
            } else {
                // Leading zeros are rejected, because some parsers read the number as octal.
                guard (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte), digits == 0 || part > 0 else {
                    return nil
                }
                part = part * 10 + UInt32(byte - UInt8(ascii: "0"))
                digits += 1
                guard part <= 255 else { return nil }
            }
        }
        return dots == 3 && digits > 0 ? value << 8 | part : nil
    }

    /// Parses the eight groups of an IPv6 address. One `::` replaces groups of zeros.
    private static func parts(of text: some StringProtocol) -> [UInt16]? {
        let bytes = Array(text.utf8)
        let colon = UInt8(ascii: ":")
        guard let gap = bytes.indices.dropLast().first(where: { bytes[$0] == colon && bytes[$0 + 1] == colon }) else {
            guard let parts = groups(bytes[...]), parts.count == 8 else { return nil }
            return parts
        }
        guard let before = groups(bytes[..<gap], isAtEnd: false), let after = groups(bytes[(gap + 2)...]),
            before.count + after.count < 8
        else { return nil }
        return before + [UInt16](repeating: 0, count: 8 - before.count - after.count) + after
    }

    /// Parses groups separated by colons. At the end of an address, an IPv4 address may replace the last two groups.
    private static func groups(_ bytes: ArraySlice<UInt8>, isAtEnd: Bool = true) -> [UInt16]? {
        guard !bytes.isEmpty else { return [] }
        var groups: [UInt16] = []
        let pieces = bytes.split(separator: UInt8(ascii: ":"), omittingEmptySubsequences: false)
        for (index, piece) in pieces.enumerated() {
            if isAtEnd, index == pieces.count - 1, piece.contains(UInt8(ascii: ".")) {
                guard let number = number(of: piece) else { return nil }
                groups += [UInt16(number >> 16), UInt16(truncatingIfNeeded: number)]
                continue
            }
            guard (1...4).contains(piece.count) else { return nil }
            var value: UInt16 = 0
            for byte in piece {
                guard let digit = Character(UnicodeScalar(byte)).hexDigitValue else { return nil }
                value = value << 4 | UInt16(digit)
            }
            groups.append(value)
        }
        return groups
    }
}
