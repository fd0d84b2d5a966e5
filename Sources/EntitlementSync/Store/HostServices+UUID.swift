package import SyncCore

extension HostServices {
    /// A random UUID (RFC 9562, version 4), lower case.
    package func randomUUID() -> String {
        let high = randomBits() & 0xFFFF_FFFF_FFFF_0FFF | 0x4000
        let low = randomBits() & 0x3FFF_FFFF_FFFF_FFFF | 0x8000_0000_0000_0000
        let digits = Hexadecimal.text(high) + Hexadecimal.text(low)
        var parts: [Substring] = []
        var rest = digits[...]
        for count in [8, 4, 4, 4, 12] {
            parts.append(rest.prefix(count))
            rest = rest.dropFirst(count)
        }
        return parts.joined(separator: "-")
    }
}
