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
    /// - Returns: The outcome, and the fact to record; `nil` if there is none.
    package func outcome(
        _ facts: Facts, rules: ExpiryRules, catalog: Catalog
    ) -> (outcome: ExpiryRules.Outcome, fact: Fact?) {
        guard let replica = ReplicaID(bytes: Array(id.utf8.prefix(16))) else { return (.nothing(.repeated), nil) }
        let transaction = TransactionReference(
            store: DerivedPurchases.store, id: TransactionID(String(id.prefix(32))))
        let asserted = facts.assertions.filter { $0.reference.group == group }
        var situation = ExpiryRules.Situation(own: own, now: now)
        situation.others = others
        situation.end = Self.end(of: group, Replay(facts, catalog: catalog))
        situation.asserted = asserted.map(\.reference.until)
        situation.imported = asserted.map(\.reference).filter { $0.source == Self.importSource }.map(\.until)
        situation.isRepeated =
            seen.written.contains { $0.date == date.milliseconds } || facts[transaction] != nil
            || asserted.contains { $0.replica == replica }
        let (outcome, time) = (rules.outcome(of: date, in: situation), facts.latestTime.next(at: now))
        switch outcome {
        case .nothing: return (outcome, nil)
        case .purchase(let product):
            let purchase = Purchase(
                transaction: transaction, product: product, terms: catalog.terms(of: product), date: now,
                stamp: Stamp(logicalTime: time))
            return (outcome, .purchase(purchase))
        case .assertion(let until, _):
            let reference = Assertion.Reference(
                group: group, source: SourceID(DerivedPurchases.store.rawValue), until: until)
            let assertion = Assertion(
                reference, assertedAt: now, recordedAt: now, replica: replica, logicalTime: time)
            return (outcome, .assertion(assertion))
        }
    }

    /// The end of a group; `nil` if it never began.
    package static func end(of group: GroupID, _ replay: Replay) -> Timestamp? {
        replay.timelines[group]?.periods.map(\.end).max()
    }
}
