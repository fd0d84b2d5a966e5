/// The progress of a rebuild.
struct RebuildPosition: Hashable, Sendable {
    /// The parts of a rebuild, in their order.
    enum Phase: String, CaseIterable, Sendable {
        /// Derives the rows of the accounts of the store.
        case accounts
        /// Removes the rows of accounts that the store does not have.
        case customers
        /// Derives the rows of records, and removes those of records that the store does not have.
        case sessions
        case formerSessions = "former-sessions"
        case aliases
        case formerAliases = "former-aliases"
        case acts
        case formerActs = "former-acts"
        /// Counts all rows anew, one measure after another.
        case statistics
    }

    var phase: Phase
    /// The key, name or number up to which the phase is done; empty at its beginning.
    var cursor: String

    static let start = RebuildPosition(phase: .accounts, cursor: "")

    init(phase: Phase, cursor: String) { (self.phase, self.cursor) = (phase, cursor) }

    /// Reads what ``text`` wrote. The rebuild starts again after any other text.
    init(text: String) {
        let parts = text.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
        self = .start
        guard let phase = Phase(rawValue: String(parts[0])), parts.count == 2 else { return }
        (self.phase, cursor) = (phase, String(parts[1]))
    }

    var text: String { "\(phase.rawValue):\(cursor)" }

    /// The position after a step of the same phase, or the beginning of the next phase.
    ///
    /// - Parameter cursor: The progress of the phase; `nil` if it is done.
    /// - Returns: `nil` after the last phase.
    func advanced(to cursor: String?) -> RebuildPosition? {
        if let cursor { return RebuildPosition(phase: phase, cursor: cursor) }
        let next = Phase.allCases.drop { $0 != phase }.dropFirst().first
        return next.map { RebuildPosition(phase: $0, cursor: "") }
    }
}
