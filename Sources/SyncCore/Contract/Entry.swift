/// What a backend holds under a key: a value and the version of the write that put it there.
public struct Entry: Hashable, Sendable {
    /// The bytes that were written. A backend never looks inside.
    public let value: [UInt8]
    /// Names this write and no other.
    public let version: EntryVersion

    /// An entry of `value` at `version`.
    public init(value: [UInt8], version: EntryVersion) {
        self.value = value
        self.version = version
    }
}

/// Names one write of one key: 128 random bits, or a digest of the content; 1 to 64 bytes.
///
/// Never a counter and never a modification time: a store that is restored from a backup would hand the same number
/// out twice, for two different contents.
public struct EntryVersion: Hashable, Sendable, CustomStringConvertible {
    /// The version's bytes, opaque to everybody but the backend that made it.
    public let bytes: [UInt8]

    /// A version of the given bytes, as a backend read them from its store.
    public init(bytes: [UInt8]) {
        precondition((1...64).contains(bytes.count), "a version has 1 to 64 bytes, this one has \(bytes.count)")
        self.bytes = bytes
    }

    /// A new version: 128 bits from `generator`.
    public static func random(using generator: inout some RandomNumberGenerator) -> EntryVersion {
        let words: [UInt64] = [generator.next(), generator.next()]
        return EntryVersion(bytes: words.flatMap { word in withUnsafeBytes(of: word.bigEndian) { Array($0) } })
    }

    /// The bytes in hexadecimal, lower case.
    public var description: String {
        String(unsafeUninitializedCapacity: 2 * bytes.count) { text in
            for (index, byte) in bytes.enumerated() {
                text[2 * index] = Self.digit(byte >> 4)
                text[2 * index + 1] = Self.digit(byte & 0xF)
            }
            return 2 * bytes.count
        }
    }

    private static func digit(_ value: UInt8) -> UInt8 {
        value < 10 ? UInt8(ascii: "0") + value : UInt8(ascii: "a") + value - 10
    }
}
