import Entitlements

/// A change of an account that other systems may want to know.
struct ProjectionEvent: Equatable, Sendable {
    enum Kind: String, Sendable, CaseIterable {
        case accountCreated = "account.created"
        case accountErased = "account.erased"
        case purchaseRecorded = "purchase.recorded"
        case subscriptionStarted = "subscription.started"
        case subscriptionRenewed = "subscription.renewed"
        case subscriptionExpiring = "subscription.expiring"
        case subscriptionExpired = "subscription.expired"
        case purchaseRefunded = "purchase.refunded"
        case purchaseReinstated = "purchase.reinstated"
        case purchaseTransferred = "purchase.transferred"
        case accessGranted = "access.granted"
        case accessRevoked = "access.revoked"
    }

    var kind: Kind
    var account: String
    /// The environment that it concerns; `nil` for the account itself.
    var environment: String?
    /// The time at which the projection learned of it, in milliseconds since 1970 UTC.
    var at: Int64
    var body: JSON
}

extension ProjectionEvent {
    /// The events that lead from one state of an account to the next, in an order that a reader can follow: the
    /// account, its purchases, its subscriptions, its access.
    ///
    /// - Parameters:
    ///   - before: The former rows; `nil` for an account that is new.
    ///   - after: The rows now; `nil` for an account that was erased.
    ///   - now: The time, in milliseconds since 1970 UTC.
    static func events(from before: ProjectedAccount?, to after: ProjectedAccount?, at now: Int64) -> [ProjectionEvent]
    {
        var change = Difference(before: before, after: after, now: now)
        change.compare()
        return change.events
    }
}

/// The comparison of two states of an account.
private struct Difference {
    let before: ProjectedAccount?
    let after: ProjectedAccount?
    let now: Int64
    var events: [ProjectionEvent] = []

    /// The largest number of facts in an event that is not about one purchase.
    private static let factCount = 20
    /// The number of events of one change after which events about purchases do not contain the entitlements. Otherwise
    /// an account with many purchases would fill the memory.
    private static let completeCount = 100
    /// The entitlements before and after, as JSON.
    private let entitlementsBefore: JSON
    private let entitlements: JSON

    init(before: ProjectedAccount?, after: ProjectedAccount?, now: Int64) {
        (self.before, self.after, self.now) = (before, after, now)
        entitlementsBefore = .array((before?.access ?? []).map(\.json))
        entitlements = .array((after?.access ?? []).map(\.json))
    }

    mutating func compare() {
        if let before, before.incarnation != after?.incarnation {
            add(.accountErased, of: before)
            guard let after else { return }
            var next = Difference(before: nil, after: after, now: now)
            next.compare()
            return events += next.events
        }
        guard let after else { return }
        if before == nil { add(.accountCreated, of: after) }
        comparePurchases(after)
        compareSubscriptions(after)
        compareAccess(after)
    }

    private mutating func comparePurchases(_ after: ProjectedAccount) {
        let known = Dictionary((before?.purchases ?? []).map { ($0.transaction, $0) }) { $1 }
        var lines = Set(known.values.filter { $0.setAside == nil }.map(\.line))
        for purchase in after.purchases.sorted(by: { ($0.purchased, $0.transaction) < ($1.purchased, $1.transaction) })
        {
            let former = known[purchase.transaction]
            if former == nil { add(.purchaseRecorded, of: after, purchase) }
            let counts = purchase.setAside == nil && purchase.group != nil
            if counts, former?.setAside != nil || former == nil {
                let isFirst = lines.insert(purchase.line).inserted
                add(isFirst ? .subscriptionStarted : .subscriptionRenewed, of: after, purchase)
            }
            if purchase.revoked != nil, former?.revoked == nil { add(.purchaseRefunded, of: after, purchase) }
            if purchase.revoked == nil, former?.revoked != nil { add(.purchaseReinstated, of: after, purchase) }
            if let receiver = purchase.transferredTo, former?.transferredTo != receiver, former != nil {
                add(.purchaseTransferred, of: after, purchase)
            }
        }
    }

    private mutating func compareSubscriptions(_ after: ProjectedAccount) {
        for subscription in after.subscriptions {
            let former = before?.subscriptions.first {
                $0.environment == subscription.environment && $0.group == subscription.group
            }
            if subscription.announced != nil, former?.announced != subscription.announced, subscription.isActive {
                add(.subscriptionExpiring, of: after, subscription)
            }
            if !subscription.isActive, former?.isActive == true { add(.subscriptionExpired, of: after, subscription) }
        }
    }

