public import SyncCore

/// An operation on one key, with its position in the order of calls and answers.
///
/// `called` and `answered` come from one counter that all tasks share. An operation that was answered before another
/// one was called has the smaller number, independently of any clock.
public struct RecordedOperation: Sendable, CustomStringConvertible {
    /// The arguments of an operation.
    public enum Call: Hashable, Sendable {
        /// A read, conditional if a version is given.
        case read(unless: EntryVersion?)
        /// A write.
        case write([UInt8], if: Precondition)
        /// A delete.
        case delete(if: Precondition)
    }

    /// The result of an operation.
    public enum Ending: Hashable, Sendable {
        /// The outcome of a read.
        case read(ReadOutcome)
        /// The outcome of a write or a delete.
        case changed(WriteOutcome)
        /// Unknown: the write or delete may have happened, or may happen at any later time, or never.
        case unknown
    }

    /// The number of the calling task.
    public let task: Int
    /// The arguments of the operation.
    public let call: Call
    /// The result of the operation.
    public let ending: Ending
    /// The position of the call.
    public let called: Int
    /// The position of the answer; without meaning if the result is unknown.
    public let answered: Int

    /// Creates an operation as it was observed; `called` must be smaller than `answered`.
    public init(task: Int, call: Call, ending: Ending, called: Int, answered: Int) {
        self.task = task
        self.call = call
        self.ending = ending
        self.called = called
        self.answered = answered
    }

    /// `task 2: write [1] if absent → written at 0a…`.
    public var description: String {
        let asked =
            switch call {
            case .read(nil): "read"
            case .read(let version?): "read unless \(version)"
            case .write(let value, let precondition): "write \(brief(value)) if \(brief(precondition))"
            case .delete(let precondition): "delete if \(brief(precondition))"
            }
        let came =
            switch ending {
            case .read(let outcome): brief(outcome)
            case .changed(let outcome): brief(outcome)
            case .unknown: "outcome unknown"
            }
        return "task \(task): \(asked) → \(came)"
    }
}
