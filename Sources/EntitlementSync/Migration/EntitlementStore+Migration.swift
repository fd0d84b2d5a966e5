public import Entitlements

/// What a migration did.
public struct MigrationReport: Hashable, Sendable {
    /// The facts that were new to the account's ledger. Migrating the same again adds none.
    public var newFacts: [Fact]
    /// How many statements added nothing, because they are known or because purchases say as much.
    public var knownCount: Int
    /// Expiries that had passed when they were stated: nothing is left of them, and nothing was added.
    public var lapsed: [Timestamp]
    /// What looks like a purchase and was left out.
    public var ignored: [Migration.Ignored]

    /// The expiries that were added, ascending.
    public var newExpiries: [Timestamp] {
        newFacts.compactMap { if case .assertion(let assertion) = $0 { assertion.reference.until } else { nil } }
            .sorted()
    }

    /// The products whose unlocking was added, ascending.
    public var newlyOwned: [ProductID] {
        newFacts.compactMap { if case .flag(let flag) = $0 { flag.product } else { nil } }.sorted()
    }
}

extension EntitlementStore {
    /// Takes over what an app knows that did it the tutorials' way. All of it is checked before anything is written,
    /// and written at once: durable on return, or not there.
    ///
    /// An expiry becomes an assertion: it adds the time from the end so far to its date, never a duration. An unlocked
    /// product becomes a flag. Migrating again adds nothing, on any device, and so does the echo of an expiry that this
    /// store computed itself, or of a product whose purchase it knows. Migrate before selling: of an expiry that comes
    /// after a purchase nobody can tell whether it is that purchase's own.
    ///
    /// - Parameters:
    ///   - migration: what the other system says.
    ///   - group: what its expiries are for; when not given, the only non-renewing group of the catalogue.
    /// - Throws: ``EntitlementError`` of kind `unknownProduct` (a product or a group that the catalogue does not have),
    ///   `invalid` (no group is given and there is not just one, or a product is no non-consumable), `ledgerFull`,
    ///   `accountErased`, `storage` or `damaged`.
    @discardableResult
    public func migrate(_ migration: Migration, group: GroupID? = nil) async throws(EntitlementError)
        -> MigrationReport
    {
        let plan = try MigrationPlan(migration, group: group, of: self)
        let session = session
        await refreshClock()
        let now = now
        let before = try await session.ledgers.current()
        guard plan.statementCount > 0 else { return plan.report(of: [], in: before, now: now) }
        let trial = try plan.facts(in: before, replica: MigrationPlan.trialReplica, now: now)
        // What adds nothing writes nothing, not even a replica's id. Of a ledger that was adopted nobody can tell yet.
        guard try LocalLedgers.union(of: before.account, and: trial) != nil || before.claim != nil else {
            return plan.report(of: [], in: before, now: now)
        }
        let facts = try await session.ledgers.append(to: .account) { (state, replica) throws(EntitlementError) in
            try plan.facts(in: state, replica: replica, now: now)
        }.facts
        await tell(of: facts, in: session)
        return plan.report(of: facts, in: before, now: now)
    }

    /// Joins the facts of another ledger into the account's, all at once: durable on return, or not there.
    ///
    /// Facts keep their identity, so that joining twice adds nothing. What only its own place can say stays out:
    /// claims, decisions of a server, requests that are pending and notes of a device.
    ///
    /// - Returns: the facts that were new.
    /// - Throws: ``EntitlementError`` of kind `invalid` (the ledger is the marker of an erased account), `ledgerFull`,
    ///   `accountErased`, `storage` or `damaged`.
    @discardableResult
    public func join(_ ledger: Ledger) async throws(EntitlementError) -> [Fact] {
        guard !ledger.isErased else {
            throw EntitlementError(.invalid, "the account of this ledger was erased: it holds nothing to take over")
        }
        let records = ledger.transferable.records
        let session = session
        let facts = try await session.ledgers.append(to: .account) { state in
            state.account.ledger.missing(of: records).map(Fact.init(verbatim:))
        }.facts
        await tell(of: facts, in: session)
        return facts
    }
}

/// A migration, checked against a catalogue.
private struct MigrationPlan: Sendable {
    let migration: Migration
    private var assertions: RecordingPlan
    private let environment: EnvironmentID
    private let expiries: [Timestamp]
    private let owned: [ProductID]

    /// Stands for a replica's id while it is found out whether anything is new.
    static let trialReplica: ReplicaID = {
        var generator = ZeroGenerator()
        return .random(using: &generator)
    }()

