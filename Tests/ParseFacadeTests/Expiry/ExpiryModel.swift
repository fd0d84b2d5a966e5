import Entitlements
import ParseFacade
import SyncCoreTesting
import SyncService

/// A server as old apps see it: one date for each account.
protocol DateServer {
    func read(_ account: String, by installation: String, at now: Timestamp) -> Timestamp?
    mutating func write(_ date: Timestamp, to account: String, by installation: String, at now: Timestamp)
    /// A store states a transaction to the server.
    mutating func state(_ purchase: Purchase, of account: String, at now: Timestamp)
    mutating func noteServed(_ date: Timestamp, to account: String, _ installation: String, at now: Timestamp)
}

/// The tutorials' own server: the later date wins.
struct TutorialServer: DateServer {
    var dates: [String: Timestamp] = [:]

    func read(_ account: String, by installation: String, at now: Timestamp) -> Timestamp? { dates[account] }

    mutating func write(_ date: Timestamp, to account: String, by installation: String, at now: Timestamp) {
        dates[account] = max(date, dates[account] ?? date)
    }

    /// An app that restores adds each transaction to the date, because the server keeps no transactions.
    mutating func state(_ purchase: Purchase, of account: String, at now: Timestamp) {
        guard case .nonRenewing(_, let duration)? = purchase.terms?.kind else { return }
        dates[account] = max(dates[account] ?? now, now).adding(duration)
    }

    mutating func noteServed(_ date: Timestamp, to account: String, _ installation: String, at now: Timestamp) {}
}

/// The façade's rules over ledgers in memory.
struct RuleServer: DateServer {
    struct Home {
        var account = Ledger()
        var server = ServerLedger()
        var seen: [String: SeenDates] = [:]
        var repeated: Set<String> = []
    }

    let catalog: Catalog
    let rules: ExpiryRules
    var homes: [String: Home] = [:]

    init(_ catalog: Catalog) throws {
        self.catalog = catalog
        guard let rules = ExpiryRules(catalog, group: "random") else { throw ModelError() }
        self.rules = rules
    }

    func read(_ account: String, by installation: String, at now: Timestamp) -> Timestamp? {
        guard let home = homes[account] else { return nil }
        let facts = Facts(account: home.account, server: home.server.ledger)
        return Replay(facts, catalog: catalog).snapshot(at: now)[group: "random"]?.periods.map(\.end).max()
    }

    mutating func noteServed(_ date: Timestamp, to account: String, _ installation: String, at now: Timestamp) {
        _ = homes[account, default: Home()].seen[installation, default: SeenDates()].noteServed(date, at: now)
    }

    mutating func write(_ date: Timestamp, to account: String, by installation: String, at now: Timestamp) {
        let own = SeenDates(joining: homes.values.compactMap { $0.seen[installation] })
        var situation = ExpiryRules.Situation(own: own, now: now)
        situation.end = read(account, by: installation, at: now)
        var home = homes[account] ?? Home()
        situation.others = home.seen.filter { $0.key != installation }.sorted { $0.key < $1.key }.map(\.value)
        let facts = Facts(account: home.account, server: home.server.ledger)
        situation.asserted = facts.assertions.map(\.reference.until)
        situation.isRepeated = !home.repeated.insert("\(installation) \(date.milliseconds)").inserted
        let time = facts.latestTime.next(at: now)
        switch rules.outcome(of: date, in: situation) {
        case .nothing: break
        case .purchase(let product):
            let id = TransactionReference(
                store: DerivedPurchases.store, id: TransactionID("\(account) \(installation) \(date.milliseconds)"))
            let purchase = Purchase(
                transaction: id, product: product, terms: catalog.terms(of: product), date: now,
                stamp: Stamp(logicalTime: time))
            home.account = home.account.joined(with: Ledger([Fact.purchase(purchase).record]))
        case .assertion(let until, _):
            let assertion = Assertion(
                Assertion.Reference(group: "random", source: "parse", until: until), assertedAt: now, recordedAt: now,
                replica: .placeholder, logicalTime: time)
            home.account = home.account.joined(with: Ledger([Fact.assertion(assertion).record]))
        }
        _ = home.seen[installation, default: SeenDates()].noteWritten(date, at: now)
        homes[account] = home
        match(account, now)
    }

    mutating func state(_ purchase: Purchase, of account: String, at now: Timestamp) {
        homes[account, default: Home()].account = (homes[account]?.account ?? Ledger())
            .joined(with: Ledger([Fact.purchase(purchase).record]))
        match(account, now)
    }

    private mutating func match(_ account: String, _ now: Timestamp) {
        guard var home = homes[account] else { return }
        let matches = DerivedPurchases.matches(
            account: home.account, server: home.server.ledger, catalog: catalog, now: now)
        home.server.decide(about: matches, catalog: catalog, at: now)
        homes[account] = home
    }
}

struct ModelError: Error {}

/// An app of the tutorials on one device.
struct OldDevice {
    let installation: String
    var account = "owl"
    /// The date in the app's user defaults.
    var local: Timestamp?
    /// The difference between its clock and the true time, in milliseconds.
    var clockOffset: Int64 = 0
    /// True for the sample of 2016, which adds months to a date that is long past.
    var addsToPast = false
    /// Writes that wait for a connection (`saveEventually`).
    var waiting: [Timestamp] = []

    /// The sample's `syncExpiration`: the later date wins, in both directions.
    mutating func sync(_ server: inout some DateServer, at now: Timestamp) {
        flush(&server, at: now)
        let remote = read(&server, at: now)
        if let remote, remote > local ?? .earliest {
            local = remote
        } else if let local, local > remote ?? .earliest {
            server.write(local, to: account, by: installation, at: now)
        }
    }

    /// The sample's `purchaseSubscriptionWithMonths`. Returns the date to write.
    mutating func buy(
        _ duration: CalendarDuration, _ server: inout some DateServer, isOnline: Bool = true, at now: Timestamp
    ) -> Timestamp {
        if isOnline { flush(&server, at: now) }
        let remote = isOnline ? read(&server, at: now) : nil
        let own = Timestamp(milliseconds: now.milliseconds + clockOffset)
        var base = [local, remote].compactMap { $0 }.max() ?? own
        if base < own, !addsToPast { base = own }
        let date = base.adding(duration)
        local = date
        return date
    }

    private mutating func flush(_ server: inout some DateServer, at now: Timestamp) {
        for date in waiting { server.write(date, to: account, by: installation, at: now) }
        waiting = []
    }

    private func read(_ server: inout some DateServer, at now: Timestamp) -> Timestamp? {
        let date = server.read(account, by: installation, at: now)
        if let date { server.noteServed(date, to: account, installation, at: now) }
        return date
    }
}
