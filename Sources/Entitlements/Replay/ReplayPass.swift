/// One pass over the facts, which values each purchase and assigns it to its group or product.
struct ReplayPass {
    let facts: Facts
    let catalog: Catalog
    let environment: EnvironmentID
    private(set) var timelines: [GroupID: Timeline] = [:]
    private(set) var partialTimelines: [Entitlement.Source: Timeline] = [:]
    private(set) var ownerships: [ProductID: Ownership] = [:]
    private(set) var verdicts: [Replay.Verdict] = []

    private var soldTime: [GroupID: [SoldTime]] = [:]
    private var renewals: [GroupID: [SoldRenewal]] = [:]

    init(facts: Facts, catalog: Catalog, environment: EnvironmentID) {
        self.facts = facts
        self.catalog = catalog
        self.environment = environment
    }

    mutating func run() {
        verdicts.reserveCapacity(facts.purchases.count)
        for purchase in facts.purchases {
            let verdict = value(purchase)
            verdicts.append(verdict)
            if case .counts(let kind) = verdict { count(purchase, as: kind) }
        }
        for (reference, marks) in facts.flags where reference.environment == environment {
            let counted = facts.resets[environment].map { marks.after($0.logicalTime) } ?? marks
            ownerships[reference.product, default: Ownership()].isFlagged =
                catalog.policy.rules.flags.isOwned(counted)
        }
        let assertions = Dictionary(grouping: facts.assertions.filter(counts), by: \.reference.group)
        // The catalogue's groups appear even if they have no purchases.
        let groups = Set(catalog.groups).union(soldTime.keys).union(renewals.keys).union(assertions.keys)
        for group in groups {
            let statements = Self.merged(soldTime[group] ?? [], asserted(assertions[group] ?? []))
            let stacked = catalog.policy.rules.expiry.periods(of: statements)
            let lines = RenewalLines(sold: renewals[group] ?? [], facts: facts)
            timelines[group] = Timeline(stacked + lines.periods())
        }
        for source in catalog.partialSources { partialTimelines[source] = Timeline(periods(of: source)) }
    }

    /// The periods that a level or an auto-renewable product counts, in the order of their groups.
    private func periods(of source: Entitlement.Source) -> [Period] {
        if case .level(let group, _) = source {
            return timelines[group]?.contributions.filter(source.counts) ?? []
        }
        // A product may have been sold in another group.
        return timelines.keys.sorted().flatMap { timelines[$0]?.contributions.filter(source.counts) ?? [] }
    }

    private func counts(_ assertion: Assertion) -> Bool {
        assertion.reference.environment == environment
            && !facts.precedesReset(assertion.logicalTime, in: environment)
    }

    private func asserted(_ assertions: [Assertion]) -> [AssertedTime] {
        assertions.map { AssertedTime(assertion: $0, isAtRemote: facts.isConfirmed(.assertion($0))) }
    }

    /// Merges both lists in the order of replay: an assertion follows the purchases made on or before the date of its
    /// statement.
    private static func merged(_ sold: [SoldTime], _ asserted: [AssertedTime]) -> [TimelineInput] {
        var statements: [TimelineInput] = []
        var waiting = asserted[...]
        for purchase in sold {
            while let next = waiting.first, next.assertion.assertedAt < purchase.purchase.date {
                statements.append(.asserted(next))
                waiting.removeFirst()
            }
            statements.append(.sold(purchase))
        }
        return statements + waiting.map(TimelineInput.asserted)
    }

    private func value(_ purchase: Purchase) -> Replay.Verdict {
        if let reason = objection(to: purchase) { return .setAside(reason) }
        return worth(of: purchase)
    }

    /// Returns the end of what `purchase` would give if it counted; `.earliest` if it gives nothing.
    ///
    /// - Parameter end: The end of the time that counts, to which a non-renewing product would add.
    func end(of purchase: Purchase, after end: Timestamp?) -> Timestamp {
        guard case .counts(let kind) = worth(of: purchase) else { return .earliest }
        switch kind {
        case .consumable, .nonConsumable: return .latest
        case .nonRenewing(_, let duration):
            return sold(purchase, duration: duration, revokedAt: nil).end(from: max(purchase.date, end ?? .earliest))
        case .autoRenewable(_, _, let duration, let offer): return renewalEnd(of: purchase, duration, offer)
        }
    }

