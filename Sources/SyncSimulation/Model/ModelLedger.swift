/// One record of a ledger, as bytes.
struct ModelRecord: Hashable {
    var key: [UInt8]
    var order: [UInt8]
    var payload: [UInt8]

    /// Returns `true` if `other`, under the same key, wins over this record: it has the larger order, or the same order
    /// and the larger payload.
    func precedes(_ other: ModelRecord) -> Bool {
        if order != other.order { return order.lexicographicallyPrecedes(other.order) }
        return payload.lexicographicallyPrecedes(other.payload)
    }
}

/// A ledger as the oracles read it.
///
/// This folder is the oracles' independent implementation of ledgers and their replay: slow, simple, and without code
/// or imports from what is tested. It follows `Docs/ledger.proto`, the layout in `LedgerDocument.swift` and
/// `Docs/ConflictRules.md`.
struct ModelLedger: Equatable {
    typealias Record = ModelRecord

    /// True for the marker of an erased ledger, which has no records.
    var isErased = false
    /// The records in ascending order of their keys, at most one for each key.
    var records: [ModelRecord] = []

    init() {}

    /// A ledger of `records`, whose keys must differ.
    init(_ records: [ModelRecord]) {
        self.records = records.sorted { $0.key.lexicographicallyPrecedes($1.key) }
    }

    /// The record under `key`.
    subscript(key: [UInt8]) -> ModelRecord? {
        var (low, high) = (0, records.count)
        while low < high {
            let middle = (low + high) / 2
            if records[middle].key.lexicographicallyPrecedes(key) { low = middle + 1 } else { high = middle }
        }
        return low < records.count && records[low].key == key ? records[low] : nil
    }

    /// Returns `true` if this ledger contains `record`, or a stronger one under its key.
    func covers(_ record: ModelRecord) -> Bool {
        guard let own = self[record.key] else { return false }
        return !own.precedes(record)
    }

    /// Returns `true` if joining `other` changes nothing here.
    func covers(_ other: ModelLedger) -> Bool {
        isErased || (!other.isErased && missing(of: other) == nil)
    }

    /// The first record of `other` that this ledger does not cover; `nil` if it covers all, or is erased.
    func missing(of other: ModelLedger) -> ModelRecord? {
        guard !isErased else { return nil }
        var index = 0
        for record in other.records {
            while index < records.count, records[index].key.lexicographicallyPrecedes(record.key) { index += 1 }
            guard index < records.count, records[index].key == record.key, !records[index].precedes(record) else {
                return record
            }
        }
        return nil
    }

    /// The union: the stronger record for each key. An erased ledger stays erased.
    static func join(_ a: ModelLedger, _ b: ModelLedger) -> ModelLedger {
        if a.isErased { return a }
        if b.isErased { return b }
        var union = ModelLedger()
        var (left, right) = (a.records[...], b.records[...])
        while let mine = left.first, let theirs = right.first {
            if mine.key == theirs.key {
                union.records.append(mine.precedes(theirs) ? theirs : mine)
                left.removeFirst()
                right.removeFirst()
            } else if mine.key.lexicographicallyPrecedes(theirs.key) {
                union.records.append(left.removeFirst())
            } else {
                union.records.append(right.removeFirst())
            }
        }
        union.records += left + right
        return union
    }

    /// The union of both.
    func joined(with other: ModelLedger) -> ModelLedger { .join(self, other) }
}
