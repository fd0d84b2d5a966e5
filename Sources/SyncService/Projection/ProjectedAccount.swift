import EntitlementSync
import Entitlements
import SyncCore

/// The rows of one account: what its ledgers mean at one instant.
struct ProjectedAccount: Hashable, Sendable {
    /// The versions of the documents from which the rows were derived. Equal versions mean equal rows until
    /// ``nextChange``.
    struct Versions: Hashable, Sendable {
        var record: String
        var ledger: String?
        var serverLedger: String?
    }

    struct Purchase: Hashable, Sendable {
        var transaction: TransactionReference
        var original: String
        var product: String
        var group: String?
        var purchased: Int64
        var expires: Int64?
        var quantity: Int64
        var revoked: Int64?
        var origin: String
        /// The reason for which it does not count; `nil` if it counts.
        var setAside: String?
        /// The account to which it was transferred.
        var transferredTo: String?
    }

    struct PaidPeriod: Hashable, Sendable {
        var environment: String
        var group: String
        var position: Int64
        var period: Entitlements.Period
    }

    struct Subscription: Hashable, Sendable {
        var environment: String
        var group: String
        var isActive: Bool
        var product: String?
        /// The end of the current chain of periods, or of the last one; `nil` for none.
        var expires: Int64?
        /// The end if it is near or past; `nil` for none.
        var announced: Int64?
    }

    struct Access: Hashable, Sendable {
        var environment: String
        var entitlement: String
        var isGranted: Bool
        /// The start of the stretch of granted access; `nil` if access is denied or no period grants it.
        var since: Int64?
        /// The end of granted access, or the date at which it ended; `nil` for none.
        var until: Int64?
        var source: String?
        var units: Int64?
        /// The reason for which access is denied.
        var reason: String?
    }

    var name: String
    var incarnation: String
    var issuer: String?
    var created: Int64
    var versions: Versions
    /// The next instant at which time alone changes the rows or gives an event; `nil` for none.
    var nextChange: Int64?
    /// The id of the account's user in the app's own backend.
    var externalID: String?
    var purchases: [Purchase] = []
    /// The periods; empty if the rows come from the database.
    var periods: [PaidPeriod] = []
    /// The rows of periods that the database has.
    var storedPeriods: [[SQLValue]] = []
    var subscriptions: [Subscription] = []
    var access: [Access] = []
}

extension ProjectedAccount {
    /// The time before the end of a subscription at which the end is announced, in milliseconds: three days.
    static let notice: Int64 = 3 * 86_400_000

    /// Derives the rows of an account.
    ///
    /// - Parameters:
    ///   - record: The account's record.
    ///   - facts: The facts of its ledgers.
    ///   - catalog: The catalogue of the server.
    ///   - instant: The instant whose state the rows have.
    init(
        _ record: AccountRecord, _ account: Account, versions: Versions, facts: Facts, catalog: Catalog,
        at instant: Timestamp
    ) {
        (name, incarnation, issuer) = (record.name, account.incarnation, record.issuer)
        (created, self.versions) = (record.created, versions)
        var boundaries: [Int64] = []
        for environment in Self.environments(of: facts) {
            let replay = Replay(facts, catalog: catalog, environment: environment)
            let snapshot = replay.snapshot(at: instant)
            add(replay, environment)
            add(snapshot, replay, environment)
            if let next = replay.nextBoundary(after: instant) { boundaries.append(next.milliseconds) }
        }
        purchases.sort { $0.transaction < $1.transaction }
        // An end that lies ahead gives an event when it comes near.
        for subscription in subscriptions where subscription.isActive && subscription.announced == nil {
            if let end = subscription.expires { boundaries.append(end - Self.notice) }
        }
        nextChange = boundaries.filter { $0 > instant.milliseconds }.min()
    }

