import EntitlementSync
package import Entitlements
import SyncCore
package import SyncService
import WrittenDates

// The ends of groups, and the purchases that written dates mean.
extension ParseServer {
    /// The largest number of purchases and assertions that are derived for an account in one day.
    static let dailyLimit = 20

    /// The end of each group that a field shows, at most ``UserSave/dateLimit``.
    func ends(for caller: AccountCaller) async throws -> [GroupID: Timestamp] {
        guard let catalog = gateway.catalog else { return [:] }
        let ledgers = try await gateway.ledgers(of: caller)
        let replay = Replay(Facts(account: ledgers.account, server: ledgers.server), catalog: catalog)
        var ends: [GroupID: Timestamp] = [:]
        for field in configuration.fields.values {
            ends[field.group] = WrittenDate.end(of: field.group, replay).map { min($0, UserSave.dateLimit) }
        }
        return ends
    }

    /// Records what a written date means. Writing it again changes nothing.
    func record(_ date: Timestamp, _ field: ParseConfiguration.ExpiryField, _ caller: ParseCaller) async throws {
        guard let catalog = gateway.catalog else { return }
        let now = Timestamp(milliseconds: gateway.host.now())
        let (group, account) = (field.group, caller.account.account)
        let (seen, others) = try await dates(of: account, group, besides: caller.installation)
        let own = SeenDates(joining: [seen] + (try await ownDates(group, caller)))
        let id = gateway.digest(
            of: ["\(account)", account.incarnation, group.rawValue, caller.installation, "\(date.milliseconds)"]
                .joined(separator: "\n"))
        let written = WrittenDate(date, of: group, id: id, seen: seen, own: own, others: others, now: now)
        var line: String?
        try await gateway.record(for: caller.account) { ledger, server in
            line = nil
            let facts = Facts(account: ledger, server: server)
            let (outcome, new) = written.outcome(facts, rules: field.rules, catalog: catalog)
            guard !new.isEmpty else { return [] }
            guard Self.count(of: facts, since: now.milliseconds - 86_400_000) < Self.dailyLimit else {
                throw ParseError(155, "this account has too many purchases today", status: 429, retryAfter: 3_600)
            }
            if case .assertion(let until, isConflict: true) = outcome {
                line = "no sum of products explains the date \(date.iso); kept until \(until.iso)"
            }
            return new
        }
        if let line { onConflict("parse account=\(caller.account.name.singleLine) group=\(group): \(line)") }
        try await change(group, caller) { $0.rememberWritten(date, at: now) }
    }

    /// The number of purchases and assertions that were derived since a time, in milliseconds since 1970 UTC.
    private static func count(of facts: Facts, since start: Int64) -> Int {
        let store = DerivedPurchases.store
        return facts.purchases.count { $0.transaction.store == store && $0.date.milliseconds > start }
            + facts.assertions.count {
                $0.reference.source.rawValue == store.rawValue && $0.recordedAt.milliseconds > start
            }
    }

    /// Remembers the dates that an installation is served.
    func rememberServed(_ ends: [GroupID: Timestamp], to caller: ParseCaller) async throws {
        let now = Timestamp(milliseconds: gateway.host.now())
        for (group, end) in ends.sorted(by: { $0.key < $1.key }) {
            try await change(group, caller) { $0.rememberServed(end, at: now) }
        }
    }

    private func datesKey(_ caller: ParseCaller) throws(BackendError) -> EntryKey {
        try EntryKey(
            ParseDates.prefix(of: caller.account.account) + gateway.digest(of: "dates " + caller.installation))
    }

    private func indexPrefix(_ installation: String) -> String {
        ParseEntry.prefix + "installations/" + gateway.digest(of: "dates " + installation) + "/"
    }

    private func change(_ group: GroupID, _ caller: ParseCaller, _ body: (inout SeenDates) -> Bool) async throws {
        let (key, account) = (try datesKey(caller), caller.account.account)
        var isNew = false
        if try await gateway.records.read(key, as: ParseDates.self) == nil {
            isNew = true
            try await makeRoom(in: account)
            let name = gateway.digest(of: "\(account) \(account.incarnation)")
            let entry = try EntryKey(indexPrefix(caller.installation) + name)
            try await AccountEntries(records: gateway.records)
                .add(entry, of: account, under: ParseEntry.prefix + "installations/", atMost: ParseDates.limit)
            _ = try await gateway.records.update(entry) { (_: AccountIdentity?) in AccountIdentity(account) }
        }
        let now = gateway.host.now()
        _ = try await gateway.records.update(key) { (known: ParseDates?) in
            var dates = known ?? ParseDates()
            guard body(&dates.groups[group.rawValue, default: SeenDates()]) else { return nil }
            dates.changed = now
            return dates
        }
        guard isNew, try await gateway.epoch(of: account) == nil else { return }
        // The account was erased meanwhile.
        try await gateway.records.remove(key, as: ParseDates.self) { _ in true }
    }

    /// Forgets the installation that was seen least recently if the account has too many.
    private func makeRoom(in account: Account) async throws {
        var all: [(key: EntryKey, changed: Int64)] = []
        try await gateway.records.forEach(under: ParseDates.prefix(of: account), as: ParseDates.self) { key, held in
            all.append((key, held.value.changed))
        }
        guard all.count >= ParseDates.limit, let oldest = all.min(by: { $0.changed < $1.changed }) else { return }
        try await gateway.records.remove(oldest.key, as: ParseDates.self) { _ in true }
    }

    /// The dates of the caller's installation in the accounts that it has used.
    private func ownDates(_ group: GroupID, _ caller: ParseCaller) async throws -> [SeenDates] {
        let name = gateway.digest(of: "dates " + caller.installation)
        var parts: [SeenDates] = []
        let page = try await gateway.records.backend.list(
            prefix: indexPrefix(caller.installation), after: nil, limit: ParseDates.limit
        ).outcome
        for item in page.items {
            guard let account = try await gateway.records.read(item.key, as: AccountIdentity.self)?.value.account else {
                continue
            }
            let key = try EntryKey(ParseDates.prefix(of: account) + name)
            if let dates = try await gateway.records.read(key, as: ParseDates.self)?.value.groups[group.rawValue] {
                parts.append(dates)
            }
        }
        return parts
    }

    /// The dates of an installation in the account, and those of its other installations.
    private func dates(
        of account: Account, _ group: GroupID, besides installation: String
    ) async throws -> (own: SeenDates, others: [SeenDates]) {
        let own = gateway.digest(of: "dates " + installation)
        var found: (own: SeenDates, others: [SeenDates]) = (SeenDates(), [])
        try await gateway.records.forEach(under: ParseDates.prefix(of: account), as: ParseDates.self) { key, held in
            guard let dates = held.value.groups[group.rawValue] else { return }
            if key.text.hasSuffix("/" + own) { found.own = dates } else { found.others.append(dates) }
        }
        return found
    }
}

extension FacadeRule {
    /// Refuses the purchases that were derived from written dates and are transactions of stores.
    package static func derivedPurchases(_ catalog: Catalog) -> FacadeRule {
        FacadeRule(store: DerivedPurchases.store) { server, account, now in
            server.refuseDerivedPurchases(of: account, catalog: catalog, at: now)
        }
    }
}
