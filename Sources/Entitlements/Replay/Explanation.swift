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
            let holdings = Dictionary(grouping: ownerships[product]?.holdings ?? [], by: \.origin)
            return withStatements(facts.purchases(of: product), at: instant) { purchase in
                holdings[purchase.origin, default: []].map(Explanation.Effect.ownership)
            } + flags(of: product) + requests(for: [product])
        case .units(let product):
            return units(of: product, at: instant) + requests(for: [product])
        }
    }

    private func time(of group: GroupID, at instant: Timestamp) -> [Explanation.Line] {
        let periods = Dictionary(grouping: timelines[group]?.contributions ?? [], by: \.origin)
        let purchases = facts.purchases.filter { purchase in
            (purchase.terms ?? catalog.terms(of: purchase.product))?.kind.group == group
        }
        var lines = withStatements(purchases, at: instant) { purchase in
            periods[purchase.origin, default: []].map { period in
                period.isEmpty && period.revokedAt == nil && period.level == nil
                    ? .setAside(.overruled(rules.expiry.name)) : .period(period)
            }
        }
        for assertion in facts.assertions where assertion.reference.group == group {
            let period = periods[.assertion(assertion.reference)]?.first { !$0.isEmpty }
            lines.append(Explanation.Line(fact: .assertion(assertion), effect: effect(of: assertion, period)))
        }
        return lines + renewals(of: purchases, periods)
    }

    private func effect(of assertion: Assertion, _ period: Period?) -> Explanation.Effect {
        if let reason = objection(to: assertion.logicalTime, in: assertion.reference.environment) {
            return .setAside(reason)
        }
        if let period { return .period(period) }
        return .setAside(facts.isConfirmed(.assertion(assertion)) ? .covered : .overruled(rules.expiry.name))
    }

    /// What is said about the subscriptions that `purchases` belong to, by their first transaction.
    private func renewals(of purchases: [Purchase], _ periods: [Period.Origin: [Period]]) -> [Explanation.Line] {
        let members = Dictionary(grouping: purchases, by: \.line)
        return members.keys.sorted().compactMap { line -> Explanation.Line? in
            guard let state = facts.renewalStates[line], let members = members[line] else { return nil }
            let fact = Fact.renewalState(state)
            if let reason = objection(to: state.stamp.logicalTime, in: line.environment) {
                return Explanation.Line(fact: fact, effect: .setAside(reason))
            }
            if members.allSatisfy({ facts.renewalState(of: $0) == nil }) {
                return Explanation.Line(fact: fact, effect: .setAside(.unsigned))
            }
            let grace = members.lazy.compactMap { periods[.grace($0.transaction, $0.product)]?.first }.first
            return Explanation.Line(fact: fact, effect: grace.map(Explanation.Effect.period) ?? .informs)
        }
    }

    /// Each purchase with its effects, and what stores and the account's server stated about it.
    private func withStatements(
        _ purchases: [Purchase], at instant: Timestamp, _ effects: (Purchase) -> [Explanation.Effect]
    ) -> [Explanation.Line] {
        purchases.flatMap { purchase -> [Explanation.Line] in
            var effects = effects(purchase)
            switch verdicts[purchase.transaction] {
            case .setAside(let reason): effects = [.setAside(reason)]
            // No source of this kind counts it, or the rule gave no period.
            case .counts(let kind) where effects.isEmpty:
                effects = [.setAside(kind.group == nil ? .otherKind(kind.name) : .overruled(rules.expiry.name))]
            case .counts, nil: break
            }
            return effects.map { Explanation.Line(fact: .purchase(purchase), effect: $0) }
                + statements(about: purchase, at: instant)
        }
    }

    private func statements(about purchase: Purchase, at instant: Timestamp) -> [Explanation.Line] {
        var lines: [Explanation.Line] = []
        let environment = purchase.transaction.environment
        if let acceptance = facts.acceptances[purchase.transaction] {
            let objection = objection(to: nil, in: environment)
            lines.append(
                Explanation.Line(
                    fact: .acceptance(acceptance),
                    effect: objection.map(Explanation.Effect.setAside) ?? acceptance.effect))
        }
        if let misplaced = facts.misplacedAcceptances[purchase.transaction] {
            lines.append(Explanation.Line(fact: .acceptance(misplaced), effect: .setAside(.notFromServer)))
        }
        if let revocation = facts.revocations[purchase.transaction] {
            lines.append(Explanation.Line(fact: .revocation(revocation), effect: effect(of: revocation, instant)))
        }
        return lines
    }

    private func effect(of revocation: Revocation, _ instant: Timestamp) -> Explanation.Effect {
        if let reason = objection(to: revocation.stamp.logicalTime, in: revocation.transaction.environment) {
            return .setAside(reason)
        }
        if facts.isOverruled(revocation) { return .setAside(.unsigned) }
        guard let revokedAt = revocation.revokedAt else { return .reinstates }
        return revokedAt <= instant ? .revokes : .notYet
    }

    /// Why a fact of another environment, or one from before a reset, counts nothing.
    private func objection(to time: LogicalTime?, in other: EnvironmentID) -> SetAside? {
        guard other == environment else { return .otherEnvironment(other) }
        return time.map { facts.isBehindReset($0, in: other) } ?? false ? .behindReset : nil
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
        if let reason = objection(to: flag.logicalTime, in: flag.environment) { return .setAside(reason) }
        if flag.isSet { return isFlagged ? .flagCounts : .setAside(.overruled(rules.flags.name)) }
        let isSetToo = facts.flags[FlagMarks.Reference(flag.product, flag.environment)]?.set != nil
        return isFlagged || !isSetToo ? .setAside(.overruled(rules.flags.name)) : .revokes
    }

    private func requests(for products: [ProductID]) -> [Explanation.Line] {
        products.filter(isPending).compactMap { facts.pending[$0] }.map {
            Explanation.Line(fact: .pending($0), effect: .waits)
        }
    }

    private func units(of product: ProductID, at instant: Timestamp) -> [Explanation.Line] {
        var granting: Set<TransactionReference> = []
        var counted: Set<SpendID> = []
        let steps = balanceSteps(of: product, at: instant).flatMap { step -> [Explanation.Line] in
            switch step.cause {
            case .grant(let purchase):
                granting.insert(purchase.transaction)
                let effect = Explanation.Effect.units(step.units, balance: step.balance)
                return [Explanation.Line(fact: .purchase(purchase), effect: effect)]
                    + statements(about: purchase, at: instant)
            case .spend(let spend):
                counted.insert(spend.id)
                let effect = Explanation.Effect.spent(
                    step.units, writtenOff: step.writtenOff, balance: step.balance)
                return [Explanation.Line(fact: .spend(spend), effect: effect)]
            }
        }
        let others = facts.purchases(of: product).filter { !granting.contains($0.transaction) }
        let strays = facts.spends(of: product).filter { !counted.contains($0.id) }
        return steps
            + withStatements(others, at: instant) { purchase in
                guard case .counts(.consumable) = verdicts[purchase.transaction] else { return [] }
                guard purchase.date <= instant else { return [.notYet] }
                return facts.revocationDate(of: purchase).map { [.setAside(.revoked($0))] } ?? []
            } + strays.map { Explanation.Line(fact: .spend($0), effect: .setAside(reason(against: $0))) }
    }

    private func reason(against spend: Spend) -> SetAside {
        objection(to: spend.logicalTime, in: spend.environment) ?? .otherDevice
    }
}

extension Purchase {
    /// What the periods and holdings that it gives name as their origin.
    fileprivate var origin: Period.Origin { .purchase(transaction, product) }
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
