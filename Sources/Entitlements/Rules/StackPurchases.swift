/// Each purchase is appended to what is left: it starts at the later of its date and the end so far. The default.
///
/// A revoked purchase keeps its period up to the revocation, possibly none, and what follows moves up. An assertion
/// adds what its date is later than the end so far. Adding a fact that is no revocation never uncovers an instant that
/// was covered, in whatever order facts become known.
public struct StackPurchases: ExpiryRule {
    /// `stackPurchases`.
    public let name = "stackPurchases"

    /// The rule.
    public init() {}

    /// One period a statement, none overlapping another.
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

/// The tutorials' rule, for comparison and for apps that must keep it: each recording computes
/// max(known end, purchase date) + duration on its own, and the latest of all ends counts.
///
/// It loses paid time: two devices that each buy three months offline both compute the same end. A purchase that no
/// replica recorded (it came from a store, or from a history) counts as recorded by someone who knew all earlier ones.
public struct LatestExpiryWins: ExpiryRule {
    /// `latestExpiryWins`.
    public let name = "latestExpiryWins"

    /// The rule.
    public init() {}

    /// One period a purchase, from its date to the latest end that a recording of it computed; they may overlap. An
    /// assertion gives the time from its statement to its date.
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
        let known = sold.recordings.isEmpty ? [latest] : sold.recordings.map(\.knownEnd)
        let starts = known.map { max($0 ?? sold.purchase.date, sold.purchase.date) }
        let end = starts.map(sold.end(from:)).max() ?? sold.purchase.date
        return sold.period(from: sold.purchase.date, to: end)
    }
}

/// Only what the remote held when it was last met counts; what it held is stacked as ``StackPurchases`` does.
///
/// For apps whose server has the last word: a purchase made here counts once the remote has it. Until the remote was
/// met, nothing counts. It loses nothing for good, but a buyer who is offline waits for what was paid.
public struct RemoteWins: ExpiryRule, FlagRule {
    /// `remoteWins`.
    public let name = "remoteWins"
    /// It does.
    public let asksRemote = true

    /// The rule.
    public init() {}

    /// The periods of what the remote held, and an empty one for anything else.
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

    /// Whether the later of the marks that the remote held sets.
    public func isOwned(_ marks: FlagMarks) -> Bool {
        FlagMarks.later(marks.setAtRemote, marks.clearedAtRemote)?.isSet ?? false
    }
}
