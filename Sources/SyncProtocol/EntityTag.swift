public import SyncCore

/// An entry version as an HTTP entity tag: its bytes in hexadecimal between quotation marks. It is a strong validator
/// (RFC 9110, section 8.8.3), because a version identifies exactly one content.
public struct EntityTag: Hashable, Sendable, CustomStringConvertible {
    /// The text between the quotation marks.
    public let text: String
    /// True if the tag is marked `W/`: equivalent content, perhaps not the same bytes. A weak tag satisfies no
    /// precondition of a write.
    public let isWeak: Bool

    /// The tag of `version`.
    public init(_ version: EntryVersion) {
        text = version.description
        isWeak = false
    }

    /// The strong tag of the same text: for the weak comparison of a conditional read (RFC 9110, section 8.8.3.2).
    package init(strong tag: EntityTag) {
        text = tag.text
        isWeak = false
    }

    /// The strong tag of a document whose bytes have this digest.
    package init(digest: [UInt8]) {
        text = Hexadecimal.text(digest)
        isWeak = false
    }

    init(text: String, isWeak: Bool) {
        self.text = text
        self.isWeak = isWeak
    }

    /// The version that this tag names; `nil` for a weak tag, and for a text other than 1 to 64 bytes in hexadecimal.
    public var version: EntryVersion? {
        // Each version has one text, without capitals.
        guard !isWeak, (2...128).contains(text.utf8.count), !text.utf8.contains(where: { (0x41...0x46).contains($0) }),
            let bytes = Hexadecimal.bytes(text.utf8)
        else { return nil }
        return EntryVersion(bytes: bytes)
    }

    /// The tag as it is written in a header field.
    public var description: String { (isWeak ? "W/" : "") + "\"\(text)\"" }

    /// Accepts lower case only, so that each version has exactly one tag.
}

/// The value of `If-Match` or `If-None-Match`.
public enum TagCondition: Hashable, Sendable {
    /// `*`: any current entry.
    case anything
    /// One or more tags, any of which may match.
    case tags([EntityTag])

    /// Reads the value of a header field (RFC 9110, section 13.1); `nil` if it is malformed.
    public init?(_ field: String) {
        var parser = TagParser(field)
        guard let condition = parser.condition() else { return nil }
        self = condition
    }
}

/// Parses lists of entity tags. A tag may contain commas, so the list cannot be split at them.
private struct TagParser {
    private let bytes: [UInt8]
    private var index = 0

    init(_ field: String) { bytes = Array(field.utf8) }

    mutating func condition() -> TagCondition? {
        skipSpace()
        if take("*") {
            skipSpace()
            return index == bytes.count ? .anything : nil
        }
        var tags: [EntityTag] = []
        while true {
            // A list may have empty elements (RFC 9110, section 5.6.1.2).
            skipSpace()
            while take(",") { skipSpace() }
            guard index < bytes.count else { return tags.isEmpty ? nil : .tags(tags) }
            guard let tag = tag() else { return nil }
            tags.append(tag)
            skipSpace()
            guard index == bytes.count || bytes[index] == UInt8(ascii: ",") else { return nil }
        }
    }

    private mutating func tag() -> EntityTag? {
        let isWeak = take("W/")
        guard take("\"") else { return nil }
        let start = index
        while index < bytes.count, bytes[index] != UInt8(ascii: "\"") {
            guard bytes[index] > 0x20, bytes[index] != 0x7F else { return nil }
            index += 1
        }
        let text = String(decoding: bytes[start..<index], as: UTF8.self)
        return take("\"") ? EntityTag(text: text, isWeak: isWeak) : nil
    }

    private mutating func take(_ text: StaticString) -> Bool {
        let expected = UnsafeBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount)
        guard bytes[index...].starts(with: expected) else { return false }
        index += expected.count
        return true
    }

    private mutating func skipSpace() {
        while index < bytes.count, bytes[index] == 0x20 || bytes[index] == 0x09 { index += 1 }
    }
}
