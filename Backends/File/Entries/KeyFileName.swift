package import SyncCore

/// Where a key's entry is kept, relative to the store's folder: folders, and a file name that ends in `.entry`.
///
/// Each component of the key between slashes becomes one name. Bytes outside of `a-z 0-9 _ -` are written as `%` and
/// two lower-case hexadecimal digits, so names are lower-case ASCII, and a file system that folds case or normalises
/// Unicode cannot take two keys for one. An empty component is a lone `%`. A component whose name would reach
/// ``chunkLength`` is cut into folders whose names end in `+`, because file systems take 255 bytes a name.
///
/// | key | place |
/// |---|---|
/// | `accounts/alice/ledger` | `accounts/alice/ledger.entry` |
/// | `Ä.B` | `%c3%84%2e%42.entry` |
/// | `a//b` | `a/%/b.entry` |
///
/// The mapping is injective and ``key(ofFolders:file:)`` reverses it. Each name stands for a run of keys that is
/// contiguous in key order (see ``Part/sortKey``), which lets a listing walk the folders in that order.
package struct KeyFileName: Hashable, Sendable {
    /// The names of the folders, outermost first.
    package let folders: [String]
    /// The name of the entry's file.
    package let file: String

    /// A name is cut after the character that makes it this long, so none is longer than 200, and a whole one is
    /// shorter than this.
    package static let chunkLength = 198

    static let suffix = ".entry"

    /// The place of `key`. O(bytes of the key).
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

    /// The key whose place this is; `nil` when it is nobody's.
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
    /// What one name in a store's folder stands for.
    package struct Part: Hashable, Sendable {
        /// A file with an entry, or a folder with more parts.
        package let isEntry: Bool
        /// What the part adds to the key: the component of an entry, a component and its slash for a folder, a bare
        /// piece of a component for a folder that continues it.
        ///
        /// The keys below a part all begin with this (an entry's is the whole rest), and no two parts of one folder
        /// overlap: ordering parts by it orders keys.
        package let sortKey: [UInt8]

        /// The part that a file called `name` is; `nil` for a file that is no entry's.
        package init?(fileName name: String) {
            guard name.hasSuffix(KeyFileName.suffix),
                let bytes = Self.decode(name.utf8.dropLast(KeyFileName.suffix.utf8.count), isChunk: false)
            else { return nil }
            self.init(isEntry: true, sortKey: bytes)
        }

        /// The part that a folder called `name` is; `nil` for a folder that is none of the store's.
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

        /// The bytes of an encoded name, `nil` unless this very name is how they are encoded.
        private static func decode(_ name: Substring.UTF8View, isChunk: Bool) -> [UInt8]? {
            if !isChunk, name.elementsEqual("%".utf8) { return [] }
            var bytes: [UInt8] = []
            var rest = name
            while let character = rest.popFirst() {
                guard character == UInt8(ascii: "%") else {
                    bytes.append(character)
                    continue
                }
                guard let high = rest.popFirst().flatMap(hexadecimal), let low = rest.popFirst().flatMap(hexadecimal)
                else { return nil }
                bytes.append(high << 4 | low)
            }
            // Encoding again refuses capitals, needless escapes and cuts in the wrong place, all in one.
            var again = ""
            for byte in bytes {
                if again.utf8.count >= KeyFileName.chunkLength { return nil }
                KeyFileName.encode(byte, onto: &again)
            }
            let isFull = again.utf8.count >= KeyFileName.chunkLength
            return !bytes.isEmpty && isFull == isChunk && again.utf8.elementsEqual(name) ? bytes : nil
        }

        private static func hexadecimal(_ character: UInt8) -> UInt8? {
            switch character {
            case UInt8(ascii: "0")...UInt8(ascii: "9"): character - UInt8(ascii: "0")
            case UInt8(ascii: "a")...UInt8(ascii: "f"): character - UInt8(ascii: "a") + 10
            default: nil
            }
        }
    }
}

extension EntryKey {
    /// The key of these bytes; `nil` when they are not UTF-8 or not a key.
    init?(utf8 bytes: [UInt8]) {
        guard let text = String(validating: bytes, as: UTF8.self), let key = try? EntryKey(text) else { return nil }
        self = key
    }
}
