import SyncCore

/// The file name of a key: one file in the collection of the store.
///
/// Lower-case letters, digits, hyphen and underscore are kept. Every other byte is encoded as `=` and two digits, and
/// the name ends with `.entry`. Servers that fold case, normalize letters, or treat dots, slashes and device names
/// specially therefore keep keys apart, and files of other programs are recognized. A name that is too long for a file
/// system continues in collections whose names end with `.more`.
enum FileName {
    /// The maximum length of a path component without its extension. File systems allow 255 bytes, encrypted ones 143.
    private static let longestPart = 128
    private static let ending = ".entry"
    private static let continued = ".more"

    /// The path components of `key`: collections, then the file.
    static func parts(of key: EntryKey) -> [String] {
        var parts: [String] = []
        var rest = encoded(key.text)[...]
        while rest.count > longestPart {
            parts.append(String(decoding: rest.prefix(longestPart), as: UTF8.self) + continued)
            rest = rest.dropFirst(longestPart)
        }
        return parts + [String(decoding: rest, as: UTF8.self) + ending]
    }

    /// The key of the file at `parts`; `nil` for a file of another program.
    static func key(of parts: [String]) -> EntryKey? {
        guard let last = parts.last, last.hasSuffix(ending) else { return nil }
        var name: [UInt8] = []
        for part in parts.dropLast() {
            guard isContinued(part) else { return nil }
            name += part.utf8.dropLast(continued.utf8.count)
        }
        name += last.utf8.dropLast(ending.utf8.count)
        // A key has exactly one name. Other spellings are ignored.
        guard let bytes = Hexadecimal.unescaped(name, escape: "="), let text = String(validating: bytes, as: UTF8.self),
            let key = try? EntryKey(text), Self.parts(of: key) == parts
        else { return nil }
        return key
    }

    /// True for a collection that continues longer names.
    static func isContinued(_ name: String) -> Bool { name.hasSuffix(continued) }

    /// Returns `true` if the collection at `parts` may contain keys with `prefix`.
    static func mayHoldKeys(withPrefix prefix: String, in parts: [String]) -> Bool {
        let name = parts.flatMap { $0.utf8.dropLast(continued.utf8.count) }
        let wanted = encoded(prefix)
        return zip(name, wanted).allSatisfy { $0 == $1 }
    }

    private static func encoded(_ text: String) -> [UInt8] {
        var name: [UInt8] = []
        for byte in text.utf8 {
            switch byte {
            case 0x61...0x7A, 0x30...0x39, UInt8(ascii: "-"), UInt8(ascii: "_"): name.append(byte)
            default: name += Array(("=" + Hexadecimal.text([byte])).utf8)
            }
        }
        return name
    }
}
