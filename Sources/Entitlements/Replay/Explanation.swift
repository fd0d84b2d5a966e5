/// Why access to an entitlement is as it is: for each source every fact that concerns it, and what became of it.
public struct Explanation: Hashable, Sendable {
    /// What one fact contributes.
    public enum Effect: Hashable, Sendable {
        /// It gives this period, possibly an empty one.
        case period(Period)
        /// It gives ownership for this period; the end is ``Timestamp/latest`` when there is none.
        case ownership(Period)
        /// It grants so many units, after which so many are there.
        case units(Int64, balance: Int64)
        /// It spends so many units, after which so many are left; some were not covered and written off.
        case spent(Int64, writtenOff: Int64, balance: Int64)
        /// It takes another fact back.
        case revokes
        /// It makes a purchase count again that was taken back.
        case reinstates
        /// It says how a subscription goes on, and gives no time of its own.
        case informs
        /// It makes a purchase count as of this date.
        case redates(Timestamp)
        /// It lets a purchase count as it stands.
        case accepts
        /// It makes a product owned.
        case flagCounts
        /// It waits for approval.
        case waits
        /// It is dated after the instant asked about.
        case notYet
        /// It counts nothing, for this reason.
        case setAside(SetAside)
    }

    /// One fact and its effect.
    public struct Line: Hashable, Sendable {
        /// The fact.
        public var fact: Fact
        /// What became of it.
        public var effect: Effect
    }

    /// One source of the entitlement and its facts, in the order of replay.
    public struct Section: Hashable, Sendable {
        /// The source.
        public var source: Entitlement.Source
        /// Its facts.
        public var lines: [Line]
    }

    /// The entitlement.
    public var entitlement: EntitlementID
    /// The instant asked about.
    public var at: Timestamp
    /// The outcome.
    public var access: Access
    /// A section for each source, in the catalogue's order.
    public var sections: [Section]
}

extension Replay {
    /// Why access to `entitlement` is as it is at `instant`; `nil` when the catalogue does not know it.
    public func explanation(
        of entitlement: EntitlementID, at instant: Timestamp, context: AccessContext = AccessContext()
    ) -> Explanation? {
        guard let known = catalog[entitlement: entitlement] else { return nil }
        return Explanation(
            entitlement: entitlement, at: instant, access: access(to: known, at: instant, context: context),
            sections: known.grantedBy.map { source in
                Explanation.Section(source: source, lines: lines(for: source, at: instant))
            })
    }

    private func lines(for source: Entitlement.Source, at instant: Timestamp) -> [Explanation.Line] {
        switch source {
        case .group(let group):
            return time(of: group, at: instant)
                + requests(for: catalog.products.filter { $0.kind.group == group }.map(\.id))
        case .product(let product):
            let holdings = ownerships[product]?.holdings ?? []
            return withStatements(facts.purchases.filter { $0.product == product }, at: instant) { purchase in
                holdings.filter { $0.transaction == purchase.transaction }.map(Explanation.Effect.ownership)
            } + flags(of: product) + requests(for: [product])
        case .units(let product):
            return units(of: product, at: instant) + requests(for: [product])
        }
    }

    private func time(of group: GroupID, at instant: Timestamp) -> [Explanation.Line] {
        let periods = timelines[group]?.contributions ?? []
        let purchases = facts.purchases.filter { purchase in
            (purchase.terms ?? catalog.terms(of: purchase.product))?.kind.group == group
        }
        var lines = withStatements(purchases, at: instant) { purchase in
            periods.filter { $0.origin == .purchase(purchase.transaction, purchase.product) }.map { period in
                period.isEmpty && period.revokedAt == nil && period.level == nil
                    ? .setAside(.overruled(rules.expiry.name)) : .period(period)
            }
        }
        for assertion in facts.assertions where assertion.reference.group == group {
            lines.append(Explanation.Line(fact: .assertion(assertion), effect: effect(of: assertion, periods)))
        }
        for line in Set(purchases.map(\.line)).sorted() {
            guard let state = facts.renewalStates[line] else { continue }
            let grace = periods.first { period in
                guard case .grace(let transaction, _) = period.origin else { return false }
                return facts[transaction]?.line == line
            }
            let effect = grace.map(Explanation.Effect.period) ?? .informs
            lines.append(Explanation.Line(fact: .renewalState(state), effect: effect))
        }
        return lines
    }