    private static func environments(of facts: Facts) -> [EnvironmentID] {
        let named =
            facts.purchases.map(\.transaction.environment) + facts.flags.keys.map(\.environment)
            + facts.assertions.map(\.reference.environment)
        return Set(named + [.production]).sorted()
    }

    /// The purchases of an environment, in the order of the facts.
    static func purchases(in replay: Replay) -> [Purchase] {
        let facts = replay.facts
        var paid: [TransactionReference: (group: GroupID, end: Timestamp)] = [:]
        for (group, timeline) in replay.timelines {
            for period in timeline.contributions {
                guard let transaction = period.transaction else { continue }
                paid[transaction] = (group, max(period.end, paid[transaction]?.end ?? .earliest))
            }
        }
        return facts.purchases.filter { $0.transaction.environment == replay.environment }.map { purchase in
            let reason = replay.reasonForSettingAside(purchase.transaction)
            var receiver: String?
            if case .transferred(let name) = reason { receiver = name }
            let isRevokedOnly = if case .revoked = reason { true } else { false }
            return Purchase(
                transaction: purchase.transaction, original: purchase.line.id.rawValue,
                product: purchase.product.rawValue, group: paid[purchase.transaction]?.group.rawValue,
                purchased: purchase.date.milliseconds,
                expires: paid[purchase.transaction]?.end.asEnd?.milliseconds,
                quantity: purchase.quantity, revoked: facts.revocationDate(of: purchase)?.milliseconds,
                origin: purchase.transaction.store == .support
                    ? "support"
                    : !facts.isVerified(purchase)
                        ? "reported" : purchase.stamp.signedDate == nil ? "imported" : "verified",
                setAside: isRevokedOnly ? nil : reason.map { "\($0)" }, transferredTo: receiver)
        }
    }

    private mutating func add(_ replay: Replay, _ environment: EnvironmentID) {
        purchases += Self.purchases(in: replay)
        for (group, timeline) in replay.timelines.sorted(by: { $0.key < $1.key }) {
            for (index, period) in timeline.periods.enumerated() {
                periods.append(
                    PaidPeriod(
                        environment: environment.rawValue, group: group.rawValue, position: Int64(index),
                        period: period))
            }
        }
    }

    private mutating func add(_ snapshot: Snapshot, _ replay: Replay, _ environment: EnvironmentID) {
        for subscription in snapshot.subscriptions where !subscription.periods.isEmpty {
            let end = subscription.expires?.milliseconds
            subscriptions.append(
                Subscription(
                    environment: environment.rawValue, group: subscription.group.rawValue,
                    isActive: subscription.isActive, product: subscription.product?.rawValue, expires: end,
                    announced: end.flatMap { $0 - snapshot.at.milliseconds <= Self.notice ? $0 : nil }))
        }
        for item in snapshot.access {
            var row = Access(
                environment: environment.rawValue, entitlement: item.entitlement.rawValue, isGranted: false)
            switch item.access {
            case .granted(let grant):
                row.isGranted = true
                row.until = grant.until?.milliseconds
                row.source = "\(grant.source)"
                row.units = grant.units
                row.since = start(of: grant.source, replay, environment, at: snapshot.at)
            case .denied(let denial):
                row.reason = denial.name
                row.until = denial.date?.milliseconds
            }
            access.append(row)
        }
    }

    /// The start of the time that grants access now: that of the chain of periods of a group, or the date of the
    /// purchase of a product.
    private func start(
        of source: Entitlement.Source, _ replay: Replay, _ environment: EnvironmentID, at instant: Timestamp
    ) -> Int64? {
        switch source {
        case .group(let group), .level(let group, _):
            return replay.timelines[group]?.chain(at: instant)?.start.milliseconds
        case .product(let product):
            return purchases.lazy.filter {
                $0.product == product.rawValue && $0.transaction.environment == environment && $0.setAside == nil
                    && $0.revoked == nil
            }.map(\.purchased).min()
        case .units: return nil
        }
    }
}
