import Checksums
package import SyncCore

/// How the log of changes lies in its file, `store.changes`: a header, and a record for each change, oldest first. All
/// numbers are big-endian.
///
/// | bytes | header |
/// |---|---|
/// | 8 | `ESyncChg` |
/// | 4 | format number, 1 |
/// | 16 | a random name of this file |
/// | 8 | XXH64 of everything so far |
///
/// | bytes | record |
/// |---|---|
/// | 4 | bytes of the record |
/// | 8 | the checksum of the record before, the header's for the first |
/// | 8, 8 | sequence and tag |
/// | 1 | 1 the key was written, 2 deleted |
/// | 16 | the version written, zeros when deleted |
/// | … | key |
/// | 8 | XXH64 of everything in the record so far |
/// | 1 | 1 once the change is on the disk, 0 before |
/// | 4 | bytes of the record, to read the file from its end |
///
/// What is appended is never synchronised, so a power cut may take the end of the file or tear holes into it. A record
/// counts only with all those before it, by the checksums that each hands on to the next: what can be read is always a
/// beginning of what was written.
package enum ChangeFile {
    /// The format that is written.
    package static let format: UInt32 = 1
    /// The bytes before the first record.
    package static let headerByteCount = 36
    /// No record is longer.
    package static let maximumRecordByteCount = fixedByteCount + EntryKey.maximumByteCount

    /// A record's last bytes, from its checksum on.
    static let byteCountFromLink = 13

    private static let fixedByteCount = 58
    private static let keyOffset = 45
    private static let magic = Array("ESyncChg".utf8)

    /// One change.
    package struct Record: Hashable, Sendable {
        /// Its place in the sequence, and its tag.
        package var cursor: ChangeCursor
        /// The key that changed.
        package var key: EntryKey
        /// The version that was written, `nil` when the key was deleted.
        package var version: EntryVersion?

        package init(cursor: ChangeCursor, key: EntryKey, version: EntryVersion?) {
            self.cursor = cursor
            self.key = key
            self.version = version
        }
    }

    /// A record as it lies in a file.
    package struct Located: Hashable, Sendable {
        /// What it says.
        package let record: Record
        /// Where it lies in the file.
        package let range: Range<Int>
        /// The checksum of the record before.
        package let previousLink: UInt64
        /// Its own checksum.
        package let link: UInt64
        /// Whether its writer has noted that the change is on the disk.
        package let isSettled: Bool

        /// Where the note is, that the change is on the disk.
        package var noteOffset: Int { range.upperBound - 5 }
    }

    /// The beginning of a file with that random name, 16 bytes.
    package static func header(name: [UInt8]) -> [UInt8] {
        precondition(name.count == 16, "a log's name has 16 bytes")
        var bytes = magic
        bytes.append(bigEndian: format)
        bytes += name
        bytes.append(bigEndian: XXHash64.digest(of: bytes))
        return bytes
    }

    /// The checksum of a header, which is what the first record hands on; `nil` when `bytes` do not begin with one.
    package static func link(ofHeader bytes: [UInt8]) -> UInt64? {
        guard bytes.count >= headerByteCount, bytes.starts(with: magic), UInt32(bigEndianAt: 8, in: bytes) == format
        else { return nil }
        let link = UInt64(bigEndianAt: 28, in: bytes)
        return XXHash64.digest(of: bytes[..<28]) == link ? link : nil
    }

    /// A record behind the one whose checksum is `previousLink`, and its own checksum.
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

    /// A file of `header` and `records`, all settled, and the checksum of the last.
    static func encode(_ records: [Record], behind header: [UInt8]) -> (bytes: [UInt8], link: UInt64) {
        guard let link = link(ofHeader: header) else { preconditionFailure("a log begins with its header") }
        let (bytes, last) = encode(records, after: link)
        return (header + bytes, last)
    }

    /// Settled records behind the one whose checksum is `link`, and the checksum of the last.
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

    /// The records of a whole file; none where it does not begin with a header.
    package static func records(inFile bytes: [UInt8]) -> [Located] {
        guard let link = link(ofHeader: bytes) else { return [] }
        return records(in: Array(bytes[headerByteCount...]), at: headerByteCount, after: link)
    }

    /// The records in `bytes`, which lie at `offset` of the file behind the record whose checksum is `link`; up to the
    /// first that is not whole, or not behind the one before.
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

    /// The last record of a file, of which `bytes` are the end and begin at `offset`; `nil` when it is not whole.
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
