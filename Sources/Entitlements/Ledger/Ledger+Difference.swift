extension Ledger {
    /// The records that this ledger has and `other` lacks, or has in another form, in ascending order of their keys.
    /// Linear in the bytes of both.
    package func records(beyond other: Ledger) -> [Record] {
        var known: [[UInt8]: Record] = [:]
        for record in other.records { known[record.key] = record }
        return records.filter { known[$0.key] != $0 }
    }

    /// Whether it has a record that only the account's server may write.
    package var hasAcceptance: Bool {
        records.contains { $0.key.first == UInt8(FactKey.Field.acceptance << 3 | 2) }
    }
}

extension Record {
    /// Whether it is a purchase's, as far as the first byte of its key tells.
    package var isPurchase: Bool { FactKey.isPurchase(key) }
}
