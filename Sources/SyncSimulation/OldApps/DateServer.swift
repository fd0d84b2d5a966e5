package import Entitlements
import WrittenDates

/// A server as old apps see it: one date for each account.
package protocol DateServer {
    /// The date of `account`; `nil` if it has none.
    func date(of account: String, at now: Timestamp) -> Timestamp?
    /// Notes that `installation` is served `date`.
    mutating func noteServed(_ date: Timestamp, to installation: String, of account: String, at now: Timestamp)
    /// Receives a date that `installation` writes. Returns a description of its effect.
    mutating func write(
        _ date: Timestamp, to account: String, by installation: String, at now: Timestamp
    ) -> String
    /// Imports the date that another server kept for `account`.
    mutating func importDate(_ date: Timestamp, of account: String, at now: Timestamp)
    /// Receives a transaction that a new version of the app restores.
    mutating func restore(_ purchase: Purchase, to account: String, at now: Timestamp)
    /// Receives the store's notification of a transaction.
    mutating func receive(_ purchase: Purchase, for account: String, at now: Timestamp)
}

/// The tutorials' own server: the later date wins.
package struct LaterDateServer: DateServer {
    private var dates: [String: Timestamp] = [:]

    /// A server without accounts.
    package init() {}

    package func date(of account: String, at now: Timestamp) -> Timestamp? { dates[account] }

    package mutating func noteServed(
        _ date: Timestamp, to installation: String, of account: String, at now: Timestamp
    ) {}

    package mutating func write(
        _ date: Timestamp, to account: String, by installation: String, at now: Timestamp
    ) -> String {
        guard date > dates[account] ?? .earliest else { return "ignored" }
        dates[account] = date
        return "stored"
    }

    package mutating func importDate(_ date: Timestamp, of account: String, at now: Timestamp) {
        dates[account] = date
    }

    /// Adds the transaction to the date, as an app must, because the server keeps no transactions.
    package mutating func restore(_ purchase: Purchase, to account: String, at now: Timestamp) {
        guard case .nonRenewing(_, let duration)? = purchase.terms?.kind else { return }
        dates[account] = max(dates[account] ?? now, now).adding(duration)
    }

    /// The server knows of no notifications.
    package mutating func receive(_ purchase: Purchase, for account: String, at now: Timestamp) {}
}

/// The façade's rules over ledgers in memory.
package struct RuleServer: DateServer {
    private struct Home {
        var account = Ledger()
        var server = ServerLedger()
        var seen: [String: SeenDates] = [:]
        var written: Set<String> = []
        var imported: [Timestamp] = []

        var facts: Facts { Facts(account: account, server: server.ledger) }
    }

    private let catalog: Catalog
    private let group: GroupID
    private let rules: ExpiryRules
    private var homes: [String: Home] = [:]

    /// A server for the dates of one group.
    ///
    /// - Throws: ``InputError`` if `catalog` has no non-renewing products in the group.
    package init(_ catalog: Catalog, group: GroupID) throws(InputError) {
        guard let rules = ExpiryRules(catalog, group: group) else {
            throw InputError(path: "products", reason: "must have a non-renewing product in the group \(group)")
        }
        (self.catalog, self.group, self.rules) = (catalog, group, rules)
    }

    package func date(of account: String, at now: Timestamp) -> Timestamp? {
        guard let home = homes[account] else { return nil }
        return Replay(home.facts, catalog: catalog).snapshot(at: now)[group: group]?.periods.map(\.end).max()
    }

    package mutating func noteServed(
        _ date: Timestamp, to installation: String, of account: String, at now: Timestamp
    ) {
        _ = homes[account, default: Home()].seen[installation, default: SeenDates()].noteServed(date, at: now)
    }

    package mutating func write(
        _ date: Timestamp, to account: String, by installation: String, at now: Timestamp
    ) -> String {
        let own = SeenDates(joining: homes.values.compactMap { $0.seen[installation] })
        var situation = ExpiryRules.Situation(own: own, now: now)
        situation.end = self.date(of: account, at: now)
        var home = homes[account] ?? Home()
        situation.others = home.seen.filter { $0.key != installation }.sorted { $0.key < $1.key }.map(\.value)
        let facts = home.facts
        situation.asserted = facts.assertions.map(\.reference.until)
        situation.imported = home.imported
        situation.isRepeated = !home.written.insert("\(installation) \(date.milliseconds)").inserted
        let time = facts.latestTime.next(at: now)
        let outcome = rules.outcome(of: date, in: situation)
        switch outcome {
        case .nothing: break
        case .purchase(let product):
            let transaction = TransactionReference(
                store: DerivedPurchases.store,
                id: TransactionID("\(account) \(installation) \(date.milliseconds)"))
            let purchase = Purchase(
                transaction: transaction, product: product, terms: catalog.terms(of: product), date: now,
                stamp: Stamp(logicalTime: time))
            home.account = home.account.joined(with: Ledger([Fact.purchase(purchase).record]))
        case .assertion(let until, _):
            let fact = Self.assertion(until, of: group, by: DerivedPurchases.store.rawValue, at: now, time)
            home.account = home.account.joined(with: Ledger([fact.record]))
        }
        _ = home.seen[installation, default: SeenDates()].noteWritten(date, at: now)
        homes[account] = home
        match(account, at: now)
        return "\(outcome)"
    }

    /// The fact that a server has stated an end.
    static func assertion(
        _ until: Timestamp, of group: GroupID, by source: String, at now: Timestamp, _ time: LogicalTime
    ) -> Fact {
        .assertion(
            Assertion(
                Assertion.Reference(group: group, source: SourceID(source), until: until), assertedAt: now,
                recordedAt: now, replica: .placeholder, logicalTime: time))
    }

    package mutating func importDate(_ date: Timestamp, of account: String, at now: Timestamp) {
        var home = homes[account] ?? Home()
        let fact = Self.assertion(date, of: group, by: "parse-import", at: now, home.facts.latestTime.next(at: now))
        home.account = home.account.joined(with: Ledger([fact.record]))
        home.imported.append(date)
        homes[account] = home
    }

    package mutating func restore(_ purchase: Purchase, to account: String, at now: Timestamp) {
        var home = homes[account] ?? Home()
        home.account = home.account.joined(with: Ledger([Fact.purchase(purchase).record]))
        homes[account] = home
        match(account, at: now)
    }

    package mutating func receive(_ purchase: Purchase, for account: String, at now: Timestamp) {
        restore(purchase, to: account, at: now)
    }

    /// Refuses derived purchases that are transactions of stores.
    private mutating func match(_ account: String, at now: Timestamp) {
        guard var home = homes[account] else { return }
        let matches = DerivedPurchases.matches(
            account: home.account, server: home.server.ledger, catalog: catalog, now: now)
        home.server.decide(about: matches, catalog: catalog, at: now)
        homes[account] = home
    }
}
