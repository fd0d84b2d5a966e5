/// What a store really honours. The engine chooses by it, and the conformance checks select themselves by it.
public struct Capabilities: Hashable, Sendable {
    /// What an acknowledged write has survived.
    public enum Durability: String, Hashable, Sendable {
        /// Nothing: it is gone with the process.
        case process
        /// The end of the process, by whatever signal; a power cut may take it.
        case processDeath
        /// A power cut.
        case powerLoss
    }

    /// How a watcher learns that something changed.
    public enum Signals: String, Hashable, Sendable {
        /// The store says so at once.
        case pushed
        /// The watcher asks now and then.
        case polled
    }

    /// Whether ``Precondition/absent`` and ``Precondition/matches(_:)`` hold against all other writers.
    public var compareAndSwap: Bool
    /// What an acknowledged write has survived.
    public var durability: Durability
    /// Whether ``KeyValueBackend/changes(since:limit:)`` answers.
    public var changes: Bool
    /// How a watcher learns of changes.
    public var signals: Signals
    /// Whether several processes may use the store at once.
    public var sharedBetweenProcesses: Bool
    /// The largest value in bytes, `nil` where memory is the only limit.
    public var maximumValueByteCount: Int?

    /// A record of what a store honours.
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
