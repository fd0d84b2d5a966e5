extension Ledger {
    /// Returns the records of this ledger that `other` lacks or holds in a different form, in ascending order of their
    /// keys. Linear in the bytes of both.
    package func records(beyond other: Ledger) -> [Record] {
        run.withUnsafeBytes { bytes in
            other.run.withUnsafeBytes { otherBytes in
                var (mine, theirs) = (RecordRun(checked: bytes), RecordRun(checked: otherBytes))
                var records: [Record] = []
                while let record = mine {
                    let order = theirs.map { RecordRun.compare(record.key, $0.key) } ?? -1
                    let isSame = order == 0 && theirs.map(record.compareContent) == 0
                    if order <= 0 {
                        if !isSame { records.append(record.record) }
                        mine = record.following
                    }
                    if order >= 0 { theirs = theirs?.following }
                }
                return records
            }
        }
    }

    /// The number of recordings.
    var recordingCount: Int {
        run.withUnsafeBytes { bytes in
            var count = 0
            var cursor = RecordRun(checked: bytes)
            while let record = cursor {
                if record.key.first == UInt8(FactKey.Field.recording << 3 | 2) { count += 1 }
                cursor = record.following
            }
            return count
        }
    }

    /// True if the ledger contains a record that only the account's server may write.
    package var hasServerRecord: Bool {
        let tags = [FactKey.Field.acceptance, FactKey.Field.policy].map { UInt8($0 << 3 | 2) }
        return records.contains { record in record.key.first.map(tags.contains) ?? false }
    }
}

extension Ledger {
    /// The difference between two ledgers.
    struct Difference {
        /// The records whose keys only the later ledger has.
        var added = Ledger()
        /// The number of keys under which the later ledger has another record.
        var changedCount = 0
        /// The number of keys that only the earlier ledger has.
        var removedCount = 0

        var isGain: Bool { changedCount == 0 && removedCount == 0 }
    }

    /// Compares this ledger with an earlier one. Linear in the bytes of both.
    func difference(from earlier: Ledger) -> Difference {
        // The common cases: nothing to leave out, and nothing new.
        if earlier.isEmpty { return Difference(added: self) }
        if self == earlier { return Difference() }
        return run.withUnsafeBytes { bytes in
            earlier.run.withUnsafeBytes { earlierBytes in
                Self.difference(of: RecordRun(checked: bytes), from: RecordRun(checked: earlierBytes))
            }
        }
    }

    private static func difference(of later: RecordRun?, from earlier: RecordRun?) -> Difference {
        var (later, earlier) = (later, earlier)
        var (changed, removed, count) = (0, 0, 0)
        var run: [UInt8] = []
        while let record = later {
            let order = earlier.map { RecordRun.compare(record.key, $0.key) } ?? -1
            if order < 0 {
                run += record.encoded
                count += 1
            } else if order == 0, let other = earlier, record.compareContent(with: other) != 0 {
                changed += 1
            } else if order > 0 {
                removed += 1
            }
            if order <= 0 { later = record.following }
            if order >= 0 { earlier = earlier?.following }
        }
        while let record = earlier {
            removed += 1
            earlier = record.following
        }
        return Difference(
            added: Ledger(checkedRun: run, count: count), changedCount: changed, removedCount: removed)
    }
}
