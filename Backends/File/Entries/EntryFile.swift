import Checksums
package import SyncCore

/// How an entry lies in its file. All numbers are big-endian.
///
/// | bytes | what |
/// |---|---|
/// | 8 | `ESyncEnt` |
/// | 4 | format number, 1 |
/// | 4 | bytes of the key |
/// | 8 | bytes of the value |
/// | 16 | version |
/// | … | key |
/// | 8 | XXH64 of everything so far |
/// | … | value |
/// | 8 | XXH64 of everything so far |
///
/// The first checksum lets a listing trust a version without reading the value. The key is there so that a file that
/// was moved or copied by hand is noticed.
package enum EntryFile {
    /// The format that is written.
    package static let format: UInt32 = 1

    /// 1 GiB: no header makes a reader allocate more than that, whoever wrote it.
    package static let maximumValueByteCount = 1 << 30
    /// The bytes before the key.
    package static let fixedByteCount = 40
    /// No header is longer.
    package static let maximumHeaderByteCount = fixedByteCount + EntryKey.maximumByteCount + 8

    private static let magic = Array("ESyncEnt".utf8)
    private static let versionByteCount = 16

    /// What is wrong with a file.
    package enum Problem: Error, Hashable {
        /// Something in it is not as it was written; says what and at which byte.
        case damaged(String)
        /// It has this later format.
        case newerFormat(UInt32)
    }

    /// What a header says.
    package struct Header: Hashable, Sendable {
        /// The key that the entry belongs to.
        package let key: EntryKey
        /// The entry's version.
        package let version: EntryVersion
        /// Where the value begins and ends in the file.
        package let valueRange: Range<Int>
        /// The size of the whole file.
        package var fileByteCount: Int { valueRange.upperBound + 8 }
    }

    /// The file of an entry.
    package static func encode(_ entry: Entry, key: EntryKey) -> [UInt8] {
        precondition(entry.version.bytes.count == versionByteCount, "the file store makes versions of 16 bytes")
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

    /// Whether `bytes` are the beginning of some entry's file, of whatever format.
    static func isBegun(by bytes: [UInt8]) -> Bool { bytes.starts(with: magic) }

    /// The header at the beginning of `bytes`, which are a file's first ``maximumHeaderByteCount`` or all it has.
    package static func header(of bytes: [UInt8]) throws(Problem) -> Header {
        guard bytes.count >= fixedByteCount else {
            throw .damaged("the file ends after \(bytes.count) bytes, inside its header")
        }
        guard bytes.starts(with: magic) else {
            throw .damaged("byte 0: the file does not begin as an entry")
        }
        let writtenFormat = UInt32(bigEndianAt: 8, in: bytes)
        let writtenKeyCount = UInt32(bigEndianAt: 12, in: bytes)
        // Compared as it is written: where Int has 32 bits, not every length is one.
        let keyCount = (1...UInt32(EntryKey.maximumByteCount)).contains(writtenKeyCount) ? Int(writtenKeyCount) : 0
        let headerEnd = fixedByteCount + keyCount
        let isWhole = keyCount > 0 && bytes.count >= headerEnd + 8
        if writtenFormat != format {
            // A later format is only believed when this is not format 1 with a flipped bit in the number.
            if writtenFormat > format, !(isWhole && hasChecksumOfFormat1(bytes, at: headerEnd)) {
                throw .newerFormat(writtenFormat)
            }
            throw .damaged("byte 8: the format number \(writtenFormat) is not what was written")
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
        else { throw .damaged("byte 16: the header has a key or a length that nobody writes") }
        return Header(
            key: key, version: EntryVersion(bytes: Array(bytes[24..<fixedByteCount])),
            valueRange: valueStart..<(valueStart + valueCount))
    }

    /// The value in `bytes`, which are the whole file with that header.
    package static func value(of bytes: [UInt8], header: Header) throws(Problem) -> [UInt8] {
        guard bytes.count == header.fileByteCount else {
            throw .damaged(
                bytes.count < header.fileByteCount
                    ? "the file ends after \(bytes.count) of \(header.fileByteCount) bytes"
                    : "byte \(header.fileByteCount): there is more than was written")
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
