// It declares `inet_pton`, which FoundationEssentials does not.
import Foundation

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
        let zone = isVersion6 ? text.utf8.firstIndex(of: UInt8(ascii: "%")) : nil
        let text = String(text[..<(zone ?? text.endIndex)])
        // A C string ends at a zero.
        guard !text.utf8.contains(0) else { return nil }
        if isVersion6 {
            var address = in6_addr()
            guard inet_pton(AF_INET6, text, &address) == 1 else { return nil }
            (high, low) = withUnsafeBytes(of: address) { bytes in
                (
                    UInt64(bigEndian: bytes.loadUnaligned(as: UInt64.self)),
                    UInt64(bigEndian: bytes.loadUnaligned(fromByteOffset: 8, as: UInt64.self))
                )
            }
        } else {
            var address = in_addr()
            guard inet_pton(AF_INET, text, &address) == 1 else { return nil }
            (high, low) = (0, Self.mapped | UInt64(UInt32(bigEndian: address.s_addr)))
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
}
