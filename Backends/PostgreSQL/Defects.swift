#if PostgreSQL
/// Deliberate mistakes of a backend. Tests switch them on, and the conformance suite must detect each.
package struct Defects: OptionSet, Hashable, Sendable {
    package let rawValue: Int

    package init(rawValue: Int) { self.rawValue = rawValue }

    /// Numbers changes when they are written, not when they are committed, so that a reader misses slow commits.
    package static let numbersAtWrite = Defects(rawValue: 1)
    /// Reads the entry of a conflict in the statement that found the conflict, from a snapshot that is too old.
    package static let readsConflictInOneStatement = Defects(rawValue: 2)
    /// Writes the rows of a batch in the order of the caller, so that two batches wait for each other.
    package static let writesUnsorted = Defects(rawValue: 4)
    /// Acknowledges a write when its statement has succeeded, before the transaction is committed.
    package static let acknowledgesBeforeCommit = Defects(rawValue: 8)
}
#endif
