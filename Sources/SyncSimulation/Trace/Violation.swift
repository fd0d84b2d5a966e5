/// A violated invariant.
public struct Violation: Codable, Hashable, Sendable, CustomStringConvertible {
    /// The invariants that are checked.
    public enum Oracle: String, Codable, Hashable, Sendable, CaseIterable {
        /// Acknowledged facts are in the account's ledger at the end, unless all stores that held them were lost.
        case nothingLost
        /// All replicas of an account's ledger are equal at the end.
        case equalLedgers
        /// Facts other than revocations never remove covered time.
        case coverage
        /// A buyer gets all the time that was paid for.
        case paidTime
        /// After healing and a fixed number of sync rounds, no device writes.
        case quiescence
        /// A device that keeps itself up to date does not sync all the time, also while its remote fails, and misses no
        /// signal of the remote.
        case pace
        /// A ledger never loses a record within an incarnation.
        case neverShrinks
        /// Each acknowledged spend counts once.
        case spends
        /// No transaction counts for two accounts.
        case ownership
        /// A purchase is active at once on the device that recorded it.
        case activeAtOnce
        /// The state shown by a device equals the model's replay of the device's facts.
        case model
        /// The error of a device's time lies in the range that its last contact with the remote and later changes of
        /// its clock allow.
        case clock
        /// The data of an erased incarnation does not reappear.
        case erased
        /// A new device has the whole account after restoring.
        case restore
        /// The change feed of a store leads a reader to the store's contents.
        case changes
        /// A read of a cluster sees every write acknowledged before, and no write that was reported as not done.
        case reads
        /// All jobs run on the simulation's executor, and the run ends.
        case execution
        /// Acknowledged evidence stays on its device until the server ledger has what it proves, or the server has
        /// refused it.
        case evidence
        /// A server ledger says what the store signed last, and under `verified` nothing that a client wrote grants
        /// anything.
        case trust
        /// Calls fail only with errors that the faults of the run allow.
        case errors
    }

    /// The invariant that was violated.
    public var oracle: Oracle
    /// The observation, in one line.
    public var message: String
    /// The virtual time in milliseconds since the start of the run.
    public var at: Int64
    /// The index of the lane in ``Trace/lanes``.
    public var lane: Int

    /// Creates a violation.
    package init(_ oracle: Oracle, _ message: String, at: Int64, lane: Int) {
        self.oracle = oracle
        self.message = message
        self.at = at
        self.lane = lane
    }

    /// The oracle and the message, in one line.
    public var description: String { "\(oracle.rawValue): \(message)" }
}
