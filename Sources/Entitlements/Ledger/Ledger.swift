/// A set of records with unique keys, stored as the sorted run of bytes in which it is persisted and sent.
///
/// A ledger is a grow-only set. ``joined(with:)`` is commutative, associative and idempotent, so syncs in any order,
/// repeated or interrupted, converge to the same bytes.
///
/// To read the facts in a ledger, create ``Facts``. To persist it, use ``LedgerDocument``.
public struct Ledger: Hashable, Sendable {
    /// The records in ascending order of their keys, each as three LEB128 lengths followed by key, order and payload.
    let run: [UInt8]
    /// The number of records.
    public let count: Int
    /// A Boolean value that indicates whether the account of the ledger was erased.
    ///
    /// An erased ledger is empty, and its union with any other ledger is erased too.
    public let isErased: Bool

    /// Creates an empty ledger.
    public init() {
        run = []
        count = 0
        isErased = false
    }

    init(checkedRun run: [UInt8], count: Int, isErased: Bool = false) {
        self.run = run
        self.count = count
        self.isErased = isErased
    }

    /// The marker that replaces the ledger of an erased account.
    ///
    /// It absorbs every ledger that it is joined with, so an outdated device cannot restore erased records.
    public static let erased = Ledger(checkedRun: [], count: 0, isErased: true)

    /// Creates a ledger of `records` in any order. If several have the same key, the largest is kept.
    ///
    /// - Precondition: Every key is nonempty, and no key, order or payload is longer than
    ///   ``LedgerLimits/maximumPartByteCount``.
    /// - Complexity: O(*n* log *n*) in the number of records.
    public init(_ records: some Sequence<Record>) {
        var sorted = Array(records)
        for record in sorted { Self.check(record) }
        sorted.sort { left, right in left.precedes(right) }
        var run: [UInt8] = []
        var count = 0
        for (index, record) in sorted.enumerated() {
            // Equal keys are adjacent, with the largest record last.
            if index + 1 < sorted.count, sorted[index + 1].key == record.key { continue }
            run += record.encoded
            count += 1
        }
        self.run = run
        self.count = count
        isErased = false
    }

    private static func check(_ record: Record) {
        precondition(!record.key.isEmpty, "the key of a record must not be empty")
        for part in [record.key, record.order, record.payload] {
            precondition(
                part.count <= LedgerLimits.maximumPartByteCount,
                "a part of a record must have at most 1 MiB, not \(part.count) bytes")
        }
    }

    /// Returns `true` if both ledgers contain the same records.
    public static func == (left: Ledger, right: Ledger) -> Bool {
        // Uses memcmp, which is faster than comparing arrays.
        left.isErased == right.isErased && left.run.count == right.run.count
            && left.run.withUnsafeBytes { left in
                right.run.withUnsafeBytes { right in RecordRun.compare(left, right) == 0 }
            }
    }

    /// A Boolean value that indicates whether the ledger contains no records.
    public var isEmpty: Bool { run.isEmpty }

    /// The size of all records in bytes, including their length prefixes.
    public var byteCount: Int { run.count }

    /// The records in ascending order of their keys.
    ///
    /// - Complexity: O(*n*) in the bytes of the ledger. Every access decodes all records, so keep the result.
    public var records: [Record] {
        run.withUnsafeBytes { bytes in
            var records: [Record] = []
            records.reserveCapacity(count)
            guard var cursor = RecordRun(checked: bytes) else { return records }
            while !cursor.isAtEnd {
                records.append(cursor.record)
                cursor.advance()
            }
            return records
        }
    }

    /// The record with this key; `nil` if there is none.
    ///
    /// - Complexity: O(*n*) in the bytes of the ledger.
    public subscript(key: [UInt8]) -> Record? {
        run.withUnsafeBytes { bytes in
            key.withUnsafeBytes { key in
                guard var cursor = RecordRun(checked: bytes) else { return nil }
                while !cursor.isAtEnd {
                    let order = RecordRun.compare(cursor.key, key)
                    if order == 0 { return cursor.record }
                    if order > 0 { return nil }
                    cursor.advance()
                }
                return nil
            }
        }
    }
}

extension Record {
    /// Returns `true` if this record is ordered before `other`: by key, then order, then payload, byte by byte.
    func precedes(_ other: Record) -> Bool {
        for (left, right) in [(key, other.key), (order, other.order), (payload, other.payload)] {
            let difference = left.withUnsafeBytes { left in
                right.withUnsafeBytes { right in RecordRun.compare(left, right) }
            }
            if difference != 0 { return difference < 0 }
        }
        return false
    }
}

/// The limits on the size of a ledger.
public struct LedgerLimits: Hashable, Sendable {
    /// The maximum number of records up to which a ledger accepts new facts.
    public var recordCount: Int
    /// The maximum size of all records, in bytes, up to which a ledger accepts new facts.
    public var byteCount: Int

    /// Creates limits.
    package init(recordCount: Int, byteCount: Int) {
        self.recordCount = recordCount
        self.byteCount = byteCount
    }

    /// 100,000 records and 4 MiB, whichever is reached first. A typical ledger has fewer than 50 records.
    ///
    /// The limits apply to recording, never to merging. The union of two ledgers within the limits may exceed them and
    /// is kept.
    public static let standard = LedgerLimits(recordCount: 100_000, byteCount: 4 << 20)

    /// The maximum length of a key, order or payload: 1,048,576 bytes.
    public static let maximumPartByteCount = 1 << 20

    /// The maximum size of a document that is read: 268,435,456 bytes. It bounds memory against hostile input.
    package static let maximumDocumentByteCount = 256 << 20
}
