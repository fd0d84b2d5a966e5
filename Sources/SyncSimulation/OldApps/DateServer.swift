#if Parse
package import Entitlements
import WrittenDates

/// A server that keeps one date for each account, as old apps expect.
package protocol DateServer {
    /// The date of `account`; `nil` if it has none.
    func date(of account: String, at now: Timestamp) -> Timestamp?
    /// Remembers that `installation` is served `date`.
    mutating func rememberServed(_ date: Timestamp, to installation: String, of account: String, at now: Timestamp)
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

    package mutating func rememberServed(
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

    /// Ignores the notification.
    package mutating func receive(_ purchase: Purchase, for account: String, at now: Timestamp) {}
}

/// The façade's rules over ledgers in memory.
package struct RuleServer: DateServer {
    private struct AccountState {
        var account = Ledger()
        var server = ServerLedger()
        var seen: [String: SeenDates] = [:]

        var facts: Facts { Facts(account: account, server: server.ledger) }

        mutating func add(_ facts: [Fact]) { account = account.joined(with: Ledger(facts.map(\.record))) }
    }

    private let catalog: Catalog
    private let group: GroupID
    private let rules: ExpiryRules
    private var accounts: [String: AccountState] = [:]

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
        guard let state = accounts[account] else { return nil }
        return WrittenDate.end(of: group, Replay(state.facts, catalog: catalog))
    }

    package mutating func rememberServed(
        _ date: Timestamp, to installation: String, of account: String, at now: Timestamp
    ) {
        _ = accounts[account, default: AccountState()].seen[installation, default: SeenDates()].rememberServed(
            date, at: now)
    }

    package mutating func write(
        _ date: Timestamp, to account: String, by installation: String, at now: Timestamp
    ) -> String {
        let own = SeenDates(joining: accounts.values.compactMap { $0.seen[installation] })
        let state = accounts[account] ?? AccountState()
        let others = state.seen.filter { $0.key != installation }.sorted { $0.key < $1.key }.map(\.value)
        let seen = state.seen[installation] ?? SeenDates()
        // The first 16 characters name an installation and a date.
        let written = WrittenDate(
            date, of: group, id: "\(date.milliseconds) \(installation) \(account)", seen: seen, own: own,
            others: others, now: now)
        let (outcome, facts) = written.outcome(state.facts, rules: rules, catalog: catalog)
        accounts[account, default: AccountState()].add(facts)
        _ = accounts[account]?.seen[installation, default: SeenDates()].rememberWritten(date, at: now)
        match(account, at: now)
        return "\(outcome)"
    }

    /// The fact that a server has stated an end.
    static func assertion(
        _ until: Timestamp, of group: GroupID, by source: SourceID, at now: Timestamp, _ time: LogicalTime
    ) -> Fact {
        .assertion(
            Assertion(
                Assertion.Reference(group: group, source: source, until: until), assertedAt: now,
                recordedAt: now, replica: .placeholder, logicalTime: time))
    }

    package mutating func importDate(_ date: Timestamp, of account: String, at now: Timestamp) {
        var state = accounts[account] ?? AccountState()
        let time = state.facts.latestTime.next(at: now)
        state.add([Self.assertion(date, of: group, by: WrittenDate.importSource, at: now, time)])
        accounts[account] = state
    }

    package mutating func restore(_ purchase: Purchase, to account: String, at now: Timestamp) {
        accounts[account, default: AccountState()].add([.purchase(purchase)])
        match(account, at: now)
    }

    package mutating func receive(_ purchase: Purchase, for account: String, at now: Timestamp) {
        restore(purchase, to: account, at: now)
    }

    /// Refuses derived purchases that are transactions of stores.
    private mutating func match(_ account: String, at now: Timestamp) {
        guard var state = accounts[account] else { return }
        state.server.refuseDerivedPurchases(of: state.account, catalog: catalog, at: now)
        accounts[account] = state
    }
}
#endif
