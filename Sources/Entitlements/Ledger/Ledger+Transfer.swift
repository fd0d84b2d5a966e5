extension Ledger {
    /// The records that a ledger may take over from any other. What only its own place can say is left out: claims of
    /// an account, decisions of a server, requests that are pending on a device, notes of a device.
    ///
    /// Kinds that this version does not know are taken over, as merging does.
    public var transferable: Ledger {
        Ledger(records.filter { !FactKey.staysInPlace($0.key) })
    }

    /// Those of `records` that joining would add or prefer to what is here; of several with one key only the largest
    /// counts. In ascending order of their keys.
    package func missing(of records: [Record]) -> [Record] {
        let known = Dictionary(uniqueKeysWithValues: self.records.map { ($0.key, $0) })
        return Ledger(records).records.filter { record in known[record.key].map { $0.precedes(record) } ?? true }
    }
}

extension FactKey {
    /// Whether these are the bytes of a key whose record means something only where it was written, as far as the
    /// first of them tells: field numbers below 16 take one byte.
    fileprivate static func staysInPlace(_ key: [UInt8]) -> Bool {
        [Field.claim, Field.acceptance, Field.pending, Field.contradiction].contains { field in
            key.first == UInt8(field << 3 | 2)
        }
    }
}
