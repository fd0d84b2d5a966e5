public import Entitlements

/// The result of a migration.
public struct MigrationReport: Hashable, Sendable {
    /// The facts that were new to the account's ledger. Empty if the same data was migrated before.
    public var newFacts: [Fact]
    /// The number of expiries and products that added nothing: they were known already, or purchases cover them.
    public var knownCount: Int
    /// The expiries that had already passed at the time of the source's statement. They add nothing.
    public var lapsed: [Timestamp]

    /// The added expiry dates, in ascending order.
    public var newExpiries: [Timestamp] {
        newFacts.compactMap { if case .assertion(let assertion) = $0 { assertion.reference.until } else { nil } }
            .sorted()
    }

    /// The products that were added as owned, in ascending order.
    public var newlyOwned: [ProductID] {
        newFacts.compactMap { if case .flag(let flag) = $0 { flag.product } else { nil } }.sorted()
    }
}

extension EntitlementStore {
    /// Imports the state of an app that stored a bare expiry date and ownership flags.
    ///
    /// The migration is checked completely before anything is written, and written atomically. It is durable on return.
    ///
    /// An expiry becomes an assertion: it adds the time from the end of the group so far to its date, never a fixed
    /// duration. An owned product becomes a flag. A migration can be repeated on any device and then adds nothing. An
    /// expiry that this store computed itself, and a product whose purchase it knows, add nothing either.
    ///
    /// Migrate before you sell anything through this store. An expiry that is migrated after a purchase may already
    /// include that purchase.
    ///
    /// - Parameters:
    ///   - migration: The state of the other system.
    ///   - group: The group that the expiries apply to. The default is the only non-renewing group of the catalogue.
    /// - Returns: The new facts, and what added nothing.
    /// - Throws: ``EntitlementError`` of kind `unknownProduct` (a product or a group is not in the catalogue),
    ///   `invalid` (`group` is missing and the catalogue does not have exactly one non-renewing group, or a product is
    ///   not a non-consumable), `ledgerFull`, `accountErased`, `storage` or `damaged`.
    @discardableResult
    public func migrate(_ migration: Migration, group: GroupID? = nil) async throws(EntitlementError)
        -> MigrationReport
    {
        let plan = try MigrationPlan(migration, group: group, of: self)
        let session = session
        let before = try await load(session)
        let now = now
        guard plan.statementCount > 0 else { return plan.report(of: [], in: before, now: now) }
        let trial = try plan.facts(in: before, replica: .placeholder, now: now)
        // A migration that adds nothing writes nothing, not even a replica id. A claimed ledger can be checked only
        // after its adoption is complete.
        guard try before.ledger(.account, with: trial) != nil || before.claim != nil else {
            return plan.report(of: [], in: before, now: now)
        }
        let addition = try await session.append(to: .account, startingWith: before) {
            (state, replica) throws(EntitlementError) in
            try plan.facts(in: state, replica: replica, now: now)
        }
        await publish(addition.facts, in: session, addition.state)
        return plan.report(of: addition.facts, in: before, now: now)
    }

    /// Merges the facts of another ledger into the account's ledger, atomically. They are durable on return.
    ///
    /// Facts keep their identity, so that joining the same ledger again adds nothing. Facts that are meaningful only in
    /// their original ledger are left out: claims, decisions of a server, pending purchases and a device's notes.
    ///
    /// - Returns: The facts that were new.
    /// - Throws: ``EntitlementError`` of kind `invalid` (the ledger belongs to an erased account), `ledgerFull`,
    ///   `accountErased`, `storage` or `damaged`.
    @discardableResult
    public func join(_ ledger: Ledger) async throws(EntitlementError) -> [Fact] {
        guard !ledger.isErased else {
            throw EntitlementError(.invalid, "the account of this ledger was erased; it has no facts to join")
        }
        let records = ledger.transferable.records
        let session = session
        let addition = try await session.append(to: .account, startingWith: try await load(session)) { state, _ in
            state.account.ledger.missing(of: records).map(Fact.init(verbatim:))
        }
        await publish(addition.facts, in: session, addition.state)
        return addition.facts
    }
}

