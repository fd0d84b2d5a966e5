/// Something that must never happen has happened.
public struct Violation: Codable, Hashable, Sendable, CustomStringConvertible {
    /// What is checked.
    public enum Oracle: String, Codable, Hashable, Sendable, CaseIterable {
        /// What was acknowledged is in the account's ledger in the end, unless every store that held it was lost.
        case nothingLost
        /// All that hold an account's ledger hold the same one in the end.
        case equalLedgers
        /// A fact that is no revocation takes no covered instant away.
        case coverage
        /// A buyer has all the time that was paid.
        case paidTime
        /// After healing and the stated number of rounds nobody writes any more.
        case quiescence
        /// A ledger never loses a record within an incarnation.
        case neverShrinks
        /// Each acknowledged spend counts once.
        case spends
        /// No transaction counts for two accounts.
        case ownership
        /// Who has bought is active at once on the device where he bought.
        case activeAtOnce
        /// What a device shows is what the model makes of the facts that it holds.
        case model
        /// The device's time is as right as its last contact and the moves of its clock since allow.
        case clock
        /// Nothing of an erased incarnation comes back.
        case erased
        /// A new device that restores has all that the account has.
        case restore
        /// What follows a store by cursors knows what is in it.
        case changes
        /// Everything runs on the simulation's executor and comes to an end.
        case execution
        /// No call fails with an error that it must not fail with.
        case errors
    }

    /// Which.
    public var oracle: Oracle
    /// What was seen, in a line.
    public var message: String
    /// When: milliseconds of virtual time since the beginning of the run.
    public var at: Int64
    /// Where: an index of ``Trace/lanes``.
    public var lane: Int

    /// A violation.
    public init(_ oracle: Oracle, _ message: String, at: Int64, lane: Int) {
        self.oracle = oracle
        self.message = message
        self.at = at
        self.lane = lane
    }

    /// One line.
    public var description: String { "\(oracle.rawValue): \(message)" }
}
