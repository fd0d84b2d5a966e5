public import SyncCore

/// One operation of a batch. Each is independent: one may conflict or fail while the next succeeds.
public enum BatchOperation: Hashable, Sendable {
    /// A read.
    case read(ReadRequest)
    /// A write or a deletion.
    case write(WriteRequest)
}

/// The result of one operation of a batch.
public enum BatchResult: Hashable, Sendable {
    /// The outcome of a read.
    case read(ReadOutcome)
    /// The outcome of a write or a deletion.
    case write(WriteOutcome)
    /// A write or a deletion whose condition did not hold, when the answer had no room for the value of the conflicting
    /// entry. The associated value is the version of that entry; the client reads the key to get the value.
    case conflictWithoutValue(EntryVersion)
    /// The operation failed or was not started.
    case problem(Problem)
}
