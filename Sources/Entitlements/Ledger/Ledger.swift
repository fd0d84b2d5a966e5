/// A set of records, one a key, kept as the sorted run of bytes in which it is stored and sent.
///
/// A ledger only grows by joining: ``joined(with:)`` is commutative, associative and idempotent, so any order,
/// repetition or interruption of syncs ends in the same bytes.
public struct Ledger: Hashable, Sendable {
    /// The records in ascending order of their keys, each as three LEB128 lengths followed by key, order and payload.
    let run: [UInt8]
    /// How many records there are.
    public let count: Int
    /// Whether its account was erased: it holds nothing, and joined with anything it still holds nothing.
    public let isErased: Bool

    /// A ledger without records.
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

    /// The marker that stands in the place of a ledger whose account was erased. It absorbs every ledger that it is
    /// joined with, so that an old device which comes back brings nothing back.
    public static let erased = Ledger(checkedRun: [], count: 0, isErased: true)

    /// A ledger of `records` in any order; of several with one key the largest stays.
    ///
    /// Keys are not empty, and no part is longer than ``LedgerLimits/maximumPartByteCount``.
    public init(_ records: some Sequence<Record>) {
        var sorted = Array(records)
        for record in sorted { Self.check(record) }
        sorted.sort { left, right in left.precedes(right) }
        var run: [UInt8] = []
        var count = 0
        for (index, record) in sorted.enumerated() {
            // Equal keys are neighbours, the largest last.
            if index + 1 < sorted.count, sorted[index + 1].key == record.key { continue }
            run += record.encoded
            count += 1
        }
        self.run = run
        self.count = count
        isErased = false
    }

    private static func check(_ record: Record) {
        precondition(!record.key.isEmpty, "a record has a key")
        for part in [record.key, record.order, record.payload] {
            precondition(part.count <= LedgerLimits.maximumPartByteCount, "a record's parts are bounded")
        }
    }

    /// Whether both hold the same records.
    public static func == (left: Ledger, right: Ledger) -> Bool {
        // At the speed of memcmp, which the comparison of arrays has not.
        left.isErased == right.isErased && left.run.count == right.run.count
            && left.run.withUnsafeBytes { left in
                right.run.withUnsafeBytes { right in RecordRun.compare(left, right) == 0 }
            }
    }

    /// Whether there are no records.
    public var isEmpty: Bool { run.isEmpty }

    /// The size of all records in bytes.
    public var byteCount: Int { run.count }

    /// The records in ascending order of their keys.
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

    /// The record of this key, if there is one. Linear in the ledger's size.
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
    /// Whether this record comes first: by key, then order, then payload, byte by byte.
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

/// How large a ledger may grow.
public struct LedgerLimits: Hashable, Sendable {
    /// The most records a ledger takes by recording.
    public var recordCount: Int
    /// The most bytes of records a ledger takes by recording.
    public var byteCount: Int

    /// Limits of the given numbers.
    public init(recordCount: Int, byteCount: Int) {
        self.recordCount = recordCount
        self.byteCount = byteCount
    }

    /// 100,000 records and 4 MiB, whichever comes first. A ledger is typically below 50 records.
    ///
    /// They bound recording, never merging: the union of two ledgers within the limits may be beyond them, and is kept.
    public static let standard = LedgerLimits(recordCount: 100_000, byteCount: 4 << 20)

    /// The longest key, order or payload, in bytes.
    public static let maximumPartByteCount = 1 << 20

    /// The largest document that is read at all, in bytes; a bound on memory against hostile input.
    public static let maximumDocumentByteCount = 256 << 20
}
