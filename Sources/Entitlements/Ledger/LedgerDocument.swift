private import Checksums

/// The binary format in which a ledger is stored and sent, with a local section for the store that holds it.
///
/// All numbers are little-endian. The header has 44 bytes:
///
/// - Magic `ESLG` (4 bytes).
/// - Format (2 bytes).
/// - Flags (2 bytes); the value 1 marks an erased account, whose document contains no records.
/// - Number of records (4 bytes).
/// - Size of the records in bytes (4 bytes).
/// - Size of the local section in bytes (4 bytes).
/// - XXH64 of the records (8 bytes).
/// - XXH64 of the local section (8 bytes).
/// - XXH64 of the preceding 36 bytes (8 bytes).
///
/// The records follow the header, and the local section follows the records. `Docs/ledger.proto` describes the parts
/// of a record.
public struct LedgerDocument: Hashable, Sendable {
    /// The records.
    public var ledger: Ledger
    /// Bytes for the store that holds the document, for example the checkpoints of the sync engine. Joining ignores
    /// them, they are never sent to a remote, and any writer may drop them.
    public var localSection: [UInt8]

    /// Creates a document.
    public init(ledger: Ledger = Ledger(), localSection: [UInt8] = []) {
        self.ledger = ledger
        self.localSection = localSection
    }

    /// The format version that this library writes, and the newest that it reads.
    public static let format: UInt16 = 1

    static let magic: [UInt8] = Array("ESLG".utf8)
    static let headerByteCount = 44
    /// The flag that marks the document of an erased ledger.
    static let erasedFlag: UInt16 = 1

    /// Encodes the document. Equal ledgers with equal local sections give equal bytes.
    public func encoded() -> [UInt8] {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(Self.headerByteCount + ledger.run.count + localSection.count)
        bytes += Self.magic
        bytes.appendLittleEndian(Self.format)
        bytes.appendLittleEndian(ledger.isErased ? Self.erasedFlag : 0)
        bytes.appendLittleEndian(UInt32(ledger.count))
        bytes.appendLittleEndian(UInt32(ledger.run.count))
        bytes.appendLittleEndian(UInt32(localSection.count))
        bytes.appendLittleEndian(XXHash64.digest(of: ledger.run))
        bytes.appendLittleEndian(XXHash64.digest(of: localSection))
        bytes.appendLittleEndian(XXHash64.digest(of: bytes))
        bytes += ledger.run
        bytes += localSection
        return bytes
    }

    /// A 12-byte digest that identifies the content of the ledger, independent of the local section.
    ///
    /// It consists of the XXH64 (8 bytes) and the size (4 bytes) of the records; all bytes are 0xFF for an erased
    /// ledger. The digest detects accidental differences. It is not a cryptographic hash.
    package var contentDigest: [UInt8] {
        guard !ledger.isErased else { return [UInt8](repeating: 0xFF, count: 12) }
        var bytes: [UInt8] = []
        bytes.appendLittleEndian(XXHash64.digest(of: ledger.run))
        bytes.appendLittleEndian(UInt32(ledger.run.count))
        return bytes
    }
}

extension LedgerDocument {
    /// Decodes a document, completely or not at all.
    ///
    /// - Throws: ``LedgerFormatError`` of kind ``LedgerFormatError/Kind/damaged``,
    ///   ``LedgerFormatError/Kind/newerFormat`` or ``LedgerFormatError/Kind/tooLarge``, with the offset of the first
    ///   invalid byte.
    public init(decoding bytes: [UInt8]) throws(LedgerFormatError) {
        let header = try Header(bytes)
        let recordsEnd = Self.headerByteCount + header.runByteCount
        let run = Array(bytes[Self.headerByteCount..<recordsEnd])
        let section = Array(bytes[recordsEnd...])
        try require(
            XXHash64.digest(of: run) == header.runDigest, .damaged, at: Self.headerByteCount,
            "the records do not match their checksum")
        try require(
            XXHash64.digest(of: section) == header.sectionDigest, .damaged, at: recordsEnd,
            "the local section does not match its checksum")
        let count = try RecordRunChecker.countRecords(in: run, at: Self.headerByteCount)
        try require(
            count == header.recordCount, .damaged, at: 8,
            "the header counts \(header.recordCount) records, there are \(count)")
        try require(!header.isErased || count == 0, .damaged, at: 6, "an erased ledger holds records")
        self.init(
            ledger: Ledger(checkedRun: run, count: count, isErased: header.isErased), localSection: section)
    }

