import Checksums
import SyncCore

/// What a file holds: a mark with the format's number, the version of the write, a checksum over key, version and
/// value, and the value to the end of the file.
///
/// A server may answer half of a file, or the length of one write with the bytes of another, and a tool may put a file
/// under another's name: the checksum tells.
enum StoredFile {
    private static let mark = Array("ESD".utf8)
    private static let format = UInt8(ascii: "1")
    private static let versionByteCount = 16
    private static let checksumByteCount = 8

    /// How much longer a file is than its value.
    static let overhead = mark.count + 1 + versionByteCount + checksumByteCount

    /// The file that holds `value`, written under `key` as `version` of 16 bytes.
    static func bytes(of value: [UInt8], version: EntryVersion, key: EntryKey) -> [UInt8] {
        precondition(version.bytes.count == versionByteCount, "versions are 128 random bits here")
        return mark + [format] + version.bytes + checksum(value[...], version.bytes[...], key) + value
    }

    /// Why a file is no entry.
    enum Defect: Error {
        /// Not as it was written, or written by somebody else.
        case damaged
        /// Of a later format.
        case newer
    }

    /// The entry in the file of `key`.
    static func entry(in file: [UInt8], key: EntryKey) throws(Defect) -> Entry {
        guard file.starts(with: mark), file.count > mark.count else { throw .damaged }
        guard file[mark.count] == format else {
            // A digit or a letter; anything else is no number that a format will have.
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

    /// What stands for the version of a file that is no entry: as long as it stays the same, so does this.
    static func standIn(for bytes: [UInt8]) -> EntryVersion {
        EntryVersion(bytes: [1, 2].flatMap { bigEndian(XXHash64.digest(of: bytes, seed: $0)) })
    }

    private static func checksum(_ value: ArraySlice<UInt8>, _ version: ArraySlice<UInt8>, _ key: EntryKey) -> [UInt8] {
        let name = Array(key.text.utf8)
        return bigEndian(XXHash64.digest(of: name + version + value, seed: UInt64(name.count)))
    }

    private static func bigEndian(_ word: UInt64) -> [UInt8] { withUnsafeBytes(of: word.bigEndian) { Array($0) } }
}