    private func effect(of assertion: Assertion, _ periods: [Period]) -> Explanation.Effect {
        guard assertion.reference.environment == environment else {
            return .setAside(.otherEnvironment(assertion.reference.environment))
        }
        if facts.isBehindReset(assertion.logicalTime, in: environment) { return .setAside(.behindReset) }
        guard let period = periods.first(where: { $0.origin == .assertion(assertion.reference) }), !period.isEmpty
        else { return .setAside(facts.isConfirmed(.assertion(assertion)) ? .covered : .overruled(rules.expiry.name)) }
        return .period(period)
    }

    /// Each purchase with its effects, and what stores and the account's server stated about it.
    private func withStatements(
        _ purchases: [Purchase], at instant: Timestamp, _ effects: (Purchase) -> [Explanation.Effect]
    ) -> [Explanation.Line] {
        purchases.flatMap { purchase -> [Explanation.Line] in
            var lines: [Explanation.Line] = []
            if case .setAside(let reason) = verdicts[purchase.transaction] {
                lines.append(Explanation.Line(fact: .purchase(purchase), effect: .setAside(reason)))
            } else {
                lines += effects(purchase).map { Explanation.Line(fact: .purchase(purchase), effect: $0) }
            }
            if let acceptance = facts.acceptances[purchase.transaction] {
                lines.append(Explanation.Line(fact: .acceptance(acceptance), effect: acceptance.effect))
            }
            if let revocation = facts.revocations[purchase.transaction] {
                lines.append(Explanation.Line(fact: .revocation(revocation), effect: effect(of: revocation, instant)))
            }
            return lines
        }
    }

    private func effect(of revocation: Revocation, _ instant: Timestamp) -> Explanation.Effect {
        if facts.isOverruled(revocation) { return .setAside(.unsigned) }
        guard let revokedAt = revocation.revokedAt else { return .reinstates }
        return revokedAt <= instant ? .revokes : .notYet
    }

    private func flags(of product: ProductID) -> [Explanation.Line] {
        let isFlagged = ownerships[product]?.isFlagged ?? false
        return facts.flags.keys.filter { $0.product == product }.sorted().flatMap { reference in
            [facts.flags[reference]?.set, facts.flags[reference]?.cleared].compactMap { $0 }.map { flag in
                Explanation.Line(fact: .flag(flag), effect: effect(of: flag, isFlagged))
            }
        }
    }

    private func effect(of flag: Flag, _ isFlagged: Bool) -> Explanation.Effect {
        guard flag.environment == environment else { return .setAside(.otherEnvironment(flag.environment)) }
        if facts.isBehindReset(flag.logicalTime, in: environment) { return .setAside(.behindReset) }
        return flag.isSet == isFlagged && isFlagged ? .flagCounts : .setAside(.overruled(rules.flags.name))
    }

    private func requests(for products: [ProductID]) -> [Explanation.Line] {
        products.filter(isPending).compactMap { facts.pending[$0] }.map {
            Explanation.Line(fact: .pending($0), effect: .waits)
        }
    }

    private func units(of product: ProductID, at instant: Timestamp) -> [Explanation.Line] {
        let steps = balanceSteps(of: product, at: instant).map { step in
            switch step.cause {
            case .grant(let purchase):
                Explanation.Line(fact: .purchase(purchase), effect: .units(step.units, balance: step.balance))
            case .spend(let spend):
                Explanation.Line(
                    fact: .spend(spend),
                    effect: .spent(step.units, writtenOff: step.writtenOff, balance: step.balance))
            }
        }
        let counted = Set(steps.map(\.fact))
        let others = facts.purchases.filter { $0.product == product && !counted.contains(.purchase($0)) }
        let strays = facts.spends.filter { $0.product == product && !counted.contains(.spend($0)) }
        return steps
            + withStatements(others, at: instant) { purchase in
                facts.revocation(of: purchase) == nil ? [.notYet] : []
            } + strays.map { Explanation.Line(fact: .spend($0), effect: .setAside(reason(against: $0))) }
    }

    private func reason(against spend: Spend) -> SetAside {
        guard spend.environment == environment else { return .otherEnvironment(spend.environment) }
        return facts.isBehindReset(spend.logicalTime, in: environment) ? .behindReset : .otherDevice
    }
}

extension Acceptance {
    fileprivate var effect: Explanation.Effect {
        switch decision {
        case .accepted: .accepts
        case .countsAsOf(let date): .redates(date)
        case .refused(let reason): .setAside(.refused(reason))
        case .transferred(let account): .setAside(.transferred(to: account))
        }
    }
}
