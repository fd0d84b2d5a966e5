package import SyncCore

/// The path of a key's entry relative to the store's folder: folders, and a file name that ends in `.entry`.
///
/// Each component of the key between slashes becomes one name. Bytes other than `a-z 0-9 _ -` are written as `%` and
/// two lower-case hexadecimal digits. So names are lower-case ASCII, and a file system that folds case or normalizes
/// Unicode cannot confuse two keys. An empty component is a single `%`. A component whose name would reach
/// ``chunkLength`` is split into folders whose names end in `+`, because file systems limit a name to 255 bytes.
///
/// | key | path |
/// |---|---|
/// | `accounts/alice/ledger` | `accounts/alice/ledger.entry` |
/// | `Ä.B` | `%c3%84%2e%42.entry` |
/// | `a//b` | `a/%/b.entry` |
///
/// The mapping is injective, and ``key(ofFolders:file:)`` reverses it. Each name represents a contiguous range of keys
/// in key order (see ``Part/sortKey``), so a listing can walk the folders in that order.
package struct KeyFileName: Hashable, Sendable {
    /// The names of the folders, outermost first.
    package let folders: [String]
    /// The name of the entry's file.
    package let file: String

    /// A name is split after the character that makes it this long. So no name is longer than 200, and an unsplit name
    /// is shorter than this.
    package static let chunkLength = 198

    static let suffix = ".entry"

    /// The path of `key`. O(bytes of the key).
    package init(_ key: EntryKey) {
        var folders: [String] = []
        var name = ""
        for byte in key.text.utf8 {
            if byte == UInt8(ascii: "/") {
                folders.append(Self.whole(name))
                name = ""
                continue
            }
            Self.encode(byte, onto: &name)
            if name.utf8.count >= Self.chunkLength {
                folders.append(name + "+")
                name = ""
            }
        }
        self.folders = folders
        self.file = Self.whole(name) + Self.suffix
    }

    /// The key with this path; `nil` if no key has it.
    package static func key(ofFolders folders: [String], file: String) -> EntryKey? {
        var bytes: [UInt8] = []
        for folder in folders {
            guard let part = Part(folderName: folder) else { return nil }
            bytes += part.sortKey
        }
        guard let part = Part(fileName: file) else { return nil }
        return EntryKey(utf8: bytes + part.sortKey)
    }

    private static func whole(_ name: String) -> String {
        name.isEmpty ? "%" : name
    }

    private static func encode(_ byte: UInt8, onto name: inout String) {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "_"),
            UInt8(ascii: "-"):
            name.unicodeScalars.append(Unicode.Scalar(byte))
        default:
            name += byte < 16 ? "%0" : "%"
            name += String(byte, radix: 16)
        }
    }
}

extension KeyFileName {
    /// The meaning of one name in a store's folder.
    package struct Part: Hashable, Sendable {
        /// True for the file of an entry, false for a folder with more parts.
        package let isEntry: Bool
        /// The part of the key: the component of an entry, a component and its slash for a folder, or a piece of a
        /// component for a folder that continues it.
        ///
        /// All keys below a part begin with it (for an entry it is the whole rest), and no two parts of one folder
        /// overlap. So sorting parts by it sorts keys.
        package let sortKey: [UInt8]

        /// The part for the file `name`; `nil` if it is not the file of an entry.
        package init?(fileName name: String) {
            guard name.hasSuffix(KeyFileName.suffix),
                let bytes = Self.decode(name.utf8.dropLast(KeyFileName.suffix.utf8.count), isChunk: false)
            else { return nil }
            self.init(isEntry: true, sortKey: bytes)
        }

        /// The part for the folder `name`; `nil` if the folder does not belong to the store.
        package init?(folderName name: String) {
            if name.hasSuffix("+") {
                guard let bytes = Self.decode(name.utf8.dropLast(), isChunk: true) else { return nil }
                self.init(isEntry: false, sortKey: bytes)
            } else {
                guard let bytes = Self.decode(name.utf8[...], isChunk: false) else { return nil }
                self.init(isEntry: false, sortKey: bytes + [UInt8(ascii: "/")])
            }
        }

        private init(isEntry: Bool, sortKey: [UInt8]) {
            self.isEntry = isEntry
            self.sortKey = sortKey
        }

        /// Decodes an encoded name; `nil` unless encoding the bytes yields exactly this name.
        private static func decode(_ name: Substring.UTF8View, isChunk: Bool) -> [UInt8]? {
            if !isChunk, name.elementsEqual("%".utf8) { return [] }
            guard let bytes = Hexadecimal.unescaped(name, escape: "%") else { return nil }
            // Encoding the bytes again detects capitals, unnecessary escapes and splits in the wrong place.
            var again = ""
            for byte in bytes {
                if again.utf8.count >= KeyFileName.chunkLength { return nil }
                KeyFileName.encode(byte, onto: &again)
            }
            let isFull = again.utf8.count >= KeyFileName.chunkLength
            return !bytes.isEmpty && isFull == isChunk && again.utf8.elementsEqual(name) ? bytes : nil
        }
    }
}

extension EntryKey {
    /// The key with these bytes; `nil` if they are not valid UTF-8 or not a valid key.
    init?(utf8 bytes: [UInt8]) {
        guard let text = String(validating: bytes, as: UTF8.self), let key = try? EntryKey(text) else { return nil }
        self = key
    }
}
