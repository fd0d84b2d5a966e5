/// The value of a key, and the version of the write that stored it.
public struct Entry: Hashable, Sendable {
    /// The bytes that were written. A backend never interprets them.
    public let value: [UInt8]
    /// The identifier of the write that stored this value.
    public let version: EntryVersion

    /// Creates an entry of `value` at `version`.
    public init(value: [UInt8], version: EntryVersion) {
        self.value = value
        self.version = version
    }
}

/// An identifier of one write of one key: 128 random bits or a digest of the content; 1 to 64 bytes.
///
/// A version must not be a counter or a modification time. A store that is restored from a backup would issue the same
/// number twice, for two different contents.
public struct EntryVersion: Hashable, Sendable, CustomStringConvertible {
    /// The bytes of the version. Only the backend that made them may interpret them.
    public let bytes: [UInt8]

    /// Creates a version from bytes that a backend read from its store.
    ///
    /// - Precondition: 1 to 64 bytes.
    public init(bytes: [UInt8]) {
        precondition((1...64).contains(bytes.count), "a version must have 1 to 64 bytes, not \(bytes.count)")
        self.bytes = bytes
    }

    /// Creates a version of 128 bits from `generator`.
    public static func random(using generator: inout some RandomNumberGenerator) -> EntryVersion {
        let words: [UInt64] = [generator.next(), generator.next()]
        return EntryVersion(bytes: words.flatMap { word in withUnsafeBytes(of: word.bigEndian) { Array($0) } })
    }

    /// The bytes in lower-case hexadecimal.
    public var description: String { Hexadecimal.text(bytes) }
}