    private mutating func add(
        _ kind: ProjectionEvent.Kind, of account: ProjectedAccount, _ subscription: ProjectedAccount.Subscription
    ) {
        let environment = subscription.environment
        add(
            kind, of: account, in: environment,
            [("subscription", subscription.json), ("facts", .array(facts(account, environment)))])
    }

    private mutating func add(
        _ kind: ProjectionEvent.Kind, of account: ProjectedAccount, in environment: String, entitlement: String
    ) {
        add(
            kind, of: account, in: environment,
            [("entitlement", .string(entitlement)), ("facts", .array(facts(account, environment)))])
    }

    /// The purchases that are new or have changed, which caused what the state after them means. There are none if time
    /// or the catalogue did.
    private func facts(_ account: ProjectedAccount, _ environment: String) -> [JSON] {
        let known = Set(before?.purchases ?? [])
        let changed = account.purchases.lazy.filter {
            $0.transaction.environment.rawValue == environment && !known.contains($0)
        }
        return changed.prefix(Self.factCount).map(\.json)
    }

    private mutating func compareAccess(_ after: ProjectedAccount) {
        let isKnown = Set(after.access.map { [$0.environment, $0.entitlement] })
        // An entitlement that the catalogue no longer has.
        for access in before?.access ?? []
        where access.isGranted && !isKnown.contains([access.environment, access.entitlement]) {
            add(.accessRevoked, of: after, in: access.environment, entitlement: access.entitlement)
        }
        for access in after.access {
            let former = before?.access.first {
                $0.environment == access.environment && $0.entitlement == access.entitlement
            }
            guard access.isGranted != (former?.isGranted ?? false) else { continue }
            add(
                access.isGranted ? .accessGranted : .accessRevoked, of: after, in: access.environment,
                entitlement: access.entitlement)
        }
    }

    private mutating func add(
        _ kind: ProjectionEvent.Kind, of account: ProjectedAccount, _ purchase: ProjectedAccount.Purchase
    ) {
        add(
            kind, of: account, in: purchase.transaction.environment.rawValue, [("facts", .array([purchase.json]))],
            isComplete: events.count < Self.completeCount)
    }

    private mutating func add(
        _ kind: ProjectionEvent.Kind, of account: ProjectedAccount, in environment: String? = nil,
        _ members: [(String, JSON)] = [], isComplete: Bool = true
    ) {
        let after = kind == .accountErased ? JSON.array([]) : entitlements
        let body: [(String, JSON)] =
            [
                ("type", .string(kind.rawValue)), ("timestamp", .string("\(Timestamp(milliseconds: now))")),
                ("account", .string(account.name)), ("externalId", JSON(account.externalID)),
                ("environment", JSON(environment)),
            ] + members
            + [
                ("entitlementsBefore", isComplete ? entitlementsBefore : .null),
                ("entitlements", isComplete ? after : .null),
            ]
        events.append(
            ProjectionEvent(
                kind: kind, account: account.name, environment: environment, at: now, body: .object(body)))
    }
}

extension ProjectedAccount.Purchase {
    /// The subscription or purchase with all its renewals.
    fileprivate var line: [String] { [transaction.store.rawValue, transaction.environment.rawValue, original] }

    var json: JSON {
        .object([
            ("store", .string(transaction.store.rawValue)), ("environment", .string(transaction.environment.rawValue)),
            ("transaction", .string(transaction.id.rawValue)), ("original", .string(original)),
            ("product", .string(product)), ("group", JSON(group)), ("purchased", .instant(purchased)),
            ("expires", .instant(expires)), ("quantity", .number(quantity)), ("revoked", .instant(revoked)),
            ("origin", .string(origin)), ("setAside", JSON(setAside)),
        ])
    }
}

extension ProjectedAccount.Subscription {
    var json: JSON {
        .object([
            ("environment", .string(environment)), ("group", .string(group)), ("active", .bool(isActive)),
            ("product", JSON(product)), ("expires", .instant(expires)),
        ])
    }
}

extension ProjectedAccount.Access {
    var json: JSON {
        .object([
            ("environment", .string(environment)), ("entitlement", .string(entitlement)), ("granted", .bool(isGranted)),
            ("since", .instant(since)), ("until", .instant(until)), ("source", JSON(source)),
            ("units", units.map(JSON.number) ?? .null), ("reason", JSON(reason)),
        ])
    }
}

extension JSON {
    /// The instant in RFC 3339; null for `nil`.
    static func instant(_ milliseconds: Int64?) -> JSON {
        JSON(milliseconds.map { "\(Timestamp(milliseconds: $0))" })
    }
}
