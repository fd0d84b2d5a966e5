import SyncCore

/// How a key stands in a folder of a WebDAV server: one file in the store's collection.
///
/// Lower-case letters, digits, hyphen and underscore stand for themselves, every other byte is `=` and two digits: so
/// that servers which take `A` for `a`, compose letters, or mind dots and slashes keep keys apart. A name that is too
/// long for a file system goes on in collections whose names end with `+`.
enum FileName {
    /// How long a part of a path may be; file systems take 255 bytes.
    private static let longestPart = 200
    private static let digits = Array("0123456789abcdef".utf8)

    /// The parts of the path of `key`: collections, then the file.
    static func parts(of key: EntryKey) -> [String] {
        var name: [UInt8] = []
        for byte in key.text.utf8 {
            switch byte {
            case 0x61...0x7A, 0x30...0x39, UInt8(ascii: "-"), UInt8(ascii: "_"): name.append(byte)
            default: name += [UInt8(ascii: "="), digits[Int(byte >> 4)], digits[Int(byte & 15)]]
            }
        }
        var parts: [String] = []
        var rest = name[...]
        while rest.count > longestPart {
            parts.append(String(decoding: rest.prefix(longestPart), as: UTF8.self) + "+")
            rest = rest.dropFirst(longestPart)
        }
        return parts + [String(decoding: rest, as: UTF8.self)]
    }

    /// The bytes that collections before a file stand for, as far as they are whole; `nil` for a name of somebody
    /// else's.
    static func key(of parts: [String]) -> EntryKey? {
        var name: [UInt8] = []
        for (index, part) in parts.enumerated() {
            let isLast = index == parts.count - 1
            guard isLast || part.hasSuffix("+") else { return nil }
            name += isLast ? Array(part.utf8) : Array(part.utf8.dropLast())
        }
        guard let bytes = decoded(name), let text = String(validating: bytes, as: UTF8.self),
            let key = try? EntryKey(text), Self.parts(of: key) == parts
        else { return nil }
        return key
    }

    private static func decoded(_ name: [UInt8]) -> [UInt8]? {
        var bytes: [UInt8] = []
        var index = 0
        while index < name.count {
            guard name[index] == UInt8(ascii: "=") else {
                bytes.append(name[index])
                index += 1
                continue
            }
            guard index + 2 < name.count, let high = digits.firstIndex(of: name[index + 1]),
                let low = digits.firstIndex(of: name[index + 2])
            else { return nil }
            bytes.append(UInt8(high << 4 | low))
            index += 3
        }
        return bytes
    }
}
