import Checksums
import SyncCore

/// The value of one key in iCloud: a mark with the format number, the version of the write, a checksum, the length of
/// the entry's key in two bytes, the key, and the entry's value.
///
/// Keys in iCloud have at most 64 bytes, so they are hashes, and the value names the entry's key.
struct StoredItem {
    let key: EntryKey
    let entry: Entry

    /// The reasons why a value is no item.
    enum Defect: Error {
        /// The checksum or the structure is wrong.
        case damaged
        /// The value has a later format.
        case newer
    }

    private static let mark = Array("ESU".utf8)
    private static let format = UInt8(ascii: "1")
    private static let headByteCount = 4 + 16 + 8 + 2
    private static let namePrefix = "entitlementsync."

    private static let markerPrefix = namePrefix + "store."

    /// The key of a marker in iCloud: 54 bytes. See ``StoreBinding``.
    static func marker(_ id: String) -> String { markerPrefix + id }

    /// The id of a marker; `nil` if `name` is not the key of a marker.
    static func markerID(_ name: String) -> String? {
        name.hasPrefix(markerPrefix) ? String(name.dropFirst(markerPrefix.count)) : nil
    }

    /// The key of an entry in iCloud: 48 bytes.
    static func name(of key: EntryKey) -> String {
        let bytes = Array(key.text.utf8)
        let words = [1, 2].map { XXHash64.digest(of: bytes, seed: $0) }
        return namePrefix + words.map { Hexadecimal.text($0) }.joined()
    }

    /// Returns `true` if `name` may be the key of an entry.
    static func isName(_ name: String) -> Bool { name.hasPrefix(namePrefix) && markerID(name) == nil }

    init(key: EntryKey, entry: Entry) { (self.key, self.entry) = (key, entry) }

    /// Decodes the value of a key in iCloud.
    init(_ bytes: [UInt8]) throws(Defect) {
        guard bytes.starts(with: Self.mark), bytes.count > Self.mark.count else { throw .damaged }
        guard bytes[Self.mark.count] == Self.format else {
            throw (0x32...0x7A).contains(bytes[Self.mark.count]) ? .newer : .damaged
        }
        guard let (key, value) = Self.content(of: bytes) else { throw .damaged }
        self.init(key: key, entry: Entry(value: Array(value), version: EntryVersion(bytes: Array(bytes[4..<20]))))
        guard bytes[20..<28].elementsEqual(checksum) else { throw .damaged }
    }

    /// The entry's key and the rest of the bytes; `nil` if there is no key.
    private static func content(of bytes: [UInt8]) -> (EntryKey, ArraySlice<UInt8>)? {
        guard bytes.count >= headByteCount else { return nil }
        let length = Int(bytes[headByteCount - 2]) << 8 | Int(bytes[headByteCount - 1])
        let rest = bytes[headByteCount...]
        guard rest.count >= length, let text = String(validating: rest.prefix(length), as: UTF8.self),
            let key = try? EntryKey(text)
        else { return nil }
        return (key, rest.dropFirst(length))
    }

    /// The key of a damaged value, which its name in iCloud confirms; `nil` if the key is damaged too.
    static func keyOfDamaged(_ bytes: [UInt8], under name: String) -> EntryKey? {
        guard let key = content(of: bytes)?.0, Self.name(of: key) == name else { return nil }
        return key
    }

    /// The version of a damaged value. It depends only on the bytes.
    static func standIn(for bytes: [UInt8]) -> EntryVersion {
        EntryVersion(
            bytes: [1, 2].flatMap { seed in
                withUnsafeBytes(of: XXHash64.digest(of: bytes, seed: seed).bigEndian) { Array($0) }
            })
    }

    var bytes: [UInt8] {
        let name = Array(key.text.utf8)
        let length = [UInt8(name.count >> 8), UInt8(name.count & 255)]
        return Self.mark + [Self.format] + entry.version.bytes + checksum + length + name + entry.value
    }

    private var checksum: [UInt8] {
        let name = Array(key.text.utf8)
        let digest = XXHash64.digest(of: name + entry.version.bytes + entry.value, seed: UInt64(name.count))
        return withUnsafeBytes(of: digest.bigEndian) { Array($0) }
    }
}
