extension Ledger {
    /// Returns the records of this ledger that `other` lacks or holds in a different form, in ascending order of their
    /// keys. Linear in the bytes of both.
    package func records(beyond other: Ledger) -> [Record] {
        var known: [[UInt8]: Record] = [:]
        for record in other.records { known[record.key] = record }
        return records.filter { known[$0.key] != $0 }
    }

    /// True if the ledger contains a record that only the account's server may write.
    package var hasServerRecord: Bool {
        let tags = [FactKey.Field.acceptance, FactKey.Field.policy].map { UInt8($0 << 3 | 2) }
        return records.contains { record in record.key.first.map(tags.contains) ?? false }
    }
}

extension Record {
    /// True if the first byte of the key marks the record as a purchase.
    package var isPurchase: Bool { FactKey.isPurchase(key) }
}
