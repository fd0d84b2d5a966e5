/// The guarantees of a store. The engine adapts to them, and they decide which conformance checks apply.
public struct Capabilities: Hashable, Sendable {
    /// The failures that an acknowledged write survives.
    public enum Durability: String, Hashable, Sendable {
        /// None. The data is lost when the process ends.
        case process
        /// The end of the process, including a kill, but not a power failure.
        case processDeath
        /// A power failure.
        case powerLoss
        /// The loss of a whole machine: another one has the write before it is acknowledged.
        case machineLoss
    }

    /// The mechanism by which a watcher learns of changes.
    public enum Signals: String, Hashable, Sendable {
        /// The store signals a change at once.
        case pushed
        /// The watcher polls.
        case polled
    }

    /// True if ``Precondition/absent`` and ``Precondition/matches(_:)`` are checked atomically against all other
    /// writers.
    public var compareAndSwap: Bool
    /// The failures that an acknowledged write survives.
    public var durability: Durability
    /// True if ``KeyValueBackend/changes(since:prefix:limit:)`` is supported.
    public var changes: Bool
    /// The mechanism by which a watcher learns of changes.
    public var signals: Signals
    /// True if several processes may use the store at the same time.
    public var sharedBetweenProcesses: Bool
    /// The largest value in bytes; `nil` if only memory limits it.
    public var maximumValueByteCount: Int?

    /// Creates a value with these guarantees.
    public init(
        compareAndSwap: Bool, durability: Durability, changes: Bool, signals: Signals, sharedBetweenProcesses: Bool,
        maximumValueByteCount: Int? = nil
    ) {
        self.compareAndSwap = compareAndSwap
        self.durability = durability
        self.changes = changes
        self.signals = signals
        self.sharedBetweenProcesses = sharedBetweenProcesses
        self.maximumValueByteCount = maximumValueByteCount
    }
}

extension Capabilities {
    /// The error for a value of more than ``maximumValueByteCount`` bytes; `nil` for one that may be written.
    package func refusal(of value: [UInt8], at key: EntryKey) -> BackendError? {
        guard let maximum = maximumValueByteCount, value.count > maximum else { return nil }
        return BackendError(
            .tooLarge, operation: .write, key: key,
            message: "a value must have at most \(maximum) bytes here, not \(value.count)")
    }
}
