public import SyncCore

/// One operation on one key of a store, with its place in the order of calls and answers.
///
/// `called` and `answered` come from one counter that all tasks share: an operation that was answered before another
/// was called has the smaller number, whatever the clocks of the machine say.
public struct RecordedOperation: Sendable, CustomStringConvertible {
    /// What was asked.
    public enum Call: Hashable, Sendable {
        /// A read, conditional when a version is given.
        case read(unless: EntryVersion?)
        /// A write.
        case write([UInt8], if: Precondition)
        /// A delete.
        case delete(if: Precondition)
    }

    /// What came of it.
    public enum Ending: Hashable, Sendable {
        /// The answer to a read.
        case read(ReadOutcome)
        /// The answer to a write or a delete.
        case changed(WriteOutcome)
        /// Nobody knows: a write or delete that may have happened, or may happen at any later time, or never.
        case unknown
    }

    /// Who asked.
    public let task: Int
    /// What was asked.
    public let call: Call
    /// What came of it.
    public let ending: Ending
    /// When it was asked.
    public let called: Int
    /// When the answer came; of no meaning where the ending is unknown.
    public let answered: Int

    /// An operation, as it was seen from outside; `called` is smaller than `answered`.
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
