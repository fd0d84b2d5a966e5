/// The complete state of an account at one instant.
///
/// Every list is sorted, so equal states are equal values.
public struct Snapshot: Hashable, Sendable {
    /// The instant that the snapshot describes.
    public var at: Timestamp
    /// The sign-in and restore state in which access was decided.
    public var context: AccessContext
    /// The state of every group, in ascending order of their ids.
    public var subscriptions: [Subscription]
    /// The non-consumables that are owned, in ascending order.
    public var owned: [ProductID]
    /// The balance of every consumable, in ascending order.
    public var balances: [Balance]
    /// The access to every entitlement, in ascending order.
    public var access: [EntitlementAccess]
    /// The products whose purchase awaits approval, in ascending order.
    public var pending: [ProductID]

    /// The state of a group at one instant.
    public struct Subscription: Hashable, Sendable {
        /// The group.
        public var group: GroupID
        /// A Boolean value that indicates whether a period contains the instant.
        public var isActive: Bool
        /// The highest active level of service in an auto-renewable group, where 1 is the highest; `nil` in other
        /// groups and when nothing is active.
        public var level: Int64?
        /// The product of the period that counts now, or of the last one when nothing is active; `nil` if no purchase
        /// gives it.
        public var product: ProductID?
        /// The renewal state of the subscription; `nil` if the store stated none.
        public var renewal: Renewal?
        /// The end of the current chain of periods, or of the last one when nothing is active; `nil` if none has
        /// begun, and if the group is active for good.
        public var expires: Timestamp?
        /// The number of days until ``expires``, rounded up; 0 only when nothing is active, and `Int.max` if the group
        /// is active for good.
        public var daysRemaining: Int
        /// All periods, past and future, in ascending order.
        public var periods: [Period]

        /// A Boolean value that indicates whether a purchase that never ends makes the group active.
        public var isActiveForGood: Bool { isActive && expires == nil }
    }

    /// The balance of a consumable.
    public struct Balance: Hashable, Sendable {
        /// The consumable.
        public var product: ProductID
        /// The number of units left, 0 or more.
        public var units: Int64
    }

    /// The access to one entitlement.
    public struct EntitlementAccess: Hashable, Sendable {
        /// The entitlement.
        public var entitlement: EntitlementID
        /// The access decision.
        public var access: Access
        /// The period or ownership that grants access: of several, the one with the highest level, then the one that
        /// lasts longest. `nil` if units or a flag grant access, or nothing does.
        public var period: Period?
        /// A Boolean value that indicates whether ``period`` is a free introductory offer.
        public var isTrial = false
    }

    /// The access to `entitlement`; `nil` if the catalogue does not contain it.
    public subscript(access entitlement: EntitlementID) -> Access? {
        access.first { $0.entitlement == entitlement }?.access
    }

    /// The state of `group`; `nil` if neither the catalogue nor a fact names it.
    public subscript(group group: GroupID) -> Subscription? {
        subscriptions.first { $0.group == group }
    }

    /// The number of units of `product` that are left; 0 if there were never any.
    public subscript(balance product: ProductID) -> Int64 {
        balances.first { $0.product == product }?.units ?? 0
    }
}

extension Replay {
    /// Returns the complete state at `instant`.
    ///
    /// - Parameters:
    ///   - instant: The instant for which to derive the state.
    ///   - context: The sign-in and restore state. By default nothing is missing.
    public func snapshot(at instant: Timestamp, context: AccessContext = AccessContext()) -> Snapshot {
        Snapshot(
            at: instant, context: context,
            subscriptions: timelines.keys.sorted().map { subscription($0, at: instant) },
            owned: ownerships.keys.filter { isOwned($0, at: instant) }.sorted(),
            balances: consumables.map { Snapshot.Balance(product: $0, units: balance(of: $0, at: instant)) },
            access: catalog.entitlements.map { entitlementAccess(to: $0, at: instant, context: context) },
            pending: facts.pending.keys.filter(isPending).sorted())
    }

    /// Returns the access to `entitlement` at `instant`, with the period that grants it; `nil` if the catalogue does
    /// not contain it.
    package func entitlementAccess(
        to entitlement: EntitlementID, at instant: Timestamp, context: AccessContext = AccessContext()
    ) -> Snapshot.EntitlementAccess? {
        catalog[entitlement: entitlement].map { entitlementAccess(to: $0, at: instant, context: context) }
    }

    private func entitlementAccess(
        to entitlement: Entitlement, at instant: Timestamp, context: AccessContext
    ) -> Snapshot.EntitlementAccess {
        let access = access(to: entitlement, at: instant, context: context)
        guard case .granted(let grant) = access, let period = period(of: grant.source, at: instant) else {
            return Snapshot.EntitlementAccess(entitlement: entitlement.id, access: access)
        }
        return Snapshot.EntitlementAccess(
            entitlement: entitlement.id, access: access, period: period, isTrial: isTrial(period))
    }

    private func period(of source: Entitlement.Source, at instant: Timestamp) -> Period? {
        if let timeline = timeline(of: source) { return leadingPeriod(of: timeline, at: instant) }
        guard case .product(let product) = source, let ownership = ownerships[product] else { return nil }
        return ownership.holdings.filter { $0.contains(instant) }.max { $0.end < $1.end }
    }

    private func isTrial(_ period: Period) -> Bool {
        guard case .purchase(let transaction, let product) = period.origin,
            let purchase = facts.index(of: transaction).map({ facts.purchases[$0] }), purchase.isIntroductory,
            case .autoRenewable(_, _, _, let offer?) = (purchase.terms ?? catalog.terms(of: product))?.kind
        else { return false }
        return offer.mode == .free
    }

    private func subscription(_ group: GroupID, at instant: Timestamp) -> Snapshot.Subscription {
        let timeline = timelines[group] ?? Timeline()
        let isActive = timeline.isActive(at: instant)
        let end = timeline.chain(at: instant)?.end
        let leading = leadingPeriod(of: timeline, at: instant)
        return Snapshot.Subscription(
            group: group, isActive: isActive, level: isActive ? leading?.level : nil, product: leading?.product,
            renewal: renewal(of: leading), expires: end?.asEnd,
            daysRemaining: isActive ? end?.asEnd.map(instant.daysRemaining(until:)) ?? .max : 0,
            periods: timeline.periods)
    }

    /// Returns the next instant after `instant` at which the state may change without a new fact.
    ///
    /// Such an instant is the start or end of a period, the date of a purchase or revocation that counts, or a date
    /// from which a purchase that the server set aside would grant access, or would not any longer. Use it to schedule
    /// the next refresh.
    ///
    /// - Returns: The instant; `nil` if no change is due.
    public func nextBoundary(after instant: Timestamp) -> Timestamp? {
        // The period that counts, and its level, may change within a chain.
        var times = timelines.values.flatMap(\.periods).flatMap { [$0.start, $0.end] }
        for (purchase, verdict) in zip(facts.purchases, verdicts) {
            if case .setAside(let reason) = verdict {
                guard Access.Denial(reason) != nil else { continue }
                times += possibleEnds(of: purchase)
            }
            times.append(purchase.date)
            if let revokedAt = facts.revocationDate(of: purchase) { times.append(revokedAt) }
        }
        return times.filter { $0 > instant && $0 < .latest }.min()
    }
}
