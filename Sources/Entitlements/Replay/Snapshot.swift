/// All that holds at one instant, sorted.
public struct Snapshot: Hashable, Sendable {
    /// The instant.
    public var at: Timestamp
    /// Whether somebody was signed in, and whether the account's facts were at hand.
    public var context: AccessContext
    /// Every group, ascending.
    public var subscriptions: [Subscription]
    /// The non-consumables that are owned, ascending.
    public var owned: [ProductID]
    /// The units of every consumable, ascending.
    public var balances: [Balance]
    /// Every entitlement, ascending.
    public var access: [EntitlementAccess]
    /// Products whose purchase waits for approval, ascending.
    public var pending: [ProductID]

    /// A group at one instant.
    public struct Subscription: Hashable, Sendable {
        /// The group.
        public var group: GroupID
        /// Whether the instant lies in a period.
        public var isActive: Bool
        /// The level of service in an auto-renewable group: the highest of those that are active, 1 is the highest;
        /// `nil` in other groups and when nothing is active.
        public var level: Int64?
        /// What was bought that counts now, or last when nothing is active; `nil` when no purchase gives it.
        public var product: ProductID?
        /// How the store goes on with it, when it renews it and said so.
        public var renewal: Renewal?
        /// The end of the current chain of periods, or of the last one when inactive; `nil` when none has begun.
        public var expires: Timestamp?
        /// Days until ``expires``, rounded up; 0 only when inactive.
        public var daysRemaining: Int
        /// All periods, past and future, ascending.
        public var periods: [Period]
    }

    /// The units of a consumable.
    public struct Balance: Hashable, Sendable {
        /// The consumable.
        public var product: ProductID
        /// How many are left, 0 or more.
        public var units: Int64
    }

    /// Access to one entitlement.
    public struct EntitlementAccess: Hashable, Sendable {
        /// The entitlement.
        public var entitlement: EntitlementID
        /// Whether it is granted.
        public var access: Access
    }

    /// Access to `entitlement`, `nil` when the catalogue does not know it.
    public subscript(access entitlement: EntitlementID) -> Access? {
        access.first { $0.entitlement == entitlement }?.access
    }

    /// The state of `group`, `nil` when neither catalogue nor facts know it.
    public subscript(group group: GroupID) -> Subscription? {
        subscriptions.first { $0.group == group }
    }

    /// The units left of `product`, 0 when there never were any.
    public subscript(balance product: ProductID) -> Int64 {
        balances.first { $0.product == product }?.units ?? 0
    }
}

extension Replay {
    /// All that holds at `instant`.
    public func snapshot(at instant: Timestamp, context: AccessContext = AccessContext()) -> Snapshot {
        Snapshot(
            at: instant, context: context,
            subscriptions: timelines.keys.sorted().map { subscription($0, at: instant) },
            owned: ownerships.keys.filter { isOwned($0, at: instant) }.sorted(),
            balances: consumables.map { Snapshot.Balance(product: $0, units: balance(of: $0, at: instant)) },
            access: catalog.entitlements.map {
                Snapshot.EntitlementAccess(
                    entitlement: $0.id, access: access(to: $0, at: instant, context: context))
            },
            pending: facts.pending.keys.filter(isPending).sorted())
    }

    private func subscription(_ group: GroupID, at instant: Timestamp) -> Snapshot.Subscription {
        let timeline = timelines[group] ?? Timeline()
        let isActive = timeline.isActive(at: instant)
        let expires = timeline.chain(at: instant)?.end
        let leading = leadingPeriod(of: timeline, at: instant)
        return Snapshot.Subscription(
            group: group, isActive: isActive, level: isActive ? leading?.level : nil, product: leading?.product,
            renewal: renewal(of: leading), expires: expires,
            daysRemaining: isActive ? expires.map(instant.daysRemaining(until:)) ?? 0 : 0, periods: timeline.periods)
    }

    /// The next instant after `instant` at which something may change without a new fact: a chain of periods begins or
    /// ends, or the date of a purchase that counts or of its revocation comes; `nil` when nothing is to come.
    public func nextBoundary(after instant: Timestamp) -> Timestamp? {
        var times = timelines.values.compactMap { $0.nextBoundary(after: instant) }
        // Within a chain the level may change.
        for timeline in timelines.values {
            times += timeline.periods.lazy.filter { $0.level != nil }.flatMap { [$0.start, $0.end] }
        }
        for purchase in facts.purchases {
            guard case .counts = verdicts[purchase.transaction] else { continue }
            times.append(purchase.date)
            if let revokedAt = facts.revocationDate(of: purchase) { times.append(revokedAt) }
        }
        return times.filter { $0 > instant }.min()
    }
}
