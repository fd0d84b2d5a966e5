private import Checksums

/// A ledger as it is stored and sent, with a section for the store that holds it.
///
/// Layout, numbers little-endian: magic `ESLG` (4 bytes), format (2), flags (2; 1: the account was
/// erased, and there are no records), record count (4), byte count
/// of the records (4), byte count of the local section (4), XXH64 of the records (8), XXH64 of the local section (8),
/// XXH64 of the 36 bytes before (8), the records, the local section. `Docs/ledger.proto` describes the parts of a
/// record.
public struct LedgerDocument: Hashable, Sendable {
    /// The records.
    public var ledger: Ledger
    /// Bytes of the store that holds the document: the engine's checkpoints. Joining ignores them, they are never sent
    /// to a remote, and any writer may drop them.
    public var localSection: [UInt8]

    /// A document of the given parts.
    public init(ledger: Ledger = Ledger(), localSection: [UInt8] = []) {
        self.ledger = ledger
        self.localSection = localSection
    }

    /// The format that this version writes, and the newest that it reads.
    public static let format: UInt16 = 1

    static let magic: [UInt8] = Array("ESLG".utf8)
    static let headerByteCount = 44
    /// The flag of a document that stands in the place of an erased ledger.
    static let erasedFlag: UInt16 = 1

    /// The document's bytes. Equal ledgers with equal sections give equal bytes.
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

    /// Names the ledger's content: equal for equal ledgers, whatever the local section. 12 bytes: digest and size.
    public var contentDigest: [UInt8] {
        guard !ledger.isErased else { return [UInt8](repeating: 0xFF, count: 12) }
        var bytes: [UInt8] = []
        bytes.appendLittleEndian(XXHash64.digest(of: ledger.run))
        bytes.appendLittleEndian(UInt32(ledger.run.count))
        return bytes
    }
}

extension LedgerDocument {
    /// Reads a document, all of it or nothing.
    ///
    /// - Throws: ``LedgerFormatError`` that says what is wrong and at which byte.
    public init(decoding bytes: [UInt8]) throws(LedgerFormatError) {
        let header = try Header(bytes)
        let recordsEnd = Self.headerByteCount + header.runByteCount
        let run = Array(bytes[Self.headerByteCount..<recordsEnd])
        let section = Array(bytes[recordsEnd...])
        guard XXHash64.digest(of: run) == header.runDigest else {
            throw LedgerFormatError(
                .damaged, offset: Self.headerByteCount, reason: "the records do not match their checksum")
        }
        guard XXHash64.digest(of: section) == header.sectionDigest else {
            throw LedgerFormatError(
                .damaged, offset: recordsEnd, reason: "the local section does not match its checksum")
        }
        let count = try RecordRunChecker.countRecords(in: run, at: Self.headerByteCount)
        guard count == header.recordCount else {
            throw LedgerFormatError(
                .damaged, offset: 8, reason: "the header counts \(header.recordCount) records, there are \(count)")
        }
        guard !header.isErased || count == 0 else {
            throw LedgerFormatError(.damaged, offset: 6, reason: "an erased ledger holds records")
        }
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
            guard bytes.count <= LedgerLimits.maximumDocumentByteCount else {
                throw LedgerFormatError(.tooLarge, offset: 0, reason: "the document has \(bytes.count) bytes")
            }
            guard bytes.starts(with: magic) else {
                throw LedgerFormatError(.damaged, offset: 0, reason: "this is no ledger: it does not begin with ESLG")
            }
            guard bytes.count >= headerByteCount else {
                throw LedgerFormatError(.damaged, offset: bytes.count, reason: "the document ends within its header")
            }
            // The format comes before the checksum: a newer format may check itself in another way.
            let format: UInt16 = bytes.littleEndian(at: 4)
            guard format > 0 else {
                throw LedgerFormatError(.damaged, offset: 4, reason: "there is no format 0")
            }
            guard format <= LedgerDocument.format else {
                throw LedgerFormatError(
                    .newerFormat, offset: 4,
                    reason: "it is written in format \(format), this version reads up to \(LedgerDocument.format)")
            }
            guard XXHash64.digest(of: bytes[..<36]) == bytes.littleEndian(at: 36) else {
                throw LedgerFormatError(.damaged, offset: 0, reason: "the header does not match its checksum")
            }
            let flags: UInt16 = bytes.littleEndian(at: 6)
            guard flags == 0 || flags == LedgerDocument.erasedFlag else {
                throw LedgerFormatError(.newerFormat, offset: 6, reason: "it uses features of a later version")
            }
            isErased = flags == LedgerDocument.erasedFlag
            // Added up where there is room: where Int has 32 bits, not every length is one.
            let runByteCount: UInt32 = bytes.littleEndian(at: 12)
            let sectionByteCount: UInt32 = bytes.littleEndian(at: 16)
            let expected = UInt64(headerByteCount) + UInt64(runByteCount) + UInt64(sectionByteCount)
            guard bytes.count == expected else {
                throw LedgerFormatError(
                    .damaged, offset: Int(clamping: min(UInt64(bytes.count), expected)),
                    reason: "the document has \(bytes.count) bytes, its header says \(expected)")
            }
            recordCount = Int(clamping: bytes.littleEndian(at: 8) as UInt32)
            // No more than the document has.
            self.runByteCount = Int(runByteCount)
            runDigest = bytes.littleEndian(at: 20)
            sectionDigest = bytes.littleEndian(at: 28)
        }
    }
}

/// A document cannot be read as a ledger. Nothing of it was taken.
public struct LedgerFormatError: Error, Hashable, Sendable, CustomStringConvertible {
    /// What went wrong. More kinds may come; switch with a default.
    public struct Kind: Hashable, Sendable {
        private enum Code { case damaged, newerFormat, tooLarge }
        private let code: Code

        /// The bytes are not what was written.
        public static let damaged = Kind(code: .damaged)
        /// A later version wrote it.
        public static let newerFormat = Kind(code: .newerFormat)
        /// It is beyond every limit.
        public static let tooLarge = Kind(code: .tooLarge)
    }

    /// What went wrong.
    public let kind: Kind
    /// The first byte in question, counted from 0.
    public let offset: Int
    /// What is wrong there.
    public let reason: String

    init(_ kind: Kind, offset: Int, reason: String) {
        self.kind = kind
        self.offset = offset
        self.reason = reason
    }

    /// One line: the place and the reason.
    public var description: String { "at byte \(offset): \(reason)" }
}

extension [UInt8] {
    fileprivate mutating func appendLittleEndian(_ value: some FixedWidthInteger) {
        Swift.withUnsafeBytes(of: value.littleEndian) { append(contentsOf: $0) }
    }

    fileprivate func littleEndian<Number: FixedWidthInteger>(at offset: Int) -> Number {
        Number(littleEndian: withUnsafeBytes { $0.loadUnaligned(fromByteOffset: offset, as: Number.self) })
    }
}
