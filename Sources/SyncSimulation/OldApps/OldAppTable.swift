#if Parse
import Entitlements

/// The outcome of a history: the difference between the ends of the accounts and the ends that their purchases give.
package struct OldAppOutcome: Hashable, Sendable, CustomStringConvertible {
    /// The largest part of paid time that is missing, in milliseconds; 0 if nothing is.
    package var lost: Int64 = 0
    /// The largest time without a purchase, in milliseconds; 0 if there is none.
    package var gained: Int64 = 0

    /// True if nothing is lost or gained.
    package var isEven: Bool { lost == 0 && gained == 0 }

    package var description: String {
        var parts: [String] = []
        if lost > 0 { parts.append("\(lost / 86_400_000) days that were paid are missing") }
        if gained > 0 { parts.append("\(gained / 86_400_000) days were not paid") }
        return parts.isEmpty ? "nothing is lost or gained" : parts.joined(separator: ", ")
    }
}

/// Runs histories of old apps under the server's rules and under a server that keeps the later date.
package struct OldAppTable: Sendable {
    /// The outcomes of the histories of one kind.
    package struct Row: Sendable {
        /// The numbers of histories that lose and gain time.
        package struct Counts: Hashable, Sendable {
            package var lost = 0
            package var gained = 0

            fileprivate mutating func add(_ outcome: OldAppOutcome) {
                if outcome.lost > 0 { lost += 1 }
                if outcome.gained > 0 { gained += 1 }
            }
        }

        /// The kind of the histories.
        package var kind: OldAppKind
        /// The number of histories.
        package var seeds = 0
        /// Under the server's rules.
        package var rules = Counts()
        /// Under a server that keeps the later date.
        package var laterDate = Counts()
        /// The histories that lose or gain time under the rules although they must not.
        package var failures: [(seed: UInt64, outcome: OldAppOutcome)] = []
    }

    private let catalog: Catalog
    private let group: GroupID = "random"
    private let server: RuleServer

    /// A table for the products of the tutorials' app: three and six months.
    package init() throws {
        catalog = try Catalog(products: [
            Product(id: "3months", kind: .nonRenewing(group: group, duration: CalendarDuration(months: 3))),
            Product(id: "6months", kind: .nonRenewing(group: group, duration: CalendarDuration(months: 6))),
        ])
        server = try RuleServer(catalog, group: group)
    }

    /// Runs the histories of one kind, one seed after another, until `isCancelled` returns true.
    package func row(
        _ kind: OldAppKind, seeds: ClosedRange<UInt64>, isCancelled: () -> Bool = { false }
    ) -> Row {
        var row = Row(kind: kind)
        for seed in seeds where !isCancelled() {
            let outcome = self.outcome(kind, seed: seed).outcome
            row.rules.add(outcome)
            if kind.mustHold, !outcome.isEven { row.failures.append((seed, outcome)) }
            var other = OldAppHistory(kind, seed: seed, catalog: catalog, group: group, server: LaterDateServer())
            row.laterDate.add(other.run())
            row.seeds += 1
        }
        return row
    }

    /// Runs one history under the rules.
    ///
    /// - Returns: The outcome, and a line for each event if `isRecording` is true.
    package func outcome(
        _ kind: OldAppKind, seed: UInt64, isRecording: Bool = false
    ) -> (outcome: OldAppOutcome, lines: [String]) {
        var history = OldAppHistory(
            kind, seed: seed, catalog: catalog, group: group, server: server, isRecording: isRecording)
        let outcome = history.run()
        return (outcome, history.lines)
    }
}
#endif
