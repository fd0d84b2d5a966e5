public import SyncCore

/// One operation of a batch. Each is on its own: one may conflict or fail while the next succeeds.
public enum BatchOperation: Hashable, Sendable {
    /// A read.
    case read(ReadRequest)
    /// A write or a deletion.
    case write(WriteRequest)
}

/// What became of one operation of a batch.
public enum BatchResult: Hashable, Sendable {
    /// The answer to a read.
    case read(ReadOutcome)
    /// The answer to a write or a deletion.
    case write(WriteOutcome)
    /// Why it was not done.
    case problem(Problem)
}
