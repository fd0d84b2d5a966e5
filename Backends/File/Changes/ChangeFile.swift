import Checksums
package import SyncCore

/// The format of the change log, `store.changes`: a header and a record for each change, oldest first. All numbers are
/// big-endian.
///
/// | bytes | header |
/// |---|---|
/// | 8 | `ESyncChg` |
/// | 4 | format number, 1 |
/// | 16 | random name of this file |
/// | 8 | XXH64 of everything so far |
///
/// | bytes | record |
/// |---|---|
/// | 4 | size of the record in bytes |
/// | 8 | checksum of the previous record, or of the header for the first one |
/// | 8, 8 | sequence and tag |
/// | 1 | 1 if the key was written, 2 if it was deleted |
/// | 16 | version that was written, zeros for a deletion |
/// | … | key |
/// | 8 | XXH64 of everything in the record so far |
/// | 1 | 1 once the change is durable, 0 before |
/// | 4 | size of the record, for reading the file from its end |
///
/// Appended records are not synced, so a power cut may remove the end of the file or leave holes. A record counts only
/// if all previous records do, because each has the checksum of the previous one. So the readable part is always a
/// prefix of what was written.
package enum ChangeFile {
    /// The format that is written.
    package static let format: UInt32 = 1
    /// The bytes before the first record.
    package static let headerByteCount = 36
    /// The size of the longest possible record.
    package static let maximumRecordByteCount = fixedByteCount + EntryKey.maximumByteCount

    /// The size of a record's end, from its checksum on.
    static let byteCountFromLink = 13

    private static let fixedByteCount = 58
    private static let keyOffset = 45
    private static let magic = Array("ESyncChg".utf8)

    /// One change.
    package struct Record: Hashable, Sendable {
        /// The sequence and tag of the change.
        package var cursor: ChangeCursor
        /// The key that changed.
        package var key: EntryKey
        /// The version that was written; `nil` if the key was deleted.
        package var version: EntryVersion?

        package init(cursor: ChangeCursor, key: EntryKey, version: EntryVersion?) {
            self.cursor = cursor
            self.key = key
            self.version = version
        }
    }

    /// A record and its place in a file.
    package struct Located: Hashable, Sendable {
        /// The content of the record.
        package let record: Record
        /// The range of the record in the file.
        package let range: Range<Int>
        /// The checksum of the previous record.
        package let previousLink: UInt64
        /// Its own checksum.
        package let link: UInt64
        /// True if its writer has marked the change as durable.
        package let isSettled: Bool

        /// The offset of the mark for a durable change.
        package var noteOffset: Int { range.upperBound - 5 }
    }

    /// The header of a file with the given random name of 16 bytes.
    package static func header(name: [UInt8]) -> [UInt8] {
        precondition(name.count == 16, "the name of a log must have 16 bytes, not \(name.count)")
        var bytes = magic
        bytes.append(bigEndian: format)
        bytes += name
        bytes.append(bigEndian: XXHash64.digest(of: bytes))
        return bytes
    }

    /// The checksum of a header, which the first record repeats; `nil` if `bytes` do not begin with a header.
    package static func link(ofHeader bytes: [UInt8]) -> UInt64? {
        guard bytes.count >= headerByteCount, bytes.starts(with: magic), UInt32(bigEndianAt: 8, in: bytes) == format
        else { return nil }
        let link = UInt64(bigEndianAt: 28, in: bytes)
        return XXHash64.digest(of: bytes[..<28]) == link ? link : nil
    }

    /// Encodes a record that follows the one with the checksum `previousLink`; also returns its own checksum.
    package static func encode(
        _ record: Record, after previousLink: UInt64, isSettled: Bool
    ) -> (bytes: [UInt8], link: UInt64) {
        let key = Array(record.key.text.utf8)
        let count = UInt32(fixedByteCount + key.count)
        var bytes: [UInt8] = []
        bytes.reserveCapacity(Int(count))
        bytes.append(bigEndian: count)
        bytes.append(bigEndian: previousLink)
        bytes.append(bigEndian: record.cursor.sequence)
        bytes.append(bigEndian: record.cursor.tag)
        bytes.append(record.version == nil ? 2 : 1)
        bytes += record.version?.bytes ?? [UInt8](repeating: 0, count: 16)
        bytes += key
        let link = XXHash64.digest(of: bytes)
        bytes.append(bigEndian: link)
        bytes.append(isSettled ? 1 : 0)
        bytes.append(bigEndian: count)
        return (bytes, link)
    }

    /// Encodes a file with `header` and settled `records`; also returns the last checksum.
    static func encode(_ records: [Record], behind header: [UInt8]) -> (bytes: [UInt8], link: UInt64) {
        guard let link = link(ofHeader: header) else { preconditionFailure("a log must begin with its header") }
        let (bytes, last) = encode(records, after: link)
        return (header + bytes, last)
    }

    /// Encodes settled records that follow the one with the checksum `link`; also returns the last checksum.
    static func encode(_ records: [Record], after link: UInt64) -> (bytes: [UInt8], link: UInt64) {
        var bytes: [UInt8] = []
        var link = link
        for record in records {
            let next = encode(record, after: link, isSettled: true)
            bytes += next.bytes
            link = next.link
        }
        return (bytes, link)
    }

    /// Decodes the records of a whole file; none if it does not begin with a header.
    package static func records(inFile bytes: [UInt8]) -> [Located] {
        guard let link = link(ofHeader: bytes) else { return [] }
        return records(in: Array(bytes[headerByteCount...]), at: headerByteCount, after: link)
    }

    /// Decodes the records in `bytes`, which begin at `offset` of the file and follow the record with the checksum
    /// `link`. Ends at the first record that is incomplete or does not continue the previous one.
    package static func records(in bytes: [UInt8], at offset: Int, after link: UInt64) -> [Located] {
        var records: [Located] = []
        var link = link
        var start = 0
        while start + 4 <= bytes.count {
            let count = Int(UInt32(bigEndianAt: start, in: bytes))
            guard let located = record(in: bytes, start, count: count, fileOffset: offset), located.previousLink == link
            else { break }
            records.append(located)
            link = located.link
            start += count
        }
        return records
    }

    /// Decodes the last record of a file from its final `bytes`, which begin at `offset`; `nil` if it is incomplete.
    package static func lastRecord(in bytes: [UInt8], at offset: Int) -> Located? {
        guard bytes.count >= fixedByteCount else { return nil }
        let count = Int(UInt32(bigEndianAt: bytes.count - 4, in: bytes))
        guard count <= bytes.count else { return nil }
        return record(in: bytes, bytes.count - count, count: count, fileOffset: offset)
    }

    private static func record(in bytes: [UInt8], _ start: Int, count: Int, fileOffset: Int) -> Located? {
        guard (fixedByteCount + 1...maximumRecordByteCount).contains(count), start + count <= bytes.count,
            Int(UInt32(bigEndianAt: start, in: bytes)) == count,
            Int(UInt32(bigEndianAt: start + count - 4, in: bytes)) == count
        else { return nil }
        let end = start + count - byteCountFromLink
        let link = UInt64(bigEndianAt: end, in: bytes)
        guard XXHash64.digest(of: bytes[start..<end]) == link,
            let key = EntryKey(utf8: Array(bytes[(start + keyOffset)..<end]))
        else { return nil }
        let kind = bytes[start + 28]
        guard kind == 1 || kind == 2 else { return nil }
        let cursor = ChangeCursor(
            sequence: UInt64(bigEndianAt: start + 12, in: bytes), tag: UInt64(bigEndianAt: start + 20, in: bytes))
        let version = EntryVersion(bytes: Array(bytes[(start + 29)..<(start + keyOffset)]))
        return Located(
            record: Record(cursor: cursor, key: key, version: kind == 1 ? version : nil),
            range: (fileOffset + start)..<(fileOffset + start + count),
            previousLink: UInt64(bigEndianAt: start + 4, in: bytes), link: link, isSettled: bytes[end + 8] == 1)
    }
}