    /// The verdict on a purchase to which nothing objects.
    private func worth(of purchase: Purchase) -> Replay.Verdict {
        guard let terms = purchase.terms ?? catalog.terms(of: purchase.product) else {
            return .setAside(.unknownProduct)
        }
        guard Purchase.quantityRange.contains(purchase.quantity), terms.areWithinBounds,
            purchase.storeExpiry.map(purchase.bounds) ?? true, !purchase.isIntroductory || terms.offerIsWithinBounds
        else { return .setAside(.outOfBounds) }
        if case .consumable = terms.kind, catalog.policy.rules.consumables == .deviceLocal,
            !facts.isOnDevice(purchase)
        {
            return .setAside(.otherDevice)
        }
        return .counts(terms.kind)
    }

    private func objection(to purchase: Purchase) -> SetAside? {
        let sold = purchase.transaction.environment
        guard sold == environment else { return .otherEnvironment(sold) }
        if facts.resets[sold] != nil, facts.precedesReset(facts.firstRecorded(purchase), in: sold) {
            return .precedesReset
        }
        switch facts.acceptance(of: purchase)?.decision {
        case .refused(let reason): return .refused(reason)
        case .transferred(let account): return .transferred(to: account)
        case .accepted, .countsAsOf, nil: break
        }
        return facts.policy == .verified && !facts.isVerified(purchase) ? .unverified : nil
    }

    private mutating func count(_ purchase: Purchase, as kind: ProductKind) {
        let status = facts.effectiveStatus(of: purchase)
        let revokedAt = status?.revokedAt
        switch kind {
        case .consumable:
            break  // Balances are replayed on demand: they depend on spends and on the instant.
        case .nonConsumable:
            let holding = Period(
                start: purchase.date, end: max(purchase.date, revokedAt ?? .latest),
                origin: .purchase(purchase.transaction, purchase.product), revokedAt: revokedAt)
            ownerships[purchase.product, default: Ownership()].holdings.append(holding)
        case .nonRenewing(let group, let duration):
            soldTime[group, default: []].append(sold(purchase, duration: duration, revokedAt: revokedAt))
        case .autoRenewable(let group, let level, let duration, let introductory):
            renewals[group, default: []].append(
                SoldRenewal(
                    purchase: purchase, level: level, end: renewalEnd(of: purchase, duration, introductory),
                    revokedAt: revokedAt, upgradedAt: status?.upgradedAt))
        }
    }

    private func renewalEnd(
        of purchase: Purchase, _ duration: CalendarDuration, _ offer: IntroductoryOffer?
    ) -> Timestamp {
        if let storeExpiry = purchase.storeExpiry { return storeExpiry }
        let duration = purchase.isIntroductory ? offer?.duration ?? duration : duration
        return sold(purchase, duration: duration, revokedAt: nil).end(from: facts.termsStart(of: purchase))
    }

    /// The recordings in ascending order of replica. Under `verified`, clients' recordings have no effect, because an
    /// end that a client states can grant time.
    private func recordings(of purchase: Purchase) -> [Recording] {
        facts.policy == .trusted ? facts.recordings(of: purchase) : []
    }

    private func sold(_ purchase: Purchase, duration: CalendarDuration, revokedAt: Timestamp?) -> SoldTime {
        let policy = catalog.policy
        let bonus = purchase.terms?.bonus ?? catalog.policy.bonus
        return SoldTime(
            purchase: purchase,
            duration: policy.counted(duration, in: environment).multiplied(by: purchase.quantity),
            bonus: policy.counted(bonus, in: environment), revokedAt: revokedAt,
            recordings: recordings(of: purchase),
            isAtRemote: facts.isConfirmed(purchase))
    }
}

extension Terms {
    var areWithinBounds: Bool {
        guard bonus.isWithinBounds else { return false }
        switch kind {
        case .consumable(let units): return CatalogChecker.unitRange.contains(units)
        case .nonConsumable: return true
        case .nonRenewing(_, let duration):
            return duration == .forever || duration != .zero && duration.isWithinBounds
        case .autoRenewable(_, let level, let duration, _):
            // A forged level 0 would rank above the highest.
            return level >= 1 && duration != .zero && duration.isWithinBounds
        }
    }

    /// True if there is no introductory offer or its duration is within bounds.
    var offerIsWithinBounds: Bool {
        guard case .autoRenewable(_, _, _, let introductory?) = kind else { return true }
        return introductory.duration.isWithinBounds
    }
}
