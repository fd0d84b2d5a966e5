/// What came of killing processes while they wrote, see ``CrashTrial``.
public struct CrashReport: Sendable, CustomStringConvertible {
    /// Gives the same moments again, as far as the machine's own timing allows.
    public let seed: UInt64
    /// How many rounds were finished.
    public internal(set) var rounds = 0
    /// How many processes were killed.
    public internal(set) var kills = 0
    /// How many changes the killed had acknowledged, all of which were looked for.
    public internal(set) var acknowledged = 0
    /// How many changes were found that had happened and could not be acknowledged any more.
    public internal(set) var unacknowledged = 0
    /// How many entries were there in the end, each of which was read.
    public internal(set) var entries = 0
    /// What was lost, damaged or invented; one line each. The trial ends with the round in which it finds something.
    public internal(set) var failures: [String] = []

    /// A report of nothing done.
    init(seed: UInt64) {
        self.seed = seed
    }

    /// Whether something was acknowledged and nothing was lost.
    public var hasPassed: Bool { failures.isEmpty && acknowledged > 0 }

    /// `100 rounds, 200 processes killed, 4312 acknowledged changes all there, …`.
    public var description: String {
        let found =
            "\(rounds) rounds, \(kills) processes killed, \(acknowledged) acknowledged changes, "
            + "\(unacknowledged) more that nobody heard of, \(entries) entries read in the end, seed \(seed)"
        if acknowledged == 0, failures.isEmpty { return "nothing was acknowledged, so nothing is proved: \(found)" }
        return ([failures.isEmpty ? "nothing lost: \(found)" : "LOST: \(found)"] + failures).joined(separator: "\n")
    }
}
