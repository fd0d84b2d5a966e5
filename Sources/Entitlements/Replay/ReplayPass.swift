/// One pass over the facts: values each purchase and sorts it to its group or product.
struct ReplayPass {
    let facts: Facts
    let catalog: Catalog
    let environment: EnvironmentID
    private(set) var timelines: [GroupID: Timeline] = [:]
    private(set) var ownerships: [ProductID: Ownership] = [:]
    private(set) var verdicts: [TransactionReference: Replay.Verdict] = [:]

    private var soldTime: [GroupID: [SoldTime]] = [:]
    private var givenEnds: [GroupID: [Period]] = [:]

    init(facts: Facts, catalog: Catalog, environment: EnvironmentID) {
        self.facts = facts
        self.catalog = catalog
        self.environment = environment
    }

    mutating func run() {
        for purchase in facts.purchases {
            let verdict = value(purchase)
            verdicts[purchase.transaction] = verdict
            if case .counts(let kind) = verdict { count(purchase, as: kind) }
        }
        for product in facts.flagsSet.keys {
            let set = facts.flagsSet[product]
            let isOwned = catalog.policy.rules.flags.isOwned(set: set, cleared: facts.flagsCleared[product])
            ownerships[product, default: Ownership()].isFlagged = isOwned
        }
        // The catalogue's groups appear even when nothing was bought in them.
        for group in Set(catalog.groups).union(soldTime.keys).union(givenEnds.keys) {
            let stacked = catalog.policy.rules.expiry.periods(of: soldTime[group] ?? [])
            timelines[group] = Timeline(stacked + (givenEnds[group] ?? []))
        }
    }

    private func value(_ purchase: Purchase) -> Replay.Verdict {
        guard purchase.transaction.environment == environment else {
            return .setAside(.otherEnvironment(purchase.transaction.environment))
        }
        guard let terms = purchase.terms ?? catalog.terms(of: purchase.product) else {
            return .setAside(.unknownProduct)
        }
        guard Purchase.quantityRange.contains(purchase.quantity), terms.areWithinBounds else {
            return .setAside(.outOfBounds)
        }
        if case .consumable = terms.kind, catalog.policy.rules.consumables == .deviceLocal,
            !facts.isOnDevice(purchase)
        {
            return .setAside(.otherDevice)
        }
        return .counts(terms.kind)
    }

    private mutating func count(_ purchase: Purchase, as kind: ProductKind) {
        let revocation = facts.revocations[purchase.transaction]
        switch kind {
        case .consumable:
            break  // Balances are replayed on demand: they depend on spends and on the instant.
        case .nonConsumable:
            let holding = Period(
                start: purchase.date, end: max(purchase.date, revocation?.revokedAt ?? .latest),
                transaction: purchase.transaction, product: purchase.product, revokedAt: revocation?.revokedAt)
            ownerships[purchase.product, default: Ownership()].holdings.append(holding)
        case .nonRenewing(let group, let duration):
            soldTime[group, default: []].append(sold(purchase, duration: duration, revocation: revocation))
        case .autoRenewable(let group, _, let duration, _):
            // The store's own end counts where it gave one; it renews, so nothing is appended.
            let sold = sold(purchase, duration: duration, revocation: revocation)
            let end = purchase.storeExpiry ?? sold.end(from: purchase.date)
            givenEnds[group, default: []].append(sold.period(from: purchase.date, to: end))
        }
    }

    private func sold(_ purchase: Purchase, duration: CalendarDuration, revocation: Revocation?) -> SoldTime {
        let bonus = purchase.terms?.bonus ?? catalog.policy.bonus
        return SoldTime(
            purchase: purchase, duration: duration.multiplied(by: purchase.quantity), bonus: bonus,
            revocation: revocation,
            recordings: (facts.recordings[purchase.transaction] ?? []).sorted { $0.replica < $1.replica })
    }
}

extension Terms {
    var areWithinBounds: Bool {
        guard bonus.isWithinBounds else { return false }
        switch kind {
        case .consumable(let units): return CatalogChecker.unitRange.contains(units)
        case .nonConsumable: return true
        case .nonRenewing(_, let duration), .autoRenewable(_, _, let duration, _):
            return duration != .zero && duration.isWithinBounds
        }
    }
}
