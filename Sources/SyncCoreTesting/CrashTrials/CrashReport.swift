/// The result of a ``CrashTrial``.
public struct CrashReport: Sendable, CustomStringConvertible {
    /// The seed of the trial. It reproduces the moments of the kills as far as the timing of the machine allows.
    public let seed: UInt64
    /// The number of finished rounds.
    public internal(set) var rounds = 0
    /// The number of killed processes.
    public internal(set) var kills = 0
    /// The number of changes that killed processes had acknowledged; the trial verified each of them.
    public internal(set) var acknowledged = 0
    /// The number of changes that had happened without being acknowledged.
    public internal(set) var unacknowledged = 0
    /// The number of entries at the end; each of them was read.
    public internal(set) var entries = 0
    /// Lost, damaged or invented entries, one line each. The trial ends with the first round that finds one.
    public internal(set) var failures: [String] = []

    /// Creates an empty report.
    init(seed: UInt64) {
        self.seed = seed
    }

    /// True if changes were acknowledged and none was lost.
    public var hasPassed: Bool { failures.isEmpty && acknowledged > 0 }

    /// `100 rounds, 200 processes killed, 4312 acknowledged changes all there, …`.
    public var description: String {
        let found =
            "\(rounds) rounds, \(kills) processes killed, \(acknowledged) acknowledged changes, "
            + "\(unacknowledged) unacknowledged ones, \(entries) entries read at the end, seed \(seed)"
        if acknowledged == 0, failures.isEmpty {
            return "nothing was acknowledged, so the trial proves nothing: \(found)"
        }
        return ([failures.isEmpty ? "nothing lost: \(found)" : "LOST: \(found)"] + failures).joined(separator: "\n")
    }
}
