/// The query of a request: `name=value` pairs between ampersands, percent-encoded.
public struct WireQuery: Hashable, Sendable {
    /// The decoded pairs, in their original order.
    package let pairs: [Pair]

    /// A name and its value.
    package struct Pair: Hashable, Sendable {
        /// The name.
        package var name: String
        /// The value; empty if there is none.
        package var value: String
    }

    /// An empty query.
    package init() { pairs = [] }

    /// Parses the text after the question mark; `nil` if a percent sign is not followed by two hexadecimal digits, or
    /// the decoded bytes are not UTF-8. A plus sign stands for itself.
    package init?(_ text: Substring) {
        var pairs: [Pair] = []
        for part in text.utf8.split(separator: UInt8(ascii: "&")) {
            let halves = part.split(separator: UInt8(ascii: "="), maxSplits: 1, omittingEmptySubsequences: false)
            guard let name = Self.decoded(halves[0]), let value = halves.count > 1 ? Self.decoded(halves[1]) : "" else {
                return nil
            }
            pairs.append(Pair(name: name, value: value))
        }
        self.pairs = pairs
    }

    /// The value of `name`, the first one if it occurs several times; `nil` if it is missing.
    package subscript(name: String) -> String? { pairs.first { $0.name == name }?.value }

    /// `text`, encoded for a query.
    public static func encoded(_ text: String) -> String {
        var bytes: [UInt8] = []
        for byte in text.utf8 {
            let isLiteral = PercentCoding.isUnreserved(byte) || byte == UInt8(ascii: "/")
            bytes += isLiteral ? [byte] : PercentCoding.encoded(byte)
        }
        return String(decoding: bytes, as: UTF8.self)
    }

    private static func decoded(_ part: Substring.UTF8View) -> String? {
        PercentCoding.decoded(part).flatMap { String(validating: $0, as: UTF8.self) }
    }
}