/// A migration that was checked against a catalogue.
private struct MigrationPlan: Sendable {
    let migration: Migration
    private var assertions: RecordingPlan
    private let environment: EnvironmentID
    private let expiries: [Timestamp]
    private let owned: [ProductID]

    init(_ migration: Migration, group: GroupID?, of store: EntitlementStore) throws(EntitlementError) {
        self.migration = migration
        environment = store.environment
        expiries = Set(migration.expiries).sorted()
        owned = Set(migration.owned).sorted()
        assertions = store.emptyPlan
        do { for product in owned { try store.catalog.checkHasFlag(product) } } catch { throw EntitlementError(error) }
        let group = try Self.group(group, for: expiries, in: store.catalog)
        guard let group else { return }
        for expiry in expiries {
            let evidence = Evidence.asserted(
                group, until: expiry, source: migration.source, assertedAt: migration.statedAt)
            do { try assertions.add(evidence) } catch { throw EntitlementError(error) }
        }
    }

    /// Returns the group that expiries apply to; `nil` if there are no expiries and no group was given.
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
            let choice = groups.isEmpty ? "the catalogue has no non-renewing group" : "choose one of \(names)"
            throw EntitlementError(.invalid, "the group of the expiry must be given: \(choice)")
        }
        return groups.first
    }

    var statementCount: Int { expiries.count + owned.count }

    /// Returns the facts that the account's ledger lacks.
    func facts(in state: LocalState, replica: ReplicaID, now: Timestamp) throws(EntitlementError) -> [Fact] {
        var facts: [Fact] = []
        var time = state.facts.latestTime
        let asserted: [Fact]
        do { asserted = try assertions.facts(for: .account, in: state.ledgers, replica: replica, now: now) } catch {
            throw EntitlementError(error)
        }
        for fact in asserted {
            guard case .assertion(let assertion) = fact else { continue }
            time = max(time, assertion.logicalTime)
            // An expiry in the past never adds any time.
            guard assertion.reference.until > assertion.assertedAt else { continue }
            facts.append(fact)
        }
        for product in owned where !state.facts.explainOwnership(of: product, in: environment) {
            time = time.next(at: now)
            facts.append(
                .flag(
                    Flag(
                        product: product, environment: environment, isSet: true, date: now, replica: replica,
                        logicalTime: time)))
        }
        return state.account.ledger.missing(of: facts.map(\.record)).map(Fact.init(verbatim:))
    }

    func report(of newFacts: [Fact], in before: LocalState, now: Timestamp) -> MigrationReport {
        let statedAt = migration.statedAt ?? now
        var report = MigrationReport(newFacts: newFacts, knownCount: 0, lapsed: [])
        report.lapsed = expiries.filter { expiry in
            expiry <= statedAt && !report.newExpiries.contains(expiry)
                && !before.facts.assertions.contains {
                    $0.reference.until == expiry && $0.reference.source == migration.source
                }
        }
        report.knownCount = statementCount - newFacts.count - report.lapsed.count
        return report
    }
}

extension Facts {
    /// True if the facts explain the ownership of `product`: a purchase, or a flag that was set once. A flag added to a
    /// purchase would outlive its refund, and a flag set again would undo its withdrawal.
    fileprivate func explainOwnership(of product: ProductID, in environment: EnvironmentID) -> Bool {
        flags[FlagMarks.Reference(product, environment)]?.set != nil
            || purchases.contains { $0.product == product && $0.transaction.environment == environment }
    }
}

extension Fact {
    /// Decodes `record`. A record with fields that this version does not know becomes an unreadable fact, which
    /// preserves its bytes.
    fileprivate init(verbatim record: Record) {
        let fact = Fact(record)
        self = fact.record == record ? fact : .unreadable(record, reason: "it has fields of a later version")
    }
}