    private struct Header {
        let recordCount: Int
        let runByteCount: Int
        let runDigest: UInt64
        let sectionDigest: UInt64
        let isErased: Bool

        init(_ bytes: [UInt8]) throws(LedgerFormatError) {
            try require(
                bytes.count <= LedgerLimits.maximumDocumentByteCount, .tooLarge, at: 0,
                "the document has \(bytes.count) bytes")
            try require(bytes.starts(with: magic), .damaged, at: 0, "this is not a ledger: it does not begin with ESLG")
            try require(
                bytes.count >= headerByteCount, .damaged, at: bytes.count, "the document ends within its header")
            // The format is checked before the checksum, because a newer format may use another checksum.
            let format: UInt16 = bytes.littleEndian(at: 4)
            try require(format > 0, .damaged, at: 4, "there is no format 0")
            try require(
                format <= LedgerDocument.format, .newerFormat, at: 4,
                "it is written in format \(format), this version reads up to \(LedgerDocument.format)")
            try require(
                XXHash64.digest(of: bytes[..<36]) == bytes.littleEndian(at: 36), .damaged, at: 0,
                "the header does not match its checksum")
            let flags: UInt16 = bytes.littleEndian(at: 6)
            try require(
                flags == 0 || flags == LedgerDocument.erasedFlag, .newerFormat, at: 6,
                "it uses features of a later version")
            isErased = flags == LedgerDocument.erasedFlag
            // Added as UInt64, because on 32-bit platforms Int cannot hold every length.
            let runByteCount: UInt32 = bytes.littleEndian(at: 12)
            let sectionByteCount: UInt32 = bytes.littleEndian(at: 16)
            let expected = UInt64(headerByteCount) + UInt64(runByteCount) + UInt64(sectionByteCount)
            try require(
                bytes.count == expected, .damaged, at: Int(clamping: min(UInt64(bytes.count), expected)),
                "the document has \(bytes.count) bytes, its header says \(expected)")
            recordCount = Int(clamping: bytes.littleEndian(at: 8) as UInt32)
            // Fits: it is at most the size of the document.
            self.runByteCount = Int(runByteCount)
            runDigest = bytes.littleEndian(at: 20)
            sectionDigest = bytes.littleEndian(at: 28)
        }
    }
}

/// An error that is thrown when a document cannot be read as a ledger. No part of the document was used.
public struct LedgerFormatError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The kind of a format error. Later versions may add kinds, so a `switch` needs a default case.
    public struct Kind: Hashable, Sendable {
        private enum Code { case damaged, newerFormat, tooLarge }
        private let code: Code

        /// The bytes differ from what was written, or were never a ledger.
        public static let damaged = Kind(code: .damaged)
        /// The document was written by a later version of the library.
        public static let newerFormat = Kind(code: .newerFormat)
        /// The document, or a part of a record, exceeds ``LedgerLimits``.
        public static let tooLarge = Kind(code: .tooLarge)
    }

    /// The kind of the error.
    public let kind: Kind
    /// The offset of the first invalid byte, counted from 0.
    public let offset: Int
    /// The reason for the error.
    public let reason: String

    init(_ kind: Kind, offset: Int, reason: String) {
        self.kind = kind
        self.offset = offset
        self.reason = reason
    }

    /// The offset and the reason, on one line.
    public var description: String { "at byte \(offset): \(reason)" }
}

private func require(
    _ condition: Bool, _ kind: LedgerFormatError.Kind, at offset: Int, _ reason: @autoclosure () -> String
) throws(LedgerFormatError) {
    guard condition else { throw LedgerFormatError(kind, offset: offset, reason: reason()) }
}

extension [UInt8] {
    fileprivate mutating func appendLittleEndian(_ value: some FixedWidthInteger) {
        Swift.withUnsafeBytes(of: value.littleEndian) { append(contentsOf: $0) }
    }

    fileprivate func littleEndian<Number: FixedWidthInteger>(at offset: Int) -> Number {
        Number(littleEndian: withUnsafeBytes { $0.loadUnaligned(fromByteOffset: offset, as: Number.self) })
    }
}
