package import Entitlements

/// A date that an installation writes to an account, and the fact that follows from it.
package struct WrittenDate: Sendable {
    /// The date.
    package var date: Timestamp
    /// The group whose end the field holds.
    package var group: GroupID
    /// An id of account, group, installation and date: 16 ASCII characters or more. The fact is named by it, so that a
    /// repetition is known.
    package var id: String
    /// The dates of the installation in the account.
    package var seen: SeenDates
    /// The dates of the installation in all accounts.
    package var own: SeenDates
    /// The dates of the other installations of the account.
    package var others: [SeenDates]
    /// The server's time.
    package var now: Timestamp

    /// A written date.
    package init(
        _ date: Timestamp, of group: GroupID, id: String, seen: SeenDates, own: SeenDates, others: [SeenDates],
        now: Timestamp
    ) {
        (self.date, self.group, self.id, self.now) = (date, group, id, now)
        (self.seen, self.own, self.others) = (seen, own, others)
    }

    /// The source of the assertions of imported dates.
    package static let importSource: SourceID = "parse-import"

    /// The meaning of the date for an account with `facts`.
    ///
    /// - Returns: The outcome, and the facts to record.
    package func outcome(
        _ facts: Facts, rules: ExpiryRules, catalog: Catalog
    ) -> (outcome: ExpiryRules.Outcome, facts: [Fact]) {
        guard let replica = ReplicaID(bytes: Array(id.utf8.prefix(16))) else { return (.nothing(.repeated), []) }
        let transaction = TransactionReference(
            store: DerivedPurchases.store, id: TransactionID(String(id.prefix(32))))
        let replay = Replay(facts, catalog: catalog)
        let asserted = facts.assertions.filter { $0.reference.group == group }
        var situation = ExpiryRules.Situation(own: own, now: now)
        situation.others = others
        situation.end = Self.end(of: group, replay)
        situation.asserted = asserted.map(\.reference.until)
        situation.imported = asserted.map(\.reference).filter { $0.source == Self.importSource }.map(\.until)
        situation.isRepeated =
            seen.written.contains { $0.date == date.milliseconds } || facts[transaction] != nil
            || asserted.contains { $0.replica == replica }
        let (outcome, time) = (rules.outcome(of: date, in: situation), facts.latestTime.next(at: now))
        switch outcome {
        case .nothing: return (outcome, [])
        case .purchase(let product):
            let purchase = Purchase(
                transaction: transaction, product: product, terms: catalog.terms(of: product), date: now,
                stamp: Stamp(logicalTime: time))
            let distinctions = DerivedPurchases.distinctions(of: purchase, facts, replay) { other, period in
                isExtension(of: period, from: other.date, by: purchase, rules)
            }
            return (outcome, [.purchase(purchase)] + distinctions.map { .recording($0) })
        case .assertion(let until, _):
            let reference = Assertion.Reference(
                group: group, source: SourceID(DerivedPurchases.store.rawValue), until: until)
            let assertion = Assertion(
                reference, assertedAt: now, recordedAt: now, replica: replica, logicalTime: time)
            return (outcome, [.assertion(assertion)])
        }
    }

    /// Returns `true` if the date leaves room for `period`, which was bought at `start`, before `purchase`: the app has
    /// added the purchase to an end that contains the period. A date that the installation knew before `start` does
    /// not.
    private func isExtension(
        of period: Period, from start: Timestamp, by purchase: Purchase, _ rules: ExpiryRules
    ) -> Bool {
        guard case .nonRenewing(_, let duration)? = purchase.terms?.kind,
            period.end.adding(duration).milliseconds <= date.milliseconds + rules.tolerance
        else { return false }
        return !own.contains(before: start) { base in
            abs(base.adding(duration).milliseconds - date.milliseconds) <= rules.tolerance
        }
    }

    /// The end of a group; `nil` if it never began.
    package static func end(of group: GroupID, _ replay: Replay) -> Timestamp? {
        replay.timelines[group]?.periods.map(\.end).max()
    }
}
