import SyncCore

/// The record of one change in the file. Numbers are big-endian.
///
/// | bytes | content |
/// |---|---|
/// | 4 | length of the key |
/// | 8 | length of the value; all bits set if the key was deleted |
/// | 16 | version |
/// | 8 | checksum of the value |
/// | … | key |
/// | 8 | checksum of all bytes before it |
/// | … | value |
///
/// With the second checksum, a reader can go from record to record without reading the values.
struct JournalRecord {
    static let maximumValueByteCount = 1 << 24
    static let fixedByteCount = 36
    static let maximumHeadByteCount = fixedByteCount + EntryKey.maximumByteCount + 8

    let key: EntryKey
    let version: EntryVersion
    let isDeletion: Bool
    let valueRange: Range<Int>
    private let valueSum: UInt64

    /// An identifier of the change. It reveals a cursor that belongs to another journal.
    var tag: UInt64 { UInt64(version.bytes.prefix(8)) }

    static func encode(_ value: [UInt8]?, version: EntryVersion, key: EntryKey) -> [UInt8] {
        let keyBytes = Array(key.text.utf8)
        var bytes = UInt32(keyBytes.count).bytes + (value.map { UInt64($0.count) } ?? .max).bytes + version.bytes
        bytes += checksum(value ?? []).bytes + keyBytes
        return bytes + checksum(bytes).bytes + (value ?? [])
    }

    /// Decodes the record that begins with `head` at `offset` of the file; `nil` if those bytes are not a record.
    init?(_ head: [UInt8], at offset: Int) {
        guard head.count >= Self.fixedByteCount else { return nil }
        let keyEnd = Self.fixedByteCount + Int(UInt64(head[..<4]))
        guard keyEnd + 8 <= head.count, UInt64(head[keyEnd..<(keyEnd + 8)]) == Self.checksum(head[..<keyEnd]),
            let text = String(validating: head[Self.fixedByteCount..<keyEnd], as: UTF8.self),
            let key = try? EntryKey(text)
        else { return nil }
        let count = UInt64(head[4..<12])
        guard count == .max || count <= Self.maximumValueByteCount else { return nil }
        self.key = key
        version = EntryVersion(bytes: Array(head[12..<28]))
        isDeletion = count == .max
        valueRange = (offset + keyEnd + 8)..<(offset + keyEnd + 8 + (isDeletion ? 0 : Int(count)))
        valueSum = UInt64(head[28..<36])
    }

    /// Reads the entry that the record wrote.
    ///
    /// - Throws: ``BackendError`` of kind `damaged` if the value does not match its checksum.
    func entry(in file: JournalFile) throws(BackendError) -> Entry {
        let value = try file.bytes(valueRange)
        guard value.count == valueRange.count, Self.checksum(value) == valueSum else {
            throw BackendError(
                .damaged, key: key,
                message: "\(file.path): the value at byte \(valueRange.lowerBound) is damaged; write the key again")
        }
        return Entry(value: value, version: version)
    }

    /// FNV-1a. It detects every change of a single byte, but does not protect against forgery.
    private static func checksum(_ bytes: some Sequence<UInt8>) -> UInt64 {
        bytes.reduce(0xCBF2_9CE4_8422_2325) { ($0 ^ UInt64($1)) &* 0x100_0000_01B3 }
    }
}

extension FixedWidthInteger {
    var bytes: [UInt8] { withUnsafeBytes(of: bigEndian) { Array($0) } }
}

extension UInt64 {
    init(_ bytes: some Sequence<UInt8>) { self = bytes.reduce(0) { $0 << 8 | UInt64($1) } }
}
