extension Ledger {
    /// The records that may be copied into another ledger.
    ///
    /// Records that are valid only in their own ledger are left out: claims of an account, decisions and policies of a
    /// server, and the pending requests, notes and stored evidence of a device.
    ///
    /// Records of unknown kinds are included, as in merging.
    package var transferable: Ledger {
        Ledger(records.filter { !FactKey.staysInPlace($0.key) })
    }

    /// Returns those of `records` that joining would add, or prefer to an existing record. If several have the same
    /// key, only the largest is considered. The result is in ascending order of the keys.
    package func missing(of records: [Record]) -> [Record] {
        let known = Dictionary(uniqueKeysWithValues: self.records.map { ($0.key, $0) })
        return Ledger(records).records.filter { record in known[record.key].map { $0.precedes(record) } ?? true }
    }
}

extension FactKey {
    /// Returns `true` if a record with this key is valid only in the ledger in which it was written. The first byte
    /// suffices, because tags of field numbers below 16 take one byte.
    fileprivate static func staysInPlace(_ key: [UInt8]) -> Bool {
        [Field.claim, Field.acceptance, Field.pending, Field.contradiction, Field.policy, Field.evidence].contains {
            field in
            key.first == UInt8(field << 3 | 2)
        }
    }
}
