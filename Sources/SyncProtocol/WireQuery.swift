/// The query of a request: `name=value` pairs between ampersands, percent-encoded.
public struct WireQuery: Hashable, Sendable {
    /// The pairs in their order, decoded.
    public let pairs: [Pair]

    /// A name and its value.
    public struct Pair: Hashable, Sendable {
        /// The name.
        public var name: String
        /// The value, empty where there is none.
        public var value: String
    }

    /// No query.
    public init() { pairs = [] }

    /// Reads what stands behind the question mark; `nil` where a percent sign has no two hexadecimal digits after it,
    /// or the bytes are no UTF-8. A plus sign is a plus sign.
    public init?(_ text: Substring) {
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

    /// The value of `name`; `nil` where it is missing. The first where it is there twice.
    public subscript(name: String) -> String? { pairs.first { $0.name == name }?.value }

    /// `text` as it stands in a query.
    public static func encoded(_ text: String) -> String {
        var bytes: [UInt8] = []
        for byte in text.utf8 {
            let isAsItIs = PercentCoding.isUnreserved(byte) || byte == UInt8(ascii: "/")
            bytes += isAsItIs ? [byte] : PercentCoding.encoded(byte)
        }
        return String(decoding: bytes, as: UTF8.self)
    }

    private static func decoded(_ part: Substring.UTF8View) -> String? {
        PercentCoding.decoded(part).flatMap { String(validating: $0, as: UTF8.self) }
    }
}
