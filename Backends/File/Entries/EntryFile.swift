import Checksums
package import SyncCore

/// The format of an entry file. All numbers are big-endian.
///
/// | bytes | content |
/// |---|---|
/// | 8 | `ESyncEnt` |
/// | 4 | format number, 1 |
/// | 4 | size of the key in bytes |
/// | 8 | size of the value in bytes |
/// | 16 | version |
/// | … | key |
/// | 8 | XXH64 of everything so far |
/// | … | value |
/// | 8 | XXH64 of everything so far |
///
/// The first checksum lets a listing trust a version without reading the value. The key reveals a file that was moved
/// or copied by hand.
package enum EntryFile {
    /// The format that is written.
    package static let format: UInt32 = 1

    /// 1 GiB. A header with a larger value is rejected, so it cannot make a reader allocate more.
    package static let maximumValueByteCount = 1 << 30
    /// The bytes before the key.
    package static let fixedByteCount = 40
    /// The size of the longest possible header.
    package static let maximumHeaderByteCount = fixedByteCount + EntryKey.maximumByteCount + 8

    private static let magic = Array("ESyncEnt".utf8)
    private static let versionByteCount = 16

    /// The cause of an unreadable entry file.
    package enum Problem: Error, Hashable {
        /// A part of the file is damaged. The text describes the part and its offset.
        case damaged(String)
        /// The file has this later format.
        case newerFormat(UInt32)
    }

    /// The content of a header.
    package struct Header: Hashable, Sendable {
        /// The key that the entry belongs to.
        package let key: EntryKey
        /// The entry's version.
        package let version: EntryVersion
        /// The range of the value in the file.
        package let valueRange: Range<Int>
        /// The size of the whole file.
        package var fileByteCount: Int { valueRange.upperBound + 8 }
    }

    /// Encodes an entry as a file.
    package static func encode(_ entry: Entry, key: EntryKey) -> [UInt8] {
        precondition(entry.version.bytes.count == versionByteCount, "a version must have 16 bytes in the file store")
        let keyBytes = Array(key.text.utf8)
        var file: [UInt8] = []
        file.reserveCapacity(fixedByteCount + keyBytes.count + entry.value.count + 16)
        file += magic
        file.append(bigEndian: format)
        file.append(bigEndian: UInt32(keyBytes.count))
        file.append(bigEndian: UInt64(entry.value.count))
        file += entry.version.bytes
        file += keyBytes
        file.append(bigEndian: XXHash64.digest(of: file))
        file += entry.value
        file.append(bigEndian: XXHash64.digest(of: file))
        return file
    }

    /// Returns `true` if `bytes` begin like an entry file, of any format.
    static func isBegun(by bytes: [UInt8]) -> Bool { bytes.starts(with: magic) }

    /// Decodes the header from the first ``maximumHeaderByteCount`` bytes of a file, or from the whole file if it is
    /// shorter.
    package static func header(of bytes: [UInt8]) throws(Problem) -> Header {
        guard bytes.count >= fixedByteCount else {
            throw .damaged("the file ends after \(bytes.count) bytes, inside its header")
        }
        guard bytes.starts(with: magic) else {
            throw .damaged("byte 0: the file does not begin like an entry")
        }
        let writtenFormat = UInt32(bigEndianAt: 8, in: bytes)
        let writtenKeyCount = UInt32(bigEndianAt: 12, in: bytes)
        // Compared as UInt32, because on a 32-bit platform not every length fits into an Int.
        let keyCount = (1...UInt32(EntryKey.maximumByteCount)).contains(writtenKeyCount) ? Int(writtenKeyCount) : 0
        let headerEnd = fixedByteCount + keyCount
        let isWhole = keyCount > 0 && bytes.count >= headerEnd + 8
        if writtenFormat != format {
            // A later format is reported only if this is not format 1 with a flipped bit in the number.
            if writtenFormat > format, !(isWhole && hasChecksumOfFormat1(bytes, at: headerEnd)) {
                throw .newerFormat(writtenFormat)
            }
            throw .damaged("byte 8: the format number \(writtenFormat) is damaged")
        }
        guard isWhole else {
            throw .damaged("byte 12: the key's length \(writtenKeyCount) does not fit the file")
        }
        guard XXHash64.digest(of: bytes[..<headerEnd]) == UInt64(bigEndianAt: headerEnd, in: bytes) else {
            throw .damaged("bytes 0 to \(headerEnd + 7): the header's checksum does not match")
        }
        let valueStart = headerEnd + 8
        guard let key = EntryKey(utf8: Array(bytes[fixedByteCount..<headerEnd])),
            let valueCount = Int(exactly: UInt64(bigEndianAt: 16, in: bytes)), valueCount <= maximumValueByteCount
        else { throw .damaged("byte 16: the header has an invalid key or length") }
        return Header(
            key: key, version: EntryVersion(bytes: Array(bytes[24..<fixedByteCount])),
            valueRange: valueStart..<(valueStart + valueCount))
    }

    /// Decodes the value from `bytes`, the whole file with that header.
    package static func value(of bytes: [UInt8], header: Header) throws(Problem) -> [UInt8] {
        guard bytes.count == header.fileByteCount else {
            throw .damaged(
                bytes.count < header.fileByteCount
                    ? "the file ends after \(bytes.count) of \(header.fileByteCount) bytes"
                    : "byte \(header.fileByteCount): the file is longer than its header states")
        }
        let end = header.valueRange.upperBound
        guard XXHash64.digest(of: bytes[..<end]) == UInt64(bigEndianAt: end, in: bytes) else {
            throw .damaged("bytes \(header.valueRange.lowerBound) to \(end + 7): the value's checksum does not match")
        }
        return Array(bytes[header.valueRange])
    }

    private static func hasChecksumOfFormat1(_ bytes: [UInt8], at end: Int) -> Bool {
        var corrected = Array(bytes[..<end])
        corrected.replaceSubrange(8..<12, with: [0, 0, 0, 1])
        return XXHash64.digest(of: corrected) == UInt64(bigEndianAt: end, in: bytes)
    }
}
