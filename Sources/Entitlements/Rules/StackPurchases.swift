/// An expiry rule that appends each purchase to the time that is left. The default.
///
/// A purchase starts at the later of its date and the end so far.
///
/// A revoked purchase keeps its period up to the revocation, which may be empty, and later purchases move up. Those
/// after a purchase that never ends add nothing until it is revoked. An assertion adds the time between the end so far
/// and its date, if there is any. Adding a fact that is not a revocation never uncovers an instant that was covered,
/// whatever the order in which facts become known.
public struct StackPurchases: ExpiryRule {
    /// The string `stackPurchases`.
    public let name = "stackPurchases"

    /// Creates the rule.
    public init() {}

    /// Returns one period for each statement. The periods do not overlap.
    ///
    /// - Complexity: O(*n*) in the number of statements.
    public func periods(of statements: [TimelineInput]) -> [Period] {
        var endSoFar = Timestamp.earliest
        return statements.map { statement in
            let period =
                switch statement {
                case .sold(let sold):
                    sold.period(
                        from: max(sold.purchase.date, endSoFar),
                        to: sold.end(from: max(sold.purchase.date, endSoFar)))
                case .asserted(let asserted): asserted.period(after: endSoFar)
                }
            endSoFar = max(endSoFar, period.end)
            return period
        }
    }
}

/// An expiry rule by which the latest of all computed expiry dates counts.
///
/// Each recording of a purchase computes max(known end, purchase date) + duration independently. The rule reproduces
/// the common approach of storing one expiry date per user. Use it for comparison, or in apps that must keep that
/// behaviour.
///
/// - Important: This rule loses paid time. Two devices that each buy three months offline compute the same end.
///
/// A purchase without recordings (it came from a store or from a history) counts as if its recorder had known all
/// earlier purchases.
public struct LatestExpiryWins: ExpiryRule {
    /// The string `latestExpiryWins`.
    public let name = "latestExpiryWins"

    /// Creates the rule.
    public init() {}

    /// Returns one period for each statement; the periods may overlap.
    ///
    /// The period of a purchase runs from its date to the latest end that one of its recordings computed. The period
    /// of an assertion runs from its statement to its date.
    ///
    /// - Complexity: O(*n*) in the number of statements and recordings.
    public func periods(of statements: [TimelineInput]) -> [Period] {
        var latest: Timestamp?
        return statements.map { statement in
            let period =
                switch statement {
                case .sold(let sold): period(of: sold, knowing: latest)
                case .asserted(let asserted): asserted.period(after: .earliest)
                }
            latest = max(latest ?? period.end, period.end)
            return period
        }
    }

    private func period(of sold: SoldTime, knowing latest: Timestamp?) -> Period {
        // A purchase that never ends extends no other: the other would never end either, also once it is revoked.
        let known = sold.recordings.isEmpty ? [latest?.asEnd] : sold.recordings.map(\.knownEnd)
        let starts = known.map { max($0 ?? sold.purchase.date, sold.purchase.date) }
        let end = starts.map(sold.end(from:)).max() ?? sold.purchase.date
        return sold.period(from: sold.purchase.date, to: end)
    }
}

/// A rule by which only facts that the remote held at the last contact count.
///
/// The purchases that the remote held are stacked as by ``StackPurchases``.
///
/// Use it in apps whose server has the final say: a purchase made on this device counts once the remote has it. Before
/// the first contact with the remote, nothing counts. No purchase is lost permanently, but a buyer who is offline must
/// wait for access.
public struct RemoteWins: ExpiryRule, FlagRule {
    /// The string `remoteWins`.
    public let name = "remoteWins"
    /// `true`.
    public let dependsOnRemote = true

    /// Creates the rule.
    public init() {}

    /// Returns the periods of the statements that the remote held, and an empty period for every other statement.
    public func periods(of statements: [TimelineInput]) -> [Period] {
        let atRemote = statements.filter { statement in
            switch statement {
            case .sold(let sold): sold.isAtRemote
            case .asserted(let asserted): asserted.isAtRemote
            }
        }
        let others = statements.compactMap { statement -> Period? in
            switch statement {
            case .sold(let sold) where !sold.isAtRemote:
                sold.period(from: sold.purchase.date, to: sold.purchase.date)
            case .asserted(let asserted) where !asserted.isAtRemote: asserted.period(after: .latest)
            default: nil
            }
        }
        return StackPurchases().periods(of: atRemote) + others
    }

    /// Returns `true` if the later of the marks that the remote held sets the flag.
    public func isOwned(_ marks: FlagMarks) -> Bool {
        FlagMarks.later(marks.setAtRemote, marks.clearedAtRemote)?.isSet ?? false
    }
}
