/// One transaction id was stated with two contents, and merging kept the stronger statement. Written by the device that
/// noticed it, into the ledger that it keeps to itself, so that a person can see what was lost.
public struct Contradiction: Hashable, Sendable {
    /// The statement that counts.
    public var kept: Purchase
    /// The statement that was dropped.
    public var dropped: Purchase
    /// When it was noticed, by the replica's clock.
    public var noticedAt: Timestamp
    /// Orders notes.
    public var logicalTime: LogicalTime

    /// A note that `kept` was preferred to `dropped`, both about one transaction.
    public init(kept: Purchase, dropped: Purchase, noticedAt: Timestamp, logicalTime: LogicalTime) {
        self.kept = kept
        self.dropped = dropped
        self.noticedAt = noticedAt
        self.logicalTime = logicalTime
    }
}

extension Contradiction {
    /// The purchases of which `mine` and `theirs` hold different statements: what was bought, when, how many, until
    /// when or at which terms. Who said so and when does not matter. In ascending order of transaction.
    ///
    /// Linear in the size of both ledgers.
    public static func between(_ mine: Ledger, _ theirs: Ledger, noticedAt: Timestamp, after time: LogicalTime)
        -> [Contradiction]
    {
        // An idle sync brings nothing.
        guard !theirs.isEmpty else { return [] }
        let purchases = mine.records.filter { FactKey.isPurchase($0.key) }
        guard !purchases.isEmpty else { return [] }
        let known = Dictionary(uniqueKeysWithValues: purchases.map { ($0.key, $0) })
        var found: [Contradiction] = []
        var time = time
        for record in theirs.records {
            guard let other = known[record.key], other.payload != record.payload,
                case .purchase(let left) = Fact(other), case .purchase(let right) = Fact(record)
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

/// Something that merging and replay decided although no two statements agreed on it: an entry of the conflict log.
public enum Conflict: Hashable, Sendable {
    /// One transaction id was stated with two contents; the stronger statement counts.
    case contradiction(Contradiction)
    /// The account's server counts a purchase as of another date than it states.
    case redated(Purchase, stated: Timestamp)
    /// A purchase belongs to another account now.
    case transferred(Purchase, to: String)
    /// The account's server refused a purchase.
    case refused(Purchase, reason: String)
    /// Devices that did not know of each other spent more units than there were; so many were written off.
    case overspent(Spend, writtenOff: Int64)
}

extension Replay {
    /// The conflict log: contradictions in the order in which they were noticed, then what the account's server decided
    /// about purchases, then what was overspent up to `instant`.
    public func conflicts(at instant: Timestamp) -> [Conflict] {
        let contradictions = facts.contradictions
            .filter { $0.kept.transaction.environment == environment }
            .sorted { ($0.logicalTime, $0.kept.transaction) < ($1.logicalTime, $1.kept.transaction) }
        let decisions = facts.purchases.compactMap { purchase -> Conflict? in
            guard purchase.transaction.environment == environment else { return nil }
            return switch facts.acceptances[purchase.transaction]?.decision {
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
        return contradictions.map(Conflict.contradiction) + decisions + overspent
    }
}
