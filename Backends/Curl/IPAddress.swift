/// The kinds of IP addresses, for a client that connects to some of them only.
package enum IPAddress {
    /// The ranges of IPv4 that are not public: this network, private, shared, loopback, link-local, documentation,
    /// benchmarks, multicast and reserved (RFC 6890 and the IANA registry of special-purpose addresses).
    private static let special4: [(base: UInt32, bitCount: UInt32)] = [
        (0x0000_0000, 8), (0x0A00_0000, 8), (0x6440_0000, 10), (0x7F00_0000, 8), (0xA9FE_0000, 16), (0xAC10_0000, 12),
        (0xC000_0000, 24), (0xC000_0200, 24), (0xC058_6300, 24), (0xC0A8_0000, 16), (0xC612_0000, 15),
        (0xC633_6400, 24), (0xCB00_7100, 24), (0xE000_0000, 4), (0xF000_0000, 4),
    ]

    /// Returns `true` for an address of 4 or 16 bytes that the whole Internet can reach.
    ///
    /// Of IPv6, addresses that contain one of IPv4 are public if that one is, and all others only if they are assigned
    /// as global unicast addresses without another purpose.
    package static func isPublic(_ address: [UInt8]) -> Bool {
        switch address.count {
        case 4:
            let number = address.reduce(UInt32(0)) { $0 << 8 | UInt32($1) }
            return !special4.contains { number >> (32 - $0.bitCount) == $0.base >> (32 - $0.bitCount) }
        case 16:
            if address.starts(with: mapped) || address.starts(with: translated) {
                return isPublic(Array(address.suffix(4)))
            }
            // 6to4.
            if address.starts(with: [0x20, 0x02]) { return isPublic(Array(address[2..<6])) }
            let isSpecial =
                // Protocols such as Teredo, and documentation.
                address.starts(with: [0x20, 0x01, 0x0D, 0xB8])
                || address[0] == 0x20 && address[1] == 0x01 && address[2] < 0x02
                || address[0] == 0x3F && address[1] == 0xFF && address[2] < 0x10
            return address[0] >> 5 == 0b001 && !isSpecial
        default: return false
        }
    }

    /// `::ffff:0:0/96`.
    private static let mapped = [UInt8](repeating: 0, count: 10) + [0xFF, 0xFF]
    /// `64:ff9b::/96`, addresses of a translator.
    private static let translated = [0x00, 0x64, 0xFF, 0x9B] + [UInt8](repeating: 0, count: 8)

    /// The address for messages.
    static func text(of address: [UInt8]) -> String {
        guard address.count == 16 else { return address.map { String($0) }.joined(separator: ".") }
        if address.starts(with: mapped) { return text(of: Array(address.suffix(4))) }
        return stride(from: 0, to: 16, by: 2).map { index in
            String(UInt16(address[index]) << 8 | UInt16(address[index + 1]), radix: 16)
        }.joined(separator: ":")
    }
}
