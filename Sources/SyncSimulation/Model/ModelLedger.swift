/// One record of a ledger, as bytes.
struct ModelRecord: Hashable {
    var key: [UInt8]
    var order: [UInt8]
    var payload: [UInt8]

    /// Whether a ledger that holds `other` under the same key keeps that one: it has the larger order, or the same
    /// order and the larger payload.
    func precedes(_ other: ModelRecord) -> Bool {
        if order != other.order { return order.lexicographicallyPrecedes(other.order) }
        return payload.lexicographicallyPrecedes(other.payload)
    }
}

/// A ledger as the oracles read it.
///
/// The files of this folder are the oracles' own idea of ledgers and of what follows from them: slow, plain, and
/// without a line or an import of what they judge. They follow `Docs/ledger.proto`, the layout in
/// `LedgerDocument.swift` and `Docs/ConflictRules.md`.
struct ModelLedger: Equatable {
    typealias Record = ModelRecord

    /// Whether it stands in the place of an erased ledger. Then there are no records.
    var isErased = false
    /// In ascending order of their keys, one a key.
    var records: [ModelRecord] = []

    init() {}

    /// A ledger of `records`, the keys of which differ.
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

    /// Whether this ledger says `record`, or something stronger under its key.
    func covers(_ record: ModelRecord) -> Bool {
        guard let own = self[record.key] else { return false }
        return !own.precedes(record)
    }

    /// Whether joining `other` would change nothing here: it says no more than this does.
    func covers(_ other: ModelLedger) -> Bool {
        isErased || (!other.isErased && missing(of: other) == nil)
    }

    /// The first record of `other` that this ledger does not say; `nil` when it says all, and when it is erased.
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

    /// The union: for each key the stronger record. What is erased stays erased.
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