    init(_ migration: Migration, group: GroupID?, of store: EntitlementStore) throws(EntitlementError) {
        self.migration = migration
        environment = store.environment
        expiries = Set(migration.expiries).sorted()
        owned = Set(migration.owned).sorted()
        assertions = RecordingPlan(catalog: store.catalog, environment: store.environment, host: store.host)
        for product in owned {
            guard let known = store.catalog[product: product] else { throw .unknown(product) }
            guard known.kind == .nonConsumable else {
                throw EntitlementError(
                    .invalid, "\"\(product)\" is \(known.kind.name), only a nonConsumable has a flag")
            }
        }
        let group = try Self.group(group, for: expiries, in: store.catalog)
        guard let group else { return }
        for expiry in expiries {
            try assertions.add(
                .asserted(group, until: expiry, source: migration.source, assertedAt: migration.statedAt))
        }
    }

    /// The group that expiries are for; `nil` when it does not matter.
    private static func group(_ given: GroupID?, for expiries: [Timestamp], in catalog: Catalog)
        throws(EntitlementError) -> GroupID?
    {
        if let given {
            guard catalog.groups.contains(given) else {
                throw EntitlementError(
                    .unknownProduct, "the catalogue has no group \"\(given.rawValue.singleLine)\"")
            }
            return given
        }
        let groups = Set(
            catalog.products.compactMap { product in
                if case .nonRenewing(let group, _) = product.kind { group } else { nil }
            })
        guard !expiries.isEmpty else { return nil }
        guard groups.count == 1 else {
            let names = groups.sorted().map { "\"\($0)\"" }.joined(separator: ", ")
            let choice = groups.isEmpty ? "the catalogue has no non-renewing group" : "it may be for \(names)"
            throw EntitlementError(.invalid, "which group the expiry is for must be given: \(choice)")
        }
        return groups.first
    }

    var statementCount: Int { expiries.count + owned.count }

    /// The facts that the account's ledger lacks.
    func facts(in state: LocalLedgers.State, replica: ReplicaID, now: Timestamp) throws(EntitlementError) -> [Fact] {
        var facts: [Fact] = []
        var time = state.facts.latestTime
        for fact in try assertions.facts(for: .account, in: state, replica: replica, now: now) {
            guard case .assertion(let assertion) = fact else { continue }
            time = max(time, assertion.logicalTime)
            // Nothing is ever left of it.
            guard assertion.reference.until > assertion.assertedAt else { continue }
            facts.append(fact)
        }
        for product in owned where !state.facts.tells(of: product, in: environment) {
            time = time.next(at: now)
            facts.append(
                .flag(
                    Flag(
                        product: product, environment: environment, isSet: true, date: now, replica: replica,
                        logicalTime: time)))
        }
        return state.account.ledger.missing(of: facts.map(\.record)).map(Fact.init(verbatim:))
    }

    func report(of newFacts: [Fact], in before: LocalLedgers.State, now: Timestamp) -> MigrationReport {
        let statedAt = migration.statedAt ?? now
        let new = MigrationReport(newFacts: newFacts, knownCount: 0, lapsed: [], ignored: [])
        let known = expiries.filter { !new.newExpiries.contains($0) }
        let lapsed = known.filter { expiry in
            expiry <= statedAt
                && !before.facts.assertions.contains {
                    $0.reference.until == expiry && $0.reference.source == migration.source
                }
        }
        return MigrationReport(
            newFacts: newFacts, knownCount: statementCount - newFacts.count - lapsed.count, lapsed: lapsed,
            ignored: migration.ignored)
    }
}

extension Facts {
    /// Whether it is known how `product` was come by: a purchase, or a mark that was once set. A mark besides a
    /// purchase would stand against its refund; one set anew would stand against its withdrawal.
    fileprivate func tells(of product: ProductID, in environment: EnvironmentID) -> Bool {
        flags[FlagMarks.Reference(product, environment)]?.set != nil
            || purchases.contains { $0.product == product && $0.transaction.environment == environment }
    }
}

extension Fact {
    /// The fact of `record`, whose bytes it keeps: one with fields that this version does not know is carried along
    /// unread.
    fileprivate init(verbatim record: Record) {
        let fact = Fact(record)
        self = fact.record == record ? fact : .unreadable(record, reason: "it holds more than this version knows")
    }
}

private struct ZeroGenerator: RandomNumberGenerator {
    mutating func next() -> UInt64 { 0 }
}
