/// A note that one transaction was stated with two different contents, of which merging kept the stronger.
///
/// The device that notices the contradiction writes the note into its own ledger, so that a person can later see which
/// statement was dropped.
public struct Contradiction: Hashable, Sendable {
    /// The statement that was kept.
    public var kept: Purchase
    /// The statement that was dropped.
    public var dropped: Purchase
    /// The date on which the contradiction was noticed, by the replica's clock.
    public var noticedAt: Timestamp
    /// The logical time that orders notes.
    public var logicalTime: LogicalTime

    /// Creates a note that `kept` was preferred to `dropped`, a statement about the same transaction.
    public init(kept: Purchase, dropped: Purchase, noticedAt: Timestamp, logicalTime: LogicalTime) {
        self.kept = kept
        self.dropped = dropped
        self.noticedAt = noticedAt
        self.logicalTime = logicalTime
    }
}

extension Contradiction {
    /// Returns the purchases about which `mine` and `theirs` contain different statements.
    ///
    /// Two statements differ if any part of their content does: product, date, quantity, expiry or terms. Differences
    /// in stamp alone are ignored. The result is in ascending order of transaction.
    ///
    /// - Complexity: O(*n*) in the size of both ledgers, plus sorting the result.
    package static func between(_ mine: Ledger, _ theirs: Ledger, noticedAt: Timestamp, after time: LogicalTime)
        -> [Contradiction]
    {
        // The common case of an idle sync.
        guard !theirs.isEmpty else { return [] }
        let purchases = mine.records.filter(\.isPurchase)
        guard !purchases.isEmpty else { return [] }
        let known = Dictionary(uniqueKeysWithValues: purchases.map { ($0.key, $0) })
        var found: [Contradiction] = []
        var time = time
        for record in theirs.records {
            guard let other = known[record.key], other.payload != record.payload,
                let left = other.purchase, let right = record.purchase,
                left.hasOtherContent(than: right)
            else { continue }
            let isMineStronger = record.precedes(other)
            time = time.next(at: noticedAt)
            found.append(
                Contradiction(
                    kept: isMineStronger ? left : right, dropped: isMineStronger ? right : left,
                    noticedAt: noticedAt, logicalTime: time))
        }
        return found.sorted { $0.kept.transaction < $1.kept.transaction }
    }
}

extension Purchase {
    /// Returns `true` if the statements contradict each other. Older versions state no identity of the purchase.
    fileprivate func hasOtherContent(than other: Purchase) -> Bool {
        var other = other
        if lineItemID == nil || other.lineItemID == nil { other.lineItemID = lineItemID }
        other.isNonConsumable = isNonConsumable
        return payload != other.payload
    }
}

/// An entry of the conflict log: a decision of merging or replay that no two statements agreed on.
public enum Conflict: Hashable, Sendable {
    /// One transaction was stated with two contents, and the stronger statement counts.
    case contradiction(Contradiction)
    /// The account's server counts a purchase as of another date than the stated one.
    case redated(Purchase, stated: Timestamp)
    /// A purchase now belongs to another account.
    case transferred(Purchase, to: String)
    /// The account's server refused a purchase.
    case refused(Purchase, reason: String)
    /// The account's server contradicts a client, and the server's statement counts.
    case overridden(Fact, by: Fact)
    /// A client's statement does not count, because the account's server has not verified it and its policy is
    /// ``TrustPolicy/verified``.
    case unverified(Fact)
    /// Devices that were out of contact spent more units than existed, and the excess was written off.
    case overspent(Spend, writtenOff: Int64)
}

extension Replay {
    /// Returns the conflict log up to `instant`.
    ///
    /// It lists contradictions in the order in which they were noticed, then decisions of the account's server about
    /// purchases, then statements of clients that it overrides, then overspent units.
    public func conflicts(at instant: Timestamp) -> [Conflict] {
        let contradictions = facts.contradictions
            .filter { $0.kept.transaction.environment == environment }
            .sorted { ($0.logicalTime, $0.kept.transaction) < ($1.logicalTime, $1.kept.transaction) }
        let decisions = facts.purchases.compactMap { purchase -> Conflict? in
            guard purchase.transaction.environment == environment else { return nil }
            return switch facts.acceptance(of: purchase)?.decision {
            case .countsAsOf: .redated(purchase, stated: facts.statedDate(of: purchase))
            case .transferred(let account): .transferred(purchase, to: account)
            case .refused(let reason): .refused(purchase, reason: reason)
            case .accepted, nil: nil
            }
        }
        let overspent = consumables.flatMap { product in
            balanceSteps(of: product, at: instant).compactMap { step -> Conflict? in
                guard case .spend(let spend) = step.cause, step.writtenOff > 0 else { return nil }
                return .overspent(spend, writtenOff: step.writtenOff)
            }
        }
        return contradictions.map(Conflict.contradiction) + decisions + overridden + overspent
    }

    /// The purchases of this environment that have no effect because of the server ledger.
    package var purchasesOverruledByServer: [Purchase] {
        zip(facts.purchases, verdicts).compactMap { purchase, verdict in
            switch verdict {
            case .setAside(.refused), .setAside(.transferred), .setAside(.unverified): purchase
            default: nil
            }
        }
    }

    /// The statements of clients that have no effect because of the server ledger.
    private var overridden: [Conflict] {
        let purchases = zip(facts.purchases, verdicts).compactMap { purchase, verdict -> Conflict? in
            if verdict == .setAside(.unverified) { return .unverified(.purchase(purchase)) }
            guard case .counts = verdict, let revocation = facts.revocationByServer(of: purchase) else { return nil }
            return .overridden(.purchase(purchase), by: .revocation(revocation))
        }
        let statements = facts.replaced.filter { $0.stated.environment == environment }
            .map { Conflict.overridden($0.stated, by: $0.replacement) }
        let unverified = facts.unverified.filter { $0.environment == environment }.map(Conflict.unverified)
        return purchases + statements + unverified
    }
}

extension Fact {
    /// The environment of a statement that the account's server can override; `nil` for other facts.
    fileprivate var environment: EnvironmentID? {
        switch self {
        case .assertion(let assertion): assertion.reference.environment
        case .flag(let flag): flag.environment
        default: transaction?.environment
        }
    }

    /// Returns `true` if the fact contradicts `other`, which the server states about the same subject.
    ///
    /// A statement that a store signed later is news, not a contradiction. Reasons do not contradict, nor do terms that
    /// one of them lacks.
    func contradicts(_ other: Fact) -> Bool {
        if let mine = stamp?.signedDate, let theirs = other.stamp?.signedDate, mine <= theirs { return false }
        switch (self, other) {
        case (.purchase(var mine), .purchase(let theirs)):
            if mine.terms == nil || theirs.terms == nil { mine.terms = theirs.terms }
            return mine.hasOtherContent(than: theirs)
        case (.revocation(let mine), .revocation(let theirs)):
            return mine.revokedAt != theirs.revokedAt || mine.upgradedAt != theirs.upgradedAt
        case (.renewalState(let mine), .renewalState(let theirs)): return mine.payload != theirs.payload
        case (.assertion(let mine), .assertion(let theirs)): return mine.assertedAt != theirs.assertedAt
        default: return false
        }
    }
}
