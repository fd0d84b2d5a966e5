import Checksums
import SyncCore

/// The format of a file: a mark with the format number, the version of the write, a checksum over key, version and
/// value, and the value up to the end of the file.
///
/// The checksum detects a truncated answer, an answer with the length of one write and the bytes of another, and a file
/// under the name of another one.
enum StoredFile {
    private static let mark = Array("ESD".utf8)
    private static let format = UInt8(ascii: "1")
    private static let versionByteCount = 16
    private static let checksumByteCount = 8

    /// The number of bytes by which a file is longer than its value.
    static let overhead = mark.count + 1 + versionByteCount + checksumByteCount

    /// Encodes `value`, written under `key` with a `version` of 16 bytes.
    static func bytes(of value: [UInt8], version: EntryVersion, key: EntryKey) -> [UInt8] {
        precondition(version.bytes.count == versionByteCount, "versions are 128 random bits here")
        return mark + [format] + version.bytes + checksum(value[...], version.bytes[...], key) + value
    }

    /// The reason why a file is not an entry.
    enum Defect: Error {
        /// The file was changed, or another program wrote it.
        case damaged
        /// The file has a later format.
        case newer
    }

    /// Decodes the entry in the file of `key`.
    static func entry(in file: [UInt8], key: EntryKey) throws(Defect) -> Entry {
        guard file.starts(with: mark), file.count > mark.count else { throw .damaged }
        guard file[mark.count] == format else {
            // Format numbers are digits or letters.
            throw (0x32...0x7A).contains(file[mark.count]) ? .newer : .damaged
        }
        guard file.count >= overhead else { throw .damaged }
        let version = file[(mark.count + 1)...].prefix(versionByteCount)
        let value = file[overhead...]
        guard file[..<overhead].suffix(checksumByteCount).elementsEqual(checksum(value, version, key)) else {
            throw .damaged
        }
        return Entry(value: Array(value), version: EntryVersion(bytes: Array(version)))
    }

    /// The version of a file that is not an entry. It depends only on the bytes.
    static func standIn(for bytes: [UInt8]) -> EntryVersion {
        EntryVersion(bytes: [1, 2].flatMap { bigEndian(XXHash64.digest(of: bytes, seed: $0)) })
    }

    private static func checksum(_ value: ArraySlice<UInt8>, _ version: ArraySlice<UInt8>, _ key: EntryKey) -> [UInt8] {
        let name = Array(key.text.utf8)
        return bigEndian(XXHash64.digest(of: name + version + value, seed: UInt64(name.count)))
    }

    private static func bigEndian(_ word: UInt64) -> [UInt8] { withUnsafeBytes(of: word.bigEndian) { Array($0) } }
}
